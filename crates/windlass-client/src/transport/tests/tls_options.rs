//! The offered TLS versions, cipher suites and HTTP versions.

use rustls::{SupportedCipherSuite, crypto::ring::cipher_suite};

use super::*;
use crate::connection_options::{CipherSuite, Protocols, TlsVersion};

async fn answered(pki: &Pki, suites: &[SupportedCipherSuite], change: impl FnOnce(TlsOptions) -> TlsOptions) -> bool {
    let server = Server::start(Some(pki.server_of("127.0.0.1", &["h2"], Clients::Any, suites))).await;
    let tls = change(TlsOptions::trusting(pki.pem()));
    match ask(Config::new(server.url("https")).with_tls(tls)).await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.is_transport() && error.chain().contains("HandshakeFailure"), "{}", error.chain());
            false
        }
    }
}

#[tokio::test]
async fn no_older_version_than_the_chosen_one_is_spoken() {
    let pki = Pki::new();
    let old = [cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let new = [cipher_suite::TLS13_AES_128_GCM_SHA256];
    for (suites, minimum) in [(old, TlsVersion::V1_2), (new, TlsVersion::V1_2), (new, TlsVersion::V1_3)] {
        assert!(answered(&pki, &suites, |tls| tls.with_minimum_version(minimum)).await, "{minimum:?}");
    }
    let server = Server::start(Some(pki.server_of("127.0.0.1", &["h2"], Clients::Any, &old))).await;
    let tls = TlsOptions::trusting(pki.pem()).with_minimum_version(TlsVersion::V1_3);
    let error = ask(Config::new(server.url("https")).with_tls(tls)).await.unwrap_err();
    assert!(error.is_transport() && error.chain().contains("ProtocolVersion"), "{}", error.chain());
}

#[tokio::test]
async fn each_cipher_suite_is_spoken_when_chosen_and_no_other() {
    let pki = Pki::new();
    let known = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    for (index, suite) in CipherSuite::ALL.into_iter().take(known.len()).enumerate() {
        assert!(answered(&pki, &known[index..=index], |tls| tls.with_cipher_suites([suite])).await, "{suite:?}");
        let neighbor = (index / 3 * 3) + (index + 1) % 3;
        let other = &known[neighbor..=neighbor];
        assert!(!answered(&pki, other, |tls| tls.with_cipher_suites([suite])).await, "{suite:?}");
    }
    for suite in CipherSuite::ALL {
        assert_eq!(CipherSuite::parse(suite.as_str()), Some(suite));
    }
    assert_eq!(CipherSuite::parse("TLS_RSA_WITH_RC4_128_SHA"), None);
}

#[tokio::test]
async fn empty_tls_selection_is_rejected_at_once() {
    for tls in [
        TlsOptions::default().with_cipher_suites([]),
        TlsOptions::default()
            .with_cipher_suites([CipherSuite::EcdheRsaWithAes128GcmSha256])
            .with_minimum_version(TlsVersion::V1_3),
    ] {
        let error = Client::new(Config::new("https://127.0.0.1:1".parse().unwrap()).with_tls(tls)).unwrap_err();
        assert_eq!(error.to_string(), "the choice of TLS versions and cipher suites cannot be used");
    }
}

#[tokio::test]
async fn http2_is_not_spoken_where_it_is_not_wanted() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2", "http/1.1"], Clients::Any))).await;
    let tls = TlsOptions::trusting(pki.pem()).with_protocols(Protocols::Http1);
    assert_eq!(ask(Config::new(server.url("https")).with_tls(tls)).await.unwrap()["version"], "HTTP/1.1");
}
