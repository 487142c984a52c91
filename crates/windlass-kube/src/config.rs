//! A Windlass configuration from that of kube-rs.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_client::{
    Config,
    config::{ConfigError, Kubeconfig, Selection},
};

/// The error of a configuration that cannot be converted. No variant contains a secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The configuration has additional headers, which Windlass configurations do not have.
    #[error("the kube-rs configuration adds headers to each request ({names}), which a Windlass configuration cannot")]
    Headers {
        /// The names of the headers.
        names: String,
    },
    /// The credentials cannot be encoded as a kubeconfig.
    #[error("encoding the credentials of the kube-rs configuration")]
    Credentials(#[source] serde_json::Error),
    /// A file cannot be read, or a value is invalid.
    #[error("converting the kube-rs configuration")]
    Config(#[from] ConfigError),
}

/// Converts a configuration of kube-rs: server, namespace, credentials, impersonation, TLS, proxy and compression.
///
/// As in kubectl, credentials are sent only to an `https` server. The timeouts for reading and writing are not
/// converted: Windlass limits the time of each request, but not that of a watch.
pub fn config(from: &kube::Config) -> Result<Config, ConversionError> {
    if !from.headers.is_empty() {
        let names = from.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(ConversionError::Headers { names });
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kube", "cluster": cluster(from)}],
        "users": [{"name": "kube", "user": user(&from.auth_info)?}],
        "contexts": [{"name": "kube", "context": {"cluster": "kube", "user": "kube"}}],
        "current-context": "kube",
    });
    // JSON is YAML.
    let kubeconfig = Kubeconfig::parse(&kubeconfig.to_string())?;
    let mut config = Config::from_kubeconfig(&kubeconfig, &Selection::default())?;
    config.default_namespace.clone_from(&from.default_namespace);
    if let Some(timeout) = from.connect_timeout {
        config.connect_timeout = timeout;
    }
    Ok(config)
}

fn cluster(from: &kube::Config) -> Value {
    let mut cluster = Map::new();
    cluster.insert("server".to_owned(), from.cluster_url.to_string().into());
    if from.accept_invalid_certs {
        cluster.insert("insecure-skip-tls-verify".to_owned(), true.into());
    } else if let Some(file) = from.root_cert_file.as_deref().and_then(Path::to_str) {
        // The file takes precedence, as in kube-rs, because it may be replaced.
        cluster.insert("certificate-authority".to_owned(), file.into());
    } else if let Some(certificates) = &from.root_cert {
        let pem: String = certificates.iter().map(|certificate| pem(certificate)).collect();
        cluster.insert("certificate-authority-data".to_owned(), BASE64_STANDARD.encode(pem).into());
    }
    if let Some(name) = &from.tls_server_name {
        cluster.insert("tls-server-name".to_owned(), name.as_str().into());
    }
    if let Some(proxy) = &from.proxy_url {
        cluster.insert("proxy-url".to_owned(), proxy.to_string().into());
    }
    if from.disable_compression {
        cluster.insert("disable-compression".to_owned(), true.into());
    }
    cluster.into()
}

/// Encodes the credentials. Removes the fields that kube-rs ignores because another field takes precedence; a
/// kubeconfig of Windlass must not have both.
fn user(from: &kube::config::AuthInfo) -> Result<Value, ConversionError> {
    let mut user = serde_json::to_value(from).map_err(ConversionError::Credentials)?;
    if let Some(fields) = user.as_object_mut() {
        for (preferred, ignored) in [
            ("token", "tokenFile"),
            ("client-certificate-data", "client-certificate"),
            ("client-key-data", "client-key"),
        ] {
            if fields.contains_key(preferred) {
                fields.remove(ignored);
            }
        }
    }
    Ok(user)
}

/// Encodes a certificate as PEM.
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests;
