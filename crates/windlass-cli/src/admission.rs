//! The admission plugins of a server: the flags of kube-apiserver, and the file that configures the plugins.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Args;
use serde_json::Value;
use windlass_api::BoxError;
use windlass_server::{AdmissionConfiguration, AdmissionPlugins};

/// The flags about admission plugins.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AdmissionFlags {
    /// File that configures admission plugins, with kind AdmissionConfiguration as for kube-apiserver
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Admission plugins to enable in addition to the default ones of kube-apiserver, separated by commas, such as
    /// NodeRestriction or AlwaysPullImages
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable although they are enabled by default, separated by commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
}

impl AdmissionFlags {
    pub(crate) fn load(&self) -> Result<AdmissionConfiguration, Box<dyn Error>> {
        let enabled: Vec<&str> = self.enable_admission_plugins.iter().map(String::as_str).collect();
        let disabled: Vec<&str> = self.disable_admission_plugins.iter().map(String::as_str).collect();
        load(AdmissionPlugins::new(&enabled, &disabled)?, self.admission_control_config_file.as_deref())
    }
}

/// Configures plugins by a file of kind `AdmissionConfiguration`, if there is one, and the files that it references.
pub(crate) fn load(plugins: AdmissionPlugins, file: Option<&Path>) -> Result<AdmissionConfiguration, Box<dyn Error>> {
    let Some(path) = file else { return Ok(AdmissionConfiguration::new(plugins)?) };
    // Paths in the file are relative to it.
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = content(path).map_err(|error| -> Box<dyn Error> { error })?;
    Ok(AdmissionConfiguration::of_plugins(plugins, file, &|other| inlined(&folder.join(other)))?)
}

/// Reads a file. The files that the users of a kubeconfig name become part of it.
fn inlined(path: &Path) -> Result<Value, BoxError> {
    let mut file = content(path)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let users = file.get_mut("users").and_then(Value::as_array_mut).into_iter().flatten();
    for user in users.filter_map(|user| user.get_mut("user").and_then(Value::as_object_mut)) {
        for (name, inline) in [
            ("client-certificate", "client-certificate-data"),
            ("client-key", "client-key-data"),
            ("tokenFile", "token"),
        ] {
            let Some(Value::String(other)) = user.remove(name) else { continue };
            let other = folder.join(other);
            let text =
                fs::read_to_string(&other).map_err(|error| format!("cannot read {}: {error}", other.display()))?;
            let text = if inline == "token" { text.trim().to_owned() } else { BASE64_STANDARD.encode(text) };
            // As in kube-apiserver, data in the kubeconfig has priority, and so has the file of a token.
            if inline == "token" || !user.contains_key(inline) {
                user.insert(inline.to_owned(), text.into());
            }
        }
    }
    Ok(file)
}

fn content(path: &Path) -> Result<Value, BoxError> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(serde_saphyr::from_str(&text).map_err(|error| format!("cannot read {}: {error}", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "apiVersion: apiserver.config.k8s.io/v1\n\
                        kind: AdmissionConfiguration\n\
                        plugins:\n\
                        - name: PodSecurity\n  path: security.yaml\n";
    const PLUGIN: &str = "apiVersion: pod-security.admission.config.k8s.io/v1\n\
                          kind: PodSecurityConfiguration\n\
                          defaults:\n  enforce: baseline\n";

    #[test]
    fn file_of_a_plugin_is_beside_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admission.yaml");
        fs::write(&path, FILE).unwrap();
        let read = |path: &Path| load(AdmissionPlugins::default(), Some(path));
        let missing = read(&path).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read the admission configuration of PodSecurity");
        fs::write(folder.path().join("security.yaml"), PLUGIN).unwrap();
        assert_ne!(read(&path).unwrap(), AdmissionConfiguration::default());
    }
    #[test]
    fn files_of_a_kubeconfig_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        fs::write(folder.path().join("t"), "secret\n").unwrap();
        fs::write(folder.path().join("c"), "certificate").unwrap();
        fs::write(&path, "users:\n- name: a\n  user: {tokenFile: t, client-certificate: c}\n").unwrap();
        let user = inlined(&path).unwrap()["users"][0]["user"].clone();
        let expected = serde_json::json!({"client-certificate-data": "Y2VydGlmaWNhdGU=", "token": "secret"});
        assert_eq!(user, expected);
        fs::remove_file(folder.path().join("t")).unwrap();
        assert!(inlined(&path).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn flags_select_plugins() {
        let load = |enabled: &str, disabled: &str| {
            let split = |names: &str| names.split_terminator(',').map(str::to_owned).collect();
            let flags = AdmissionFlags {
                enable_admission_plugins: split(enabled),
                disable_admission_plugins: split(disabled),
                ..AdmissionFlags::default()
            };
            flags.load().map_err(|error| error.to_string())
        };
        assert_eq!(load("NodeRestriction", ""), Ok(AdmissionConfiguration::default().with_node_restriction()));
        assert_ne!(load("", "LimitRanger"), Ok(AdmissionConfiguration::default()));
        assert_eq!(load("Everything", "").unwrap_err(), "enable-admission-plugins plugin \"Everything\" is unknown");
        let error = load("EventRateLimit", "").unwrap_err();
        assert!(error.contains("limits: Invalid value: null: must not be empty"), "{error}");
    }
}
