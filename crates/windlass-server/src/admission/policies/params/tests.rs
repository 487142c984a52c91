use serde_json::json;
use windlass_api::{Clock, Entropy};

use super::*;
use crate::{
    bootstrap::{self, RegistryOptions},
    encoded::{Encoded, Style},
    storage::{Change, Expect, MemoryStorage, Storage},
};

#[tokio::test]
async fn selected_parameters_are_decoded_when_they_are_used() {
    let storage = Arc::new(MemoryStorage::default());
    let below = Arc::clone(&storage) as Arc<dyn Storage>;
    let address = bootstrap::Announced::at("127.0.0.1:443");
    let options = RegistryOptions::default();
    let (clock, entropy, others) = (Clock::system(), Entropy::seeded(1), Arc::default());
    let started = bootstrap::start(below, clock, entropy, options, Arc::default(), &others, address);
    let (registry, _presence) = started.await.unwrap();
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "n", "labels": {"color": color}}, "data": {"k": "v"}});
        let mut body = Encoded::new(&object, Style::BuiltIn).storage_bytes().to_vec();
        if name != "a" {
            // An object that cannot be decoded behind its metadata.
            body.truncate(body.len() - 4);
        }
        storage
            .commit(&format!("/registry/configmaps/n/{name}"), Expect::Absent, Change::Put(body.into()))
            .await
            .unwrap();
    }
    let resources = registry.resources();
    let maps = resources.get("", "v1", "configmaps").unwrap();
    let reference = json!({"selector": {"matchLabels": {"color": "red"}}});
    let found = params(&registry, Some(maps), Some(&reference), "n").await.unwrap();
    let names = found.iter().map(|param| match param {
        Param::Stored(_, item) => item.encoded.meta().unwrap().name().to_string(),
        Param::Absent => String::new(),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(found[0].value().await.unwrap().unwrap()["data"], json!({"k": "v"}));
    let none = params(&registry, Some(maps), Some(&json!({"selector": {"matchLabels": {"color": "x"}}})), "n").await;
    assert!(none.unwrap().is_empty());
}
