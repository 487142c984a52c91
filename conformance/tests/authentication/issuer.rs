//! Issuers of JSON web tokens on loopback.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};
use tokio_rustls::TlsAcceptor;

const RSA: &str = include_str!("../../../crates/windlass-server/src/authn/keys/testdata/rsa-pkcs8.pem");

/// Running issuers, each at a path.
pub(super) struct Issuers {
    address: SocketAddr,
    ecdsa: Arc<KeyPair>,
    serving: AbortHandle,
}

/// The way in which a token is signed.
#[derive(Clone, Copy)]
pub(super) enum Signer {
    Rsa,
    Ecdsa,
    /// The token names no key.
    Anonymous,
    /// The token names a key that the issuer does not have.
    Unknown,
    /// The signature belongs to another text.
    Forged,
    Hmac,
}

impl Issuers {
    /// Serves the issuers with a certificate. Port 0 selects a free port.
    pub(super) async fn start(port: u16, certificate: &str, key: &str) -> Self {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let ecdsa = Arc::new(KeyPair::generate().unwrap());
        let shown = Arc::clone(&ecdsa);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, ecdsa) = (acceptor.clone(), Arc::clone(&shown));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(move |request: Request<Incoming>| {
                        let response = answer(address, request.uri().path(), &ecdsa);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, ecdsa, serving: serving.abort_handle() }
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns a token of the issuer at a path.
    pub(super) fn token(&self, path: &str, signer: Signer, mut claims: Value) -> String {
        claims["iss"] = format!("{}/{path}", self.url()).into();
        let (algorithm, id) = match signer {
            Signer::Rsa | Signer::Forged => ("RS256", Some("rsa")),
            Signer::Ecdsa => ("ES256", Some("ecdsa")),
            Signer::Anonymous => ("RS256", None),
            Signer::Unknown => ("RS256", Some("unknown")),
            Signer::Hmac => ("HS256", Some("rsa")),
        };
        let mut header = json!({"alg": algorithm});
        if let Some(id) = id {
            header["kid"] = id.into();
        }
        match signer {
            Signer::Ecdsa => signed(&header, &claims, &self.ecdsa),
            Signer::Forged => {
                let token = signed(&header, &claims, &rsa());
                claims["forged"] = true.into();
                let other = signed(&header, &claims, &rsa());
                let signature = other.rsplit_once('.').unwrap().1;
                format!("{}.{signature}", token.rsplit_once('.').unwrap().0)
            }
            _ => signed(&header, &claims, &rsa()),
        }
    }
}

impl Drop for Issuers {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns a token that the key of service accounts signs: ECDSA over P-256.
pub(super) fn account_token(pem: &str, claims: &Value) -> String {
    signed(&json!({"alg": "ES256"}), claims, &KeyPair::from_pem(pem).unwrap())
}

fn rsa() -> KeyPair {
    let der = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap();
    KeyPair::from_der_and_sign_algo(&der, &rcgen::PKCS_RSA_SHA256).unwrap()
}

fn signed(header: &Value, claims: &Value, key: &KeyPair) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encode(header), encode(claims));
    let signature = key.sign(text.as_bytes()).unwrap();
    let signature = if key.algorithm() == &rcgen::PKCS_RSA_SHA256 { signature } else { fixed(&signature) };
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Returns the two numbers of an ECDSA signature in DER with 32 bytes each.
fn fixed(der: &[u8]) -> Vec<u8> {
    integers(der).into_iter().flat_map(|number| [vec![0; 32 - number.len()], number].concat()).collect()
}

/// Returns the integers of a sequence in DER, without leading zeros.
fn integers(der: &[u8]) -> Vec<Vec<u8>> {
    fn element(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, rest) = match usize::from(der[1]) {
            short @ 0..0x80 => (short, &der[2..]),
            long => {
                let (digits, rest) = der[2..].split_at(long - 0x80);
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
        };
        rest.split_at(length)
    }
    let (mut content, _) = element(der);
    let mut numbers = Vec::new();
    while !content.is_empty() {
        let (number, rest) = element(content);
        numbers.push(number.iter().copied().skip_while(|byte| *byte == 0).collect());
        content = rest;
    }
    numbers
}

fn answer(address: SocketAddr, path: &str, ecdsa: &KeyPair) -> Response<Full<Bytes>> {
    let document = match path.trim_start_matches('/').split_once('/') {
        Some((issuer, ".well-known/openid-configuration")) => json!({
            "issuer": format!("https://{address}/{issuer}"), "jwks_uri": format!("https://{address}/{issuer}/keys"),
        }),
        Some((_, "keys")) => {
            let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let rsa = rsa();
            let rsa = integers(rsa.der_bytes());
            let point = ecdsa.der_bytes();
            json!({"keys": [
                {"kty": "RSA", "kid": "rsa", "alg": "RS256", "use": "sig", "n": number(&rsa[0]), "e": number(&rsa[1])},
                {"kty": "EC", "kid": "ecdsa", "crv": "P-256", "x": number(&point[1..33]), "y": number(&point[33..])},
            ]})
        }
        _ => return Response::builder().status(404).body(Full::default()).unwrap(),
    };
    let body = Full::new(Bytes::from(document.to_string()));
    Response::builder().header("content-type", "application/json").body(body).unwrap()
}
