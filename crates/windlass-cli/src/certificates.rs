//! Certificates in files that other programs renew: they are read again when they change.

use std::{
    error::Error,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tokio::time;
use windlass_api::{BoxError, ErrorChain};
use windlass_server::{ProxyIdentity, TlsIdentity};

/// The time between two reads of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The flags about the serving certificate.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CertificateFlags {
    /// Serving certificate in PEM, followed by the certificates of its CAs. By default, one is issued and renewed by the
    /// program. Changes are applied within seconds
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate of --tls-cert-file
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

/// A certificate and its key in two files.
#[derive(Clone)]
pub(crate) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// The content of both files that was used or rejected last.
    last: (String, String),
}

impl CertificateFlags {
    pub(crate) fn load(&self) -> Result<Option<CertificateFiles>, Box<dyn Error>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) else { return Ok(None) };
        CertificateFiles::read(certificate, key).map(Some)
    }
}

impl CertificateFiles {
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, Box<dyn Error>> {
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let last = (read(certificate)?, read(key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), last })
    }

    /// Returns the identity of a server. Clients are told to trust the certificates in the file.
    pub(crate) fn serving(&self) -> Result<TlsIdentity, Box<dyn Error>> {
        let (certificate, key) = &self.last;
        TlsIdentity::from_pem(certificate, key, certificate).map_err(|error| self.unusable(&error))
    }

    /// Returns the identity of a client.
    pub(crate) fn proxy(&self) -> Result<ProxyIdentity, Box<dyn Error>> {
        ProxyIdentity::from_pem(&self.last.0, &self.last.1).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &(dyn Error + 'static)) -> Box<dyn Error> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!("{certificate} or {key}: {}", ErrorChain(error)).into()
    }

    /// Calls `replace` with each new content of the files, until the future is dropped. While the content cannot be used, for
    /// example because only one of the files has been replaced, the previous certificate remains in use.
    pub(crate) async fn follow(mut self, replace: impl Fn(&str, &str) -> Result<(), BoxError>) {
        loop {
            time::sleep(RELOAD_INTERVAL).await;
            let (certificate, key) = (self.certificate.display(), self.key.display());
            match self.content().await {
                Ok(content) if content != self.last => {
                    match replace(&content.0, &content.1) {
                        Ok(()) => tracing::info!(%certificate, %key, "reloaded a certificate"),
                        Err(error) => {
                            let error = ErrorChain(&*error);
                            tracing::error!(%error, %certificate, %key, "cannot reload a certificate");
                        }
                    }
                    self.last = content;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, %certificate, %key, "cannot read a certificate again"),
            }
        }
    }

    async fn content(&self) -> io::Result<(String, String)> {
        let certificate = tokio::fs::read_to_string(&self.certificate).await?;
        Ok((certificate, tokio::fs::read_to_string(&self.key).await?))
    }
}

impl fmt::Debug for CertificateFiles {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificate, key, .. } = self;
        f.debug_struct("CertificateFiles").field("certificate", certificate).field("key", key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changed_files_replace_the_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let write = |name: &str| {
            fs::write(&certificate, format!("{name} certificate")).unwrap();
            fs::write(&key, format!("{name} key")).unwrap();
        };
        write("first");
        let files = CertificateFiles::read(&certificate, &key).unwrap();
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let called = Arc::clone(&calls);
        let following = tokio::spawn(files.follow(move |certificate, key| {
            called.lock().unwrap().push(format!("{certificate}, {key}"));
            if key.starts_with("second") { Err("unusable".into()) } else { Ok(()) }
        }));
        let until = async |count: usize| {
            while calls.lock().unwrap().len() < count {
                time::sleep(Duration::from_secs(1)).await;
            }
            // Without a change, there is no further call.
            time::sleep(RELOAD_INTERVAL * 3).await;
            calls.lock().unwrap().clone()
        };
        assert!(until(0).await.is_empty());
        write("second");
        assert_eq!(until(1).await, ["second certificate, second key"]);
        fs::remove_file(&key).unwrap();
        assert_eq!(until(1).await.len(), 1);
        write("third");
        assert_eq!(until(2).await[1], "third certificate, third key");
        following.abort();
    }

    #[test]
    fn errors_name_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let flags =
            CertificateFlags { tls_cert_file: Some(certificate.clone()), tls_private_key_file: Some(key.clone()) };
        let error = flags.load().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", certificate.display())), "{error}");
        fs::write(&certificate, "").unwrap();
        fs::write(&key, "no key").unwrap();
        let files = flags.load().unwrap().unwrap();
        assert!(!format!("{files:?}").contains("no key"), "{files:?}");
        let error = files.serving().unwrap_err().to_string();
        assert!(error.contains("tls.key: could not read the key as PEM"), "{error}");
        let error = files.proxy().unwrap_err().to_string();
        assert!(error.contains("tls.key: could not read the key of the proxy client as PEM"), "{error}");
        assert!(CertificateFlags::default().load().unwrap().is_none());
    }
}
