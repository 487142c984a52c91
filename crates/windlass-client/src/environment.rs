//! The environment of the process: its variables, home directory and service account.

use std::{env, ffi::OsString, fmt, path::PathBuf};

/// The variable with the paths of one or more kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";

type Variables = dyn Fn(&str) -> Option<OsString>;

/// The environment to infer a configuration from. Tests replace it.
pub(crate) struct Environment {
    variable: Box<Variables>,
    home: Option<PathBuf>,
    /// The directory in which the kubelet mounts the service account.
    pub(crate) service_account: PathBuf,
}

impl Environment {
    pub(crate) fn of_the_process() -> Self {
        Self {
            variable: Box::new(|name| env::var_os(name)),
            home: env::home_dir(),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_a_test(variables: &[(&'static str, String)], home: &std::path::Path) -> Self {
        let variables = variables.to_vec();
        let variable = move |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Self { variable: Box::new(variable), home: Some(home.to_owned()), service_account: home.join("serviceaccount") }
    }

    /// Returns an environment variable that is set and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Returns the files of `$KUBECONFIG`, or else the default file.
    pub(crate) fn kubeconfig_paths(&self) -> Vec<PathBuf> {
        match self.variable(KUBECONFIG) {
            Some(list) => env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
            None => self.default_file().into_iter().collect(),
        }
    }

    pub(crate) fn default_file(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".kube").join("config"))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("home", &self.home).finish_non_exhaustive()
    }
}
