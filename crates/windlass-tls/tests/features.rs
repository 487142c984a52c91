//! The provider of the enabled features. The tests hold for every combination of features.

#[test]
fn provider_comes_from_the_enabled_features() {
    let found = windlass_tls::provider();
    let none = !cfg!(any(feature = "ring", feature = "aws-lc-rs", feature = "openssl", feature = "graviola"));
    assert_eq!(found.as_ref().err(), none.then_some(&windlass_tls::NoProvider));
    if cfg!(feature = "fips") {
        assert!(found.unwrap().fips());
    }
}

#[test]
fn missing_provider_error_names_the_features() {
    let message = windlass_tls::NoProvider.to_string();
    for remedy in ["`ring`", "`aws-lc-rs`", "`fips`", "`openssl`", "`graviola`", "install_default"] {
        assert!(message.contains(remedy), "{message}");
    }
}
