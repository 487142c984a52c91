//! Kubeconfigs: parsed, merged with another one, written and parsed again. Referenced files and programs are not used.
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

/// Writes and parses a kubeconfig, and compares both. An empty entry may be omitted.
fn survives(config: Kubeconfig) -> Kubeconfig {
    let written = config.to_yaml();
    let again = Kubeconfig::parse(&written).unwrap_or_else(|error| panic!("{error:?}:\n{written}"));
    assert_eq!(again.to_yaml(), written);
    again
}
