//! The inference of a configuration from the environment.

use std::{env, ffi::OsString, fmt, path::PathBuf};

use super::{Config, ConfigError, Kubeconfig, KubeconfigFiles, Selection, in_cluster};

/// The variable with the paths of one or more kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";

type Variables = dyn Fn(&str) -> Option<OsString>;

/// The environment to infer a configuration from. Tests replace it.
pub(super) struct Surroundings {
    variable: Box<Variables>,
    home: Option<PathBuf>,
    /// The directory in which the kubelet mounts the service account.
    pub(super) service_account: PathBuf,
}

impl Surroundings {
    pub(super) fn of_the_process() -> Self {
        Self {
            variable: Box::new(|name| env::var_os(name)),
            home: env::home_dir(),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }

    #[cfg(test)]
    pub(super) fn of_a_test(variables: &[(&'static str, String)], home: &std::path::Path) -> Self {
        let variables = variables.to_vec();
        let variable = move |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Self { variable: Box::new(variable), home: Some(home.to_owned()), service_account: home.join("serviceaccount") }
    }

    /// Returns an environment variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Returns the files of `$KUBECONFIG`, or else the default file.
    pub(super) fn kubeconfig_paths(&self) -> Vec<PathBuf> {
        match self.variable(KUBECONFIG) {
            Some(list) => env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
            None => self.default_file().into_iter().collect(),
        }
    }

    fn default_file(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".kube").join("config"))
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("home", &self.home).finish_non_exhaustive()
    }
}

pub(super) fn infer(surroundings: &Surroundings, selection: &Selection) -> Result<Config, ConfigError> {
    if let Some(kubeconfig) = KubeconfigFiles::of(surroundings).read()? {
        return Config::from_kubeconfig(&kubeconfig, selection);
    }
    if selection.names_server() {
        return Config::from_kubeconfig(&Kubeconfig::default(), selection);
    }
    match in_cluster::load(surroundings) {
        Err(ConfigError::NotInCluster { .. }) => {
            Err(ConfigError::NotFound { default_file: surroundings.default_file() })
        }
        Ok(config) => Ok(match &selection.namespace {
            Some(namespace) => config.with_default_namespace(namespace),
            None => config,
        }),
        Err(error) => Err(error),
    }
}
