//! TLS configurations for the server and for its readiness check.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::{NoClientAuth, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use windlass_api::BoxError;

use super::ServeError;

pub(super) fn config(
    resolver: Arc<dyn ResolvesServerCert>,
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = windlass_tls::provider()?;
    let clients: Arc<dyn ClientCertVerifier> = match client_ca {
        None => Arc::new(NoClientAuth),
        Some(path) => {
            authorities(path, &provider).map_err(|source| ServeError::ClientCa { path: path.to_owned(), source })?
        }
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(resolver);
    Ok(Arc::new(config))
}

fn authorities(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, BoxError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&std::fs::read(path)?) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err("the file contains no certificate".into());
    }
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?)
}

/// Returns a client configuration for the readiness check, which accepts any server.
pub(super) fn curious() -> Result<ClientConfig, BoxError> {
    let provider = windlass_tls::provider()?;
    let verifier = Arc::new(Anybody(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Accepts any certificate. No data is sent to the server.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
