//! Conversion of TLS options to rustls.

use std::sync::Arc;

use http::Uri;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedCipherSuite,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};

use super::rotation::Material;
use crate::{
    config_error::ConfigError,
    connection_options::{CipherSuite, Protocols, TlsOptions, TlsVersion, Verification},
};

const HTTP1: &[u8] = b"http/1.1";

pub(super) fn client_config(options: &TlsOptions, material: &Material) -> Result<ClientConfig, ConfigError> {
    let mut provider = windlass_tls::provider()?;
    if let Some(suites) = &options.cipher_suites {
        let cipher_suites = suites.iter().map(|suite| supported(&provider, *suite)).collect::<Result<_, _>>()?;
        provider = Arc::new(CryptoProvider { cipher_suites, ..(*provider).clone() });
    }
    let versions: &[_] = match options.minimum_version {
        TlsVersion::V1_2 => rustls::ALL_VERSIONS,
        TlsVersion::V1_3 => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| ConfigError::tls("choice of TLS versions and cipher suites", error))?;
    let builder = match options.verification {
        Verification::Full => builder.with_root_certificates(roots(material.authority.as_deref())?),
        Verification::Skip => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        }
    };
    let mut config = match &material.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("client certificate", certificate)?;
            // The parser's error does not contain the key.
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| ConfigError::tls("client key", error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| ConfigError::tls("client certificate", error))?
        }
    };
    config.alpn_protocols = match options.protocols {
        Protocols::Http2OrHttp1 if cfg!(feature = "http2") => vec![b"h2".to_vec(), HTTP1.to_vec()],
        Protocols::Http2OrHttp1 | Protocols::Http1 => vec![HTTP1.to_vec()],
    };
    Ok(config)
}

/// Returns the provider's implementation of a cipher suite.
fn supported(provider: &CryptoProvider, suite: CipherSuite) -> Result<SupportedCipherSuite, ConfigError> {
    use rustls::CipherSuite as known;
    let wanted = match suite {
        CipherSuite::Aes128GcmSha256 => known::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Aes256GcmSha384 => known::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Chacha20Poly1305Sha256 => known::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheEcdsaWithAes128GcmSha256 => known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaWithAes256GcmSha384 => known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaWithChacha20Poly1305Sha256 => known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheRsaWithAes128GcmSha256 => known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaWithAes256GcmSha384 => known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaWithChacha20Poly1305Sha256 => known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    };
    let found = provider.cipher_suites.iter().find(|suite| suite.suite() == wanted).copied();
    found.ok_or_else(|| ConfigError::tls(format!("cipher suite {wanted:?}"), "the TLS provider does not support it"))
}

/// Returns the configuration restricted to HTTP/1.1.
pub(super) fn http1_only(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    config.alpn_protocols = vec![HTTP1.to_vec()];
    config
}

/// Returns the expected name in the server's certificate.
pub(super) fn server_name(server: &Uri, options: &TlsOptions) -> Result<ServerName<'static>, ConfigError> {
    match &options.server_name {
        Some(name) => parse_name(name),
        None => name_of(server),
    }
}

/// Returns the host of an address as a certificate name.
pub(super) fn name_of(address: &Uri) -> Result<ServerName<'static>, ConfigError> {
    parse_name(address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']'))
}

fn parse_name(name: &str) -> Result<ServerName<'static>, ConfigError> {
    ServerName::try_from(name.to_owned()).map_err(|error| ConfigError::tls(format!("server name {name:?}"), error))
}

/// Returns the configured certificate authorities, or else those of the system.
fn roots(authority: Option<&[u8]>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = authority {
        for certificate in certificates("certificate authority", pem)? {
            roots.add(certificate).map_err(|error| ConfigError::tls("certificate authority", error))?;
        }
    } else {
        // Unreadable files of the system are ignored, because the others may suffice.
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "a certificate authority of the system cannot be read");
        }
        roots.add_parsable_certificates(found.certs);
    }
    Ok(roots)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| ConfigError::tls(what, error))?;
    if certificates.is_empty() {
        return Err(ConfigError::NoCertificate { what });
    }
    Ok(certificates)
}

/// Implements `insecure-skip-tls-verify`: accepts any certificate of which the peer holds the key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
