//! The flags about the API servers that extend the cluster.

use std::{error::Error, fs, path::Path, path::PathBuf};

use clap::Args;
use windlass_server::ProxyIdentity;

/// The client certificate for requests to other API servers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Aggregation")]
pub(crate) struct AggregationFlags {
    /// Client certificate for the requests to the API servers of APIServices. By default, one is generated at each start,
    /// and its CA is published in the ConfigMap extension-apiserver-authentication
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,
    /// Key of the certificate of --proxy-client-cert-file
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,
}

impl AggregationFlags {
    /// Reads the certificate, if there is one.
    pub(crate) fn load(&self) -> Result<Option<ProxyIdentity>, Box<dyn Error>> {
        let (Some(certificate), Some(key)) = (&self.proxy_client_cert_file, &self.proxy_client_key_file) else {
            return Ok(None);
        };
        identity(certificate, key).map(Some)
    }
}

/// Reads a client certificate and its key.
pub(crate) fn identity(certificate: &Path, key: &Path) -> Result<ProxyIdentity, Box<dyn Error>> {
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let identity = ProxyIdentity::from_pem(&read(certificate)?, &read(key)?);
    identity.map_err(|error| format!("{} or {}: {error}", certificate.display(), key.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let flags = AggregationFlags {
            proxy_client_cert_file: Some(certificate.clone()),
            proxy_client_key_file: Some(key.clone()),
        };
        let error = flags.load().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", certificate.display())), "{error}");
        fs::write(&certificate, "").unwrap();
        fs::write(&key, "no key").unwrap();
        let error = flags.load().unwrap_err().to_string();
        assert!(error.ends_with("could not read the key of the proxy client as PEM"), "{error}");
        assert!(AggregationFlags::default().load().unwrap().is_none());
    }
}
