//! The registry finally matches the cluster, whatever it responds in the meantime. In process, with a paused clock.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod cluster;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cluster::{Outcome, move_to, serve};
use registry_sync::{Behavior, Entry, Instance, Memory, RegistryReader, RegistrySync};
use serde_json::{from_value, json};
use windlass::{
    ObjectBuilder as _, ObjectKey, ObjectRef, Patch,
    envtest::Environment,
    k8s::{
        core::v1::{Event, Pod, Service},
        discovery::v1::EndpointSlice,
    },
};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("default")
}

struct Fixture {
    env: Environment,
    registry: Arc<Memory>,
    reader: RegistryReader,
}

impl Fixture {
    async fn open() -> Self {
        Self::with(Arc::new(Memory::default())).await
    }

    async fn with(registry: Arc<Memory>) -> Self {
        let env = Environment::start().await;
        let mut manager = env.manager();
        RegistrySync::with(registry.clone()).add_to(&mut manager);
        env.run(manager);
        Self { env, reader: RegistryReader::new(registry.clone()), registry }
    }

    /// Waits for more than two checks, in the time of the test.
    async fn rest() {
        tokio::time::sleep(Duration::from_secs(150)).await;
    }

    /// Returns the entries of the registry as text, without the API server's own service.
    fn shown(&self) -> BTreeMap<String, String> {
        let entries = self.registry.snapshot().into_iter().filter(|(key, _)| &*key.name != "kubernetes");
        entries.map(|(key, entry)| (key.name.to_string(), entry.to_string())).collect()
    }
}

fn expected<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, entry)| (name.to_owned(), entry.to_owned())).into()
}

#[tokio::test(start_paused = true)]
async fn entries_follow_new_changed_and_deleted_services() -> Outcome {
    let fixture = Fixture::open().await;
    let client = fixture.env.client();
    serve(&client, "default", "web", &["10.0.0.1"]).await?;
    let entry = fixture.reader.instances(&key("web"), 1).await?;
    assert_eq!(entry.instances.first().unwrap().metadata, [("pod".to_owned(), "pod-10.0.0.1".to_owned())].into());
    move_to(&client, "default", "web", &["10.0.0.1", "10.0.0.2"]).await?;
    fixture.reader.instances(&key("web"), 2).await?;
    for reason in ["Registered", "RegistryUpdated"] {
        let told = |events: &[Event]| events.iter().any(|event| event.reason.as_deref() == Some(reason));
        fixture.env.eventually_all::<Event>(told).await;
    }
    client.delete::<Service>("web").await?;
    fixture.reader.until(&key("web"), |entry| entry.is_none()).await?;

    // Unknown entries are not removed from the registry, and unchanged entries are not written again.
    let writes = fixture.registry.writes();
    client.delete::<EndpointSlice>("web").await?;
    Fixture::rest().await;
    assert_eq!(fixture.registry.writes(), writes);
    Ok(fixture.env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn changed_pod_version_is_synced() -> Outcome {
    let fixture = Fixture::open().await;
    let client = fixture.env.client();
    let containers = json!({"containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "pod-10.0.0.1", "namespace": "default"}, "spec": containers});
    client.create(&from_value::<Pod>(pod)?).await?;
    serve(&client, "default", "web", &["10.0.0.1"]).await?;
    fixture.reader.instances(&key("web"), 1).await?;
    let labels = Patch::Merge(json!({"metadata": {"labels": {"version": "v2"}}}));
    client.patch::<Pod>("pod-10.0.0.1", labels).await?;
    let told = |entry: Option<&Entry>| {
        entry.is_some_and(|entry| {
            entry
                .instances
                .iter()
                .all(|instance| instance.metadata.get("version").is_some_and(|version| version == "v2"))
        })
    };
    fixture.reader.until(&key("web"), told).await?;
    Ok(fixture.env.stop().await?)
}

/// Verifies that the registry finally matches the cluster after changes during a failure.
async fn survives(behavior: Behavior) -> Outcome {
    let fixture = Fixture::open().await;
    let client = fixture.env.client();
    for name in ["changes", "goes", "stays"] {
        serve(&client, "default", name, &["10.0.0.1"]).await?;
        fixture.reader.instances(&key(name), 1).await?;
    }
    fixture.registry.set_behavior(behavior);
    move_to(&client, "default", "changes", &["10.0.0.2"]).await?;
    client.delete::<Service>("goes").await?;
    serve(&client, "default", "comes", &["10.0.0.3"]).await?;
    // Long enough for back-offs of several minutes.
    tokio::time::sleep(Duration::from_mins(30)).await;
    fixture.registry.set_behavior(Behavior::Working);
    Fixture::rest().await;
    let right = [("changes", "[10.0.0.2:80]"), ("comes", "[10.0.0.3:80]"), ("stays", "[10.0.0.1:80]")];
    assert_eq!(fixture.shown(), expected(right), "after {behavior:?}");
    let told = |events: &[Event]| events.iter().any(|event| event.reason.as_deref() == Some("RegistryFailed"));
    if behavior != Behavior::Hanging {
        fixture.env.eventually_all::<Event>(told).await;
    }
    Ok(fixture.env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn unavailable_registry_is_synced_after_recovery() -> Outcome {
    survives(Behavior::Unreachable).await
}

#[tokio::test(start_paused = true)]
async fn hanging_registry_does_not_block_forever() -> Outcome {
    survives(Behavior::Hanging).await
}

#[tokio::test(start_paused = true)]
async fn invalid_registry_responses_are_rejected() -> Outcome {
    survives(Behavior::Garbled).await
}

#[tokio::test(start_paused = true)]
async fn missing_and_extra_entries_are_repaired() -> Outcome {
    let fixture = Fixture::open().await;
    let client = fixture.env.client();
    for name in ["lost", "changed", "same"] {
        serve(&client, "default", name, &["10.0.0.1"]).await?;
        fixture.reader.instances(&key(name), 1).await?;
    }
    let writes = fixture.registry.writes();
    fixture.registry.tamper(|entries| {
        entries.remove(&key("lost"));
        let other = Entry { instances: [Instance::at("10.9.9.9:1", BTreeMap::new()).unwrap()].into() };
        entries.insert(key("changed"), other.clone());
        entries.insert(key("made-up"), other);
    });
    Fixture::rest().await;
    let right = [("changed", "[10.0.0.1:80]"), ("lost", "[10.0.0.1:80]"), ("same", "[10.0.0.1:80]")];
    assert_eq!(fixture.shown(), expected(right));
    assert_eq!(fixture.registry.writes(), writes + 3, "correct entries are not written");
    Ok(fixture.env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn restart_repairs_missed_changes() -> Outcome {
    let registry = Arc::new(Memory::default());
    let old = Entry { instances: [Instance::at("10.0.0.1:80", BTreeMap::new()).unwrap()].into() };
    registry.tamper(|entries| entries.extend([(key("web"), old.clone()), (key("deleted-meanwhile"), old)]));
    let fixture = Fixture::with(registry).await;
    serve(&fixture.env.client(), "default", "web", &["10.0.0.2"]).await?;
    Fixture::rest().await;
    assert_eq!(fixture.shown(), expected([("web", "[10.0.0.2:80]")]));
    Ok(fixture.env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn service_without_endpoints_has_an_empty_entry() -> Outcome {
    let fixture = Fixture::open().await;
    let service = Service::named("web").in_namespace("default");
    let mut service = serde_json::to_value(&service)?;
    service["spec"] = json!({"ports": [{"port": 80}]});
    fixture.env.client().create(&from_value::<Service>(service)?).await?;
    fixture.reader.instances(&key("web"), 0).await?;
    let gone = ObjectRef::<Service>::new("web");
    fixture.env.client().delete(gone).await?;
    fixture.reader.until(&key("web"), |entry| entry.is_none()).await?;
    Ok(fixture.env.stop().await?)
}
