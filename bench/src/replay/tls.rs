//! A temporary certificate, and a kubeconfig that trusts it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;

/// The TLS configuration of the server.
pub(super) struct TlsEndpoint {
    pub(super) acceptor: TlsAcceptor,
    pub(super) kubeconfig: PathBuf,
}

/// Creates a self-signed certificate for the address, and writes it and a kubeconfig into the directory.
pub(super) fn secure(directory: &Path, address: SocketAddr) -> Result<TlsEndpoint, BoxError> {
    let made = rcgen::generate_simple_self_signed([address.ip().to_string()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key)?;
    // The preference order of a real API server.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

    fs::create_dir_all(directory)?;
    // Relative paths in a kubeconfig refer to its directory.
    let directory = fs::canonicalize(directory)?;
    let (authority, kubeconfig) = (directory.join("ca.crt"), directory.join("kubeconfig"));
    fs::write(&authority, made.cert.pem())?;
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "replay",
        "clusters": [{"name": "replay", "cluster": {"server": format!("https://{address}"), "certificate-authority": authority}}],
        "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": "nobody"}}],
        "users": [{"name": "nobody", "user": {}}],
    });
    // JSON is YAML.
    fs::write(&kubeconfig, text.to_string())?;
    Ok(TlsEndpoint { acceptor: TlsAcceptor::from(Arc::new(config)), kubeconfig })
}
