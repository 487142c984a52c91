//! The TLS cryptography of the client. The test holds for every combination of features, for example:
//! `cargo test -p windlass-client --no-default-features --features graviola,v1_36 --test tls_provider`.

#![expect(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{net::SocketAddr, sync::Arc};

use http::{Request, Response};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::{
    CipherSuite, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::PrivateKeyDer,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use windlass_api::ErrorChain;
use windlass_client::{Client, Config, Result, config::TlsOptions};

/// Starts a server that answers each request with the cipher suite of its connection. Returns its address, and its
/// certificate in PEM.
async fn server() -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(socket).await else { continue };
            let suite = stream.get_ref().1.negotiated_cipher_suite().unwrap().suite();
            let answer = move |_| async move {
                Ok::<_, std::convert::Infallible>(Response::new(format!(r#"{{"suite":"{suite:?}"}}"#)))
            };
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    (address, made.cert.pem())
}

/// Returns the cipher suite of a new client's connection.
async fn suite(address: SocketAddr, authority: &str) -> Result<String> {
    let server = format!("https://{address}").parse().unwrap();
    let client = Client::new(Config::new(server).with_tls(TlsOptions::trusting(authority)))?;
    let answer: Value = client.request_json(Request::get("/").body(()).unwrap()).await?;
    Ok(answer["suite"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn installed_provider_replaces_the_one_of_the_features() {
    let (address, authority) = server().await;
    let has_provider = cfg!(any(feature = "ring", feature = "aws-lc-rs", feature = "openssl", feature = "graviola"));

    match suite(address, &authority).await {
        Ok(suite) => assert!(has_provider && suite != format!("{:?}", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256)),
        Err(error) => {
            let error = ErrorChain(&error).to_string();
            assert!(!has_provider && error.contains("no TLS provider: enable one of the features"), "{error}");
        }
    }

    let only = vec![ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites: only, ..ring::default_provider() }.install_default().unwrap();
    assert_eq!(suite(address, &authority).await.unwrap(), "TLS13_CHACHA20_POLY1305_SHA256");
}
