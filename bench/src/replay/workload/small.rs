//! Custom resources, Secrets and ConfigMaps.

use serde_json::{Map, Value, json};
use windlass_api::Entropy;

use super::{
    manifest::with_meta,
    strings::{noise, pick, size, value, words},
    template::{Mark, mark},
};

/// The distribution of data sizes in Secrets and ConfigMaps: median, minimum, maximum.
const DATA: (f64, f64, f64) = (1_500.0, 100.0, 200_000.0);

pub(super) fn widget(entropy: &Entropy, at: usize) -> Value {
    with_meta(
        "widget",
        json!({"app": format!("app-{}", at % 50), "size": words(entropy, 1)}),
        json!({"example/note": value(entropy)}),
        None,
        json!({"spec": {"replicas": entropy.below(10), "image": format!("registry.example/{}:1", words(entropy, 2)), "colour": words(entropy, 1)},
            "status": {"ready": true, "observedGeneration": 1, "lastSeen": mark(Mark::Time), "digest": mark(Mark::Hash)}}),
    )
}

pub(super) fn secret(entropy: &Entropy, at: usize) -> Value {
    with_meta(
        "secret",
        json!({"app": format!("app-{}", at % 50)}),
        json!({"example/digest": mark(Mark::Hash)}),
        None,
        // The value is base64, so its length is a multiple of four.
        json!({"data": data(entropy, "", |length| noise(entropy, length.next_multiple_of(4))), "type": "Opaque"}),
    )
}

pub(super) fn config_map(entropy: &Entropy, at: usize) -> Value {
    let lines = |length| {
        let mut text = String::new();
        while text.len() < length {
            text.extend([&words(entropy, 2), ": ", &value(entropy), "\n"]);
        }
        text
    };
    with_meta(
        "settings",
        json!({"app": format!("app-{}", at % 50)}),
        json!({"example/digest": mark(Mark::Hash)}),
        None,
        json!({"data": data(entropy, ".yaml", lines)}),
    )
}

/// Returns one to four entries of about the same size; `text` creates an entry.
fn data(entropy: &Entropy, suffix: &str, text: impl Fn(usize) -> String) -> Map<String, Value> {
    let all = size(entropy, DATA);
    let entries = 1 + pick(entropy, 4);
    (0..entries).map(|at| (format!("{}-{at}{suffix}", words(entropy, 1)), text(all / entries).into())).collect()
}
