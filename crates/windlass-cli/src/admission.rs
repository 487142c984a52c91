//! The file that configures the admission plugins.

use std::{error::Error, fs, path::Path};

use serde_json::Value;
use windlass_api::BoxError;
use windlass_server::AdmissionConfiguration;

/// Reads a file of kind `AdmissionConfiguration` and the files of plugins that it references.
pub(crate) fn read(path: &Path) -> Result<AdmissionConfiguration, Box<dyn Error>> {
    // Paths in the file are relative to it.
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = content(path).map_err(|error| -> Box<dyn Error> { error })?;
    Ok(AdmissionConfiguration::parse(file, |other| content(&folder.join(other)))?)
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
        let missing = read(&path).unwrap_err();
        assert_eq!(missing.to_string(), "cannot read the admission configuration of PodSecurity");
        fs::write(folder.path().join("security.yaml"), PLUGIN).unwrap();
        assert_ne!(read(&path).unwrap(), AdmissionConfiguration::default());
    }
}
