//! TLS of the metrics endpoint, with a certificate that is renewed while the server runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::sleep;
use tokio_rustls::rustls::ServerConfig;
use windlass_api::{BoxError, Clock, ErrorChain};
use windlass_client::{
    certificates::{CertificateError, ServingCertificate, Validity, self_signed},
    config::{Identity, LiveIdentity, Pem},
};

use crate::{Error, Result};

/// The validity of a generated certificate, and the time until the next one is generated.
const LIFETIME: Duration = Duration::from_hours(365 * 24);
const RENEWAL: Duration = Duration::from_hours(180 * 24);
/// The interval at which certificate files are checked.
const RELOAD: Duration = Duration::from_secs(10);

/// TLS of the server.
pub(super) enum Tls {
    /// A generated certificate.
    SelfSigned,
    /// A certificate that the program manages.
    Certified(LiveIdentity),
    /// A certificate in files.
    Files(CertificateFiles),
}

/// The paths of a PEM certificate and its key, which may be replaced.
#[derive(Debug)]
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate file cannot be read or used.
#[derive(Debug, thiserror::Error)]
#[error("reading {}", path.display())]
struct UnreadableCertificate {
    path: PathBuf,
    source: io::Error,
}

/// The renewal of the certificate while the server runs.
enum CertificateRenewal {
    /// The program renews the certificate.
    None,
    /// The server generates a new one in time.
    Renew,
    /// The server reloads the files.
    Follow(CertificateFiles),
}

// === impl Tls ===

impl Tls {
    /// Uses a certificate and a key from files.
    pub(super) const fn files(certificate: PathBuf, key: PathBuf) -> Self {
        Self::Files(CertificateFiles { certificate, key })
    }

    /// Returns the configuration with the first certificate, and a future that renews the certificate forever.
    pub(super) fn start(self, clock: Clock) -> Result<(Option<Arc<ServerConfig>>, BoxFuture<'static, ()>)> {
        let (identity, renewal) = match self {
            Self::Certified(identity) => (identity, CertificateRenewal::None),
            Self::SelfSigned => {
                let identity = LiveIdentity::new();
                renew(&identity, &clock).map_err(Error::other)?;
                (identity, CertificateRenewal::Renew)
            }
            Self::Files(files) => {
                let identity = LiveIdentity::new();
                files.read(&identity).map_err(Error::other)?;
                (identity, CertificateRenewal::Follow(files))
            }
        };
        let config = tls_config(identity.clone())?;
        Ok((Some(config), renewal.run(identity, clock).boxed()))
    }
}

fn tls_config(identity: LiveIdentity) -> Result<Arc<ServerConfig>> {
    let provider = windlass_tls::provider().map_err(Error::other)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ServingCertificate::new(identity)));
    Ok(Arc::new(config))
}

/// Generates a certificate and puts it into use.
fn renew(identity: &LiveIdentity, clock: &Clock) -> Result<(), CertificateError> {
    let keyed = self_signed(["localhost", "127.0.0.1", "::1"], Validity::starting(clock.now(), LIFETIME))?;
    identity.set(keyed.identity());
    Ok(())
}

impl CertificateRenewal {
    /// Renews the certificate forever.
    async fn run(self, identity: LiveIdentity, clock: Clock) {
        let pause = match &self {
            Self::None => return std::future::pending().await,
            Self::Renew => RENEWAL,
            Self::Follow(_) => RELOAD,
        };
        loop {
            sleep(pause).await;
            let result = match &self {
                Self::None => Ok(()),
                Self::Renew => renew(&identity, &clock).map_err(BoxError::from),
                Self::Follow(files) => files.read(&identity).map_err(BoxError::from),
            };
            if let Err(error) = result {
                tracing::error!(error = %ErrorChain(&*error), "cannot renew the metrics certificate, the previous one stays in use");
            }
        }
    }
}

impl CertificateFiles {
    /// Loads the files if they have changed. Blocks on the file system for two small files.
    fn read(&self, identity: &LiveIdentity) -> Result<(), UnreadableCertificate> {
        let file = |path: &Path| {
            fs::read(path).map_err(|source| UnreadableCertificate { path: path.to_owned(), source }).map(Pem::Data)
        };
        let found = Identity::new(file(&self.certificate)?, file(&self.key)?);
        if identity.current().is_none_or(|current| *current != found) {
            identity.set(found);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_certificate_files_are_reloaded_if_valid() {
        let directory = std::env::temp_dir().join(format!("windlass-files-{}", std::process::id()));
        let files = CertificateFiles { certificate: directory.join("a.crt"), key: directory.join("a.key") };
        let identity = LiveIdentity::new();
        let in_use = || identity.current().map(|current| current.certificate.clone());
        fs::create_dir_all(&directory).unwrap();
        fs::write(&files.key, "key").unwrap();
        let error = files.read(&identity).unwrap_err().to_string();
        assert_eq!((error, in_use()), (format!("reading {}", files.certificate.display()), None));
        for text in ["first", "second"] {
            fs::write(&files.certificate, text).unwrap();
            files.read(&identity).unwrap();
            assert_eq!(in_use(), Some(Pem::Data(text.into())));
        }
        fs::remove_dir_all(&directory).unwrap();
        files.read(&identity).unwrap_err();
        assert_eq!(in_use(), Some(Pem::Data("second".into())));
    }
}
