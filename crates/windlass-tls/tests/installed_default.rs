//! The process default. This is a program of its own, because a process has one default, which cannot be replaced.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

#[test]
fn installed_default_replaces_the_built_in_provider() {
    let Ok(built_in) = windlass_tls::provider() else { panic!("the tests need a built-in provider") };
    let first = built_in.cipher_suites[0];
    let own = CryptoProvider { cipher_suites: vec![first], ..(*built_in).clone() };
    own.install_default().unwrap();

    let used = windlass_tls::provider().unwrap();

    assert_eq!(used.cipher_suites, [first]);
    assert!(!Arc::ptr_eq(&used, &built_in));
}
