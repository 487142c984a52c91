//! Kubeconfigs: read, merged with another, written and read again. Files and programs that they name are left alone.
#![no_main]

use windlass_client::config::Kubeconfig;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, second) = text.split_once("\n---\n").unwrap_or((text, ""));
    let Ok(config) = Kubeconfig::parse(first) else { return };
    let config = survives(config);
    if let Ok(other) = Kubeconfig::parse(second) {
        survives(config.merge(other));
    }
});

/// What is written is read as the same. An empty entry may be written as none.
fn survives(config: Kubeconfig) -> Kubeconfig {
    let written = config.to_yaml();
    let again = Kubeconfig::parse(&written).unwrap_or_else(|error| panic!("{error:?}:\n{written}"));
    assert_eq!(again.to_yaml(), written);
    again
}
