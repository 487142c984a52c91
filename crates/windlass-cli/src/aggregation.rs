//! The flags about the API servers that extend the cluster.

use std::{error::Error, path::PathBuf};

use clap::Args;

use crate::certificates::CertificateFiles;

/// The client certificate for requests to other API servers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Aggregation")]
pub(crate) struct AggregationFlags {
    /// Client certificate for the requests to the API servers of APIServices. By default, one is generated at each start,
    /// and its CA is published in the ConfigMap extension-apiserver-authentication. Changes are applied within seconds
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,
    /// Key of the certificate of --proxy-client-cert-file
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,
}

impl AggregationFlags {
    /// Reads the certificate, if there is one.
    pub(crate) fn load(&self) -> Result<Option<CertificateFiles>, Box<dyn Error>> {
        let (Some(certificate), Some(key)) = (&self.proxy_client_cert_file, &self.proxy_client_key_file) else {
            return Ok(None);
        };
        CertificateFiles::read(certificate, key).map(Some)
    }
}
