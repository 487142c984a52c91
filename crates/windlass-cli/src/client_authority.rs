//! The CA of the client certificates that the controllers issue for CertificateSigningRequests. The server trusts it.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use windlass_api::{BoxError, Clock};
use windlass_client::certificates::{CertificateAuthority, CertificateStore, FileStore, Usage, Validity};
use windlass_controllers::{CertificateOrder, CertificateSigner};

/// The file with the certificate and the key in a data directory.
const FILE: &str = "pki/client-ca.pem";
const NAME: &str = "windlass-client-ca";
/// The validity of a new CA, as with kubeadm: ten years.
const VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);
/// The usages that certificates can have.
const USAGES: [Usage; 4] = [Usage::DigitalSignature, Usage::KeyEncipherment, Usage::ClientAuth, Usage::ServerAuth];

/// The CA with its key.
#[derive(Clone)]
pub(crate) struct ClientAuthority(Arc<CertificateAuthority>);

impl ClientAuthority {
    /// Reads the CA of a data directory, or creates it. Without a directory, it ends with the process.
    ///
    /// Blocks on the file system.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let store = directory.map(|directory| FileStore::new(directory.join(FILE)));
        let stored = match &store {
            Some(store) => store.load().map_err(|error| format!("{}: {error}", path(directory).display()))?,
            None => None,
        };
        if let Some(stored) = stored {
            return Ok(Self(Arc::new(CertificateAuthority::new(stored)?)));
        }
        let authority = CertificateAuthority::self_signed(NAME, Validity::starting(Clock::system().now(), VALIDITY))?;
        if let Some(store) = &store {
            store.save(authority.keyed())?;
        }
        Ok(Self(Arc::new(authority)))
    }

    /// Returns the certificate of the CA in PEM.
    pub(crate) fn pem(&self) -> &str {
        self.0.certificate().to_pem()
    }

    /// Returns the signer of the controllers.
    pub(crate) fn signer(&self) -> CertificateSigner {
        let authority = Arc::clone(&self.0);
        CertificateSigner::new(move |order| sign(&authority, order))
    }
}

fn path(directory: Option<&Path>) -> PathBuf {
    directory.unwrap_or_else(|| Path::new(".")).join(FILE)
}

fn sign(authority: &CertificateAuthority, order: CertificateOrder<'_>) -> Result<String, BoxError> {
    let of_name = |name: &String| {
        let usage = USAGES.into_iter().find(|usage| usage.as_str() == name);
        usage.ok_or_else(|| format!("certificates with the usage {name:?} are not supported"))
    };
    let usages = order.usages.iter().map(of_name).collect::<Result<Vec<_>, _>>()?;
    let end = authority.certificate().not_after;
    if order.from >= end {
        return Err(format!("the signer has expired: NotAfter={end}").into());
    }
    let validity = Validity { from: order.from, until: order.until.min(end) };
    Ok(authority.sign(order.request, &usages, validity)?.to_pem().to_owned())
}

impl std::fmt::Debug for ClientAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientAuthority").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_of_a_directory_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two] = [(); 2].map(|()| ClientAuthority::open(Some(directory.path())).unwrap());
        assert_eq!(one.pem(), two.pem());
        assert_ne!(one.pem(), ClientAuthority::open(None).unwrap().pem());
        std::fs::write(directory.path().join(FILE), "").unwrap();
        let error = ClientAuthority::open(Some(directory.path())).unwrap_err().to_string();
        assert!(error.contains("client-ca.pem"), "{error}");
    }
}
