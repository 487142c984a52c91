//! The configuration from a pod's service account.

use std::{fs, path::Path};

use super::{Config, DEFAULT_NAMESPACE};
use crate::{auth::Auth, config_error::ConfigError, connection_options::Pem, environment::Environment};

const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

pub(super) fn load(environment: &Environment) -> Result<Config, ConfigError> {
    let variable = |name: &'static str| {
        let value = environment.variable(name).ok_or(ConfigError::NotInCluster { variable: name })?;
        Ok::<_, ConfigError>(value.to_string_lossy().into_owned())
    };
    let (host, port) = (variable(HOST)?, variable(PORT)?);
    let server = if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") };

    let token = environment.service_account.join("token");
    // Read both files now, so that a pod without them fails here and not with an error from the server.
    read(&token)?;
    let mut config = Config::new(server.parse().map_err(|_| ConfigError::Server { server })?);
    config.auth = Auth::TokenFile(token);
    let authority = environment.service_account.join("ca.crt");
    read(&authority)?;
    config.tls.certificate_authority = Some(Pem::File(authority));
    config.default_namespace = match fs::read_to_string(environment.service_account.join("namespace")) {
        Ok(namespace) if !namespace.trim().is_empty() => namespace.trim().to_owned(),
        Ok(_) | Err(_) => DEFAULT_NAMESPACE.to_owned(),
    };
    Ok(config)
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), named_by: None, source })
}
