//! Client certificates: a certificate signed by the client CA identifies its user.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use sha2::{Digest as _, Sha256};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::identity::User;
use crate::tls::TlsError;

/// The result of checking a connection's client certificate.
#[derive(Clone, Debug, Default)]
pub(crate) enum ClientCertificate {
    /// No certificate, or one without a user name.
    #[default]
    Nothing,
    /// The certificate of a user.
    Of(Arc<User>),
    /// A certificate that is not signed by the client CA, or has expired.
    Unknown,
    /// The certificate of a front proxy, which can name users in headers.
    Proxy {
        /// The common name.
        name: Arc<str>,
        /// The result for the client CA.
        otherwise: Box<Self>,
    },
}

/// The CA for client certificates. It can be replaced while the server runs.
///
/// The handshake accepts any certificate whose private key the client has. The certificate is verified with the first
/// request, so that the client gets a `Status` if it is rejected.
#[derive(Debug)]
pub(crate) struct ClientAuthority {
    verifier: RwLock<Arc<dyn ClientCertVerifier>>,
    /// Verifies the signatures of handshakes, which do not depend on the CA.
    signatures: Arc<dyn ClientCertVerifier>,
    generation: AtomicU64,
}

fn verifier(pem: &str) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.map_err(|source| TlsError::Pem { what: "client CA", source })?)?;
    }
    let provider = windlass_tls::provider()?;
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
}

impl ClientAuthority {
    pub(crate) fn from_pem(pem: &str) -> Result<Self, TlsError> {
        let signatures = verifier(pem)?;
        let verifier = RwLock::new(Arc::clone(&signatures));
        Ok(Self { verifier, signatures, generation: AtomicU64::new(0) })
    }

    /// Replaces the CA.
    pub(super) fn replace(&self, pem: &str) -> Result<(), TlsError> {
        *self.verifier.write() = verifier(pem)?;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns the number of replacements.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Reports whether a certificate chain, leaf first, is valid.
    fn verifies(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> bool {
        let [leaf, between @ ..] = chain else { return false };
        let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
        let verifier = Arc::clone(&self.verifier.read());
        match verifier.verify_client_cert(leaf, between, UnixTime::since_unix_epoch(now)) {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "rejected a client certificate");
                false
            }
        }
    }

    /// Verifies a certificate chain, leaf first.
    pub(crate) fn identify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> ClientCertificate {
        let Some(leaf) = chain.first() else { return ClientCertificate::Nothing };
        if !self.verifies(chain, now) {
            return ClientCertificate::Unknown;
        }
        user(leaf).map_or(ClientCertificate::Nothing, |user| ClientCertificate::Of(Arc::new(user)))
    }

    /// Verifies a certificate chain, leaf first, and returns the common name, which may be empty. Returns `None` for an
    /// invalid chain.
    pub(super) fn common_name(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Option<Arc<str>> {
        let leaf = chain.first().filter(|_| self.verifies(chain, now))?;
        let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
        let name = certificate.subject().iter_common_name().last().and_then(|name| name.as_str().ok());
        Some(name.unwrap_or_default().into())
    }
}

/// Returns the user that a certificate names.
fn user(leaf: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().last()?.as_str().ok().filter(|name| !name.is_empty())?;
    let organizations = subject.iter_organization().filter_map(|organization| organization.as_str().ok());
    let mut user = User::new(name).in_groups(organizations);
    let digest: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={digest}")]);
    Some(user)
}

impl ClientCertVerifier for ClientAuthority {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// The CA can be replaced, so clients get no hint and send the certificate that they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls12_signature(message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signatures.verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use crate::tls::clients::*;

    fn params(name: &str, groups: &[&str]) -> CertificateParams {
        let mut params = CertificateParams::default();
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    #[test]
    fn client_certificate_authenticates_only_if_ca_signed() {
        let key = KeyPair::generate().unwrap();
        let mut authority = params("ca", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.extended_key_usages.clear();
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, &key);
        let own = KeyPair::generate().unwrap();
        let clients = ClientAuthority::from_pem(&pem).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();

        let alice = params("alice", &["developers"]).signed_by(&own, &issuer).unwrap();
        let ClientCertificate::Of(user) = clients.identify(&[alice.der().clone()], now) else {
            panic!("alice is a user")
        };
        assert_eq!(
            (user.name(), user.groups()),
            ("alice", &["developers".to_owned(), "system:authenticated".to_owned()][..])
        );
        assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("X509SHA256="));

        let stranger = params("alice", &[]).self_signed(&own).unwrap();
        assert!(matches!(clients.identify(&[stranger.der().clone()], now), ClientCertificate::Unknown));
        let long_after = Timestamp::from_second(80_000_000_000).unwrap();
        assert!(matches!(clients.identify(&[alice.der().clone()], long_after), ClientCertificate::Unknown));
        assert!(matches!(clients.identify(&[], now), ClientCertificate::Nothing));
    }
}
