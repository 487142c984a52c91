//! Dry runs, rejected, repeated and combined writes.

use std::sync::atomic::{AtomicU32, Ordering};

use conformance::{Capability, Target, eventually, on_each_target, on_each_target_with, unique};
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde_json::json;
use windlass_api::{
    DynamicObject, Entropy, FieldValidation, GroupVersionResource, Object, ObjectBuilder, ObjectExt, Patch, Resource,
};
use windlass_client::{Client, Clientset, WatchEvent, retry};

/// Returns a client, and a namespace for the test.
async fn namespace(target: &Target) -> (Client, String) {
    let name = unique("writes");
    target.client.create(&Namespace::named(name.as_str())).await.unwrap();
    (target.client.clone(), name)
}

fn read<K: Object>(json: serde_json::Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn counter(namespace: &str) -> ConfigMap {
    ConfigMap::named("counter").in_namespace(namespace).with(|map| {
        map.data.get_or_insert_default().insert("count".to_owned(), "0".to_owned());
    })
}

#[tokio::test]
async fn dry_run_is_answered_and_not_stored() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let tried = client.create(&counter(&ns)).dry_run().await.unwrap();
        assert!(tried.uid().is_some());
        assert!(client.get_opt::<ConfigMap>("counter").within(&ns).await.unwrap().is_none());
        client.create(&counter(&ns)).await.unwrap();
        client.delete::<ConfigMap>("counter").within(&ns).dry_run().await.unwrap();
        let merge = Patch::Merge(json!({"data": {"count": "9"}}));
        let tried = client.patch::<ConfigMap>("counter", merge).within(&ns).dry_run().await.unwrap();
        assert_eq!(tried.data.unwrap()["count"], "9");
        let kept = client.get::<ConfigMap>("counter").within(&ns).await.unwrap();
        assert_eq!(kept.data.unwrap()["count"], "0");
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn strict_write_rejects_unknown_fields() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let odd: DynamicObject = read(json!({"apiVersion": "v1", "kind": "ConfigMap", "nonsense": 1,
            "metadata": {"name": "odd", "namespace": ns}}));
        let maps = client.dynamic(&ConfigMap::api_resource());
        let refused = maps.create(&odd).field_validation(FieldValidation::Strict).await.unwrap_err();
        assert!(refused.is_bad_request(), "{}", refused.chain());
        assert!(refused.status().unwrap().message.contains(r#"unknown field "nonsense""#), "{}", refused.chain());
        let kept = maps.create(&odd).field_validation(FieldValidation::Ignore).await.unwrap();
        assert!(!kept.data.contains_key("nonsense"));
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn an_invalid_object_is_refused_field_by_field() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let pod: Pod = read(json!({"metadata": {"name": "p", "namespace": ns},
            "spec": {"restartPolicy": "Perhaps", "containers": [{"name": "UPPER"}]}}));
        let refused = client.create(&pod).await.unwrap_err();
        assert!(refused.is_invalid(), "{}", refused.chain());
        let causes = &refused.status().unwrap().details.as_ref().unwrap().causes;
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        for field in ["spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"] {
            assert!(fields.contains(&field), "{field}: {fields:?}");
        }
        assert!(refused.has_cause("FieldValueRequired") && refused.has_cause("FieldValueNotSupported"));
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn each_patch_type_is_applied() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let pod: Pod = read(json!({"metadata": {"name": "p", "namespace": ns, "labels": {"a": "1"}},
            "spec": {"automountServiceAccountToken": false,
                "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}));
        client.create(&pod).await.unwrap();
        let patch = |patch| client.patch::<Pod>("p", patch).within(&ns);
        let images = |pod: Pod| -> Vec<_> {
            pod.spec.unwrap().containers.into_iter().map(|container| container.image.unwrap()).collect()
        };
        let operations = json!([{"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/spec/containers/1/image", "value": "2"}]);
        assert_eq!(images(patch(Patch::Json(operations)).await.unwrap()), ["1", "2"]);
        let stale = json!([{"op": "test", "path": "/metadata/labels/a", "value": "2"}]);
        assert!(patch(Patch::Json(stale)).await.unwrap_err().is_invalid());
        // A strategic merge patch merges lists by key; a JSON merge patch does not merge lists.
        let one = json!({"spec": {"containers": [{"name": "b", "image": "3"}]}});
        assert_eq!(images(patch(Patch::Strategic(one.clone())).await.unwrap()), ["1", "3"]);
        assert!(patch(Patch::Merge(one)).await.unwrap_err().is_invalid(), "a container cannot be taken away");
        let labels = patch(Patch::Merge(json!({"metadata": {"labels": {"a": null, "b": "1"}}}))).await.unwrap();
        assert_eq!(labels.labels().keys().map(String::as_str).collect::<Vec<_>>(), ["b"]);
        let mine = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"c": "1"}}});
        let applied = patch(Patch::Apply(mine)).field_manager("somebody").await.unwrap();
        assert_eq!(applied.labels().keys().map(String::as_str).collect::<Vec<_>>(), ["b", "c"]);
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn conflicting_change_is_reapplied_to_the_new_version() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        client.create(&counter(&ns)).await.unwrap();
        let increment = |map: &mut ConfigMap| {
            let count = map.data.get_or_insert_default().get_mut("count").unwrap();
            *count = (count.parse::<u32>().unwrap() + 1).to_string();
        };
        let tries = AtomicU32::new(0);
        let entropy = Entropy::seeded(1);
        let changed = retry::on_conflict(&entropy, || async {
            let mut mine = client.get::<ConfigMap>("counter").within(&ns).await?;
            increment(&mut mine);
            if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                let mut other = client.get::<ConfigMap>("counter").within(&ns).await?;
                increment(&mut other);
                client.update(&other).await?;
            }
            client.update(&mine).await
        });
        assert_eq!(changed.await.unwrap().data.unwrap()["count"], "3");
        assert_eq!(tries.load(Ordering::Relaxed), 3);
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn metadata_watch_has_no_other_fields() {
    on_each_target_with(&[Capability::InitialEvents], |target| async {
        let (client, ns) = namespace(&target).await;
        client.create(&counter(&ns)).await.unwrap();
        let maps = client.metadata(&ConfigMap::api_resource());
        let watch = maps.watch().within(&ns).fields("metadata.name=counter").initial_events();
        let mut events = watch.await.unwrap();
        let Some(Ok(WatchEvent::Added(found))) = events.next().await else { panic!("no object") };
        assert_eq!((found.name(), &*found.types.as_ref().unwrap().kind), ("counter", "PartialObjectMetadata"));
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Bookmark(mark))) if mark.initial_events_end));
        let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        maps.patch("counter", label).within(&ns).await.unwrap();
        let Some(Ok(WatchEvent::Modified(found))) = events.next().await else { panic!("no change") };
        assert_eq!(found.labels()["a"], "b");
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn running_pod_gets_ephemeral_container_and_is_resized() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let pods = Clientset::new(client.clone()).core_v1().pods(&*ns);
        let pod: Pod = read(json!({"metadata": {"name": "p"}, "spec": {"automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}));
        let mut pod = pods.create(&pod).await.unwrap();
        let look = json!({"name": "look", "image": "busybox", "targetContainerName": "c"});
        pod.spec.as_mut().unwrap().ephemeral_containers = Some(vec![serde_json::from_value(look).unwrap()]);
        let mut pod = pods.update_ephemeral_containers(&pod).await.unwrap();
        assert_eq!(pod.spec.as_ref().unwrap().ephemeral_containers.as_ref().unwrap()[0].name, "look");
        let more = serde_json::from_value(json!({"requests": {"cpu": "200m"}})).unwrap();
        pod.spec.as_mut().unwrap().containers[0].resources = Some(more);
        let pod = pods.update_resize(&pod).await.unwrap();
        assert_eq!(
            pod.spec.unwrap().containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0,
            "200m"
        );
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn custom_rule_rejects_with_its_message() {
    on_each_target(|target| async {
        let client = &target.client;
        let definition: CustomResourceDefinition = read(json!({
            "metadata": {"name": "ranges.writes.example.com"},
            "spec": {"group": "writes.example.com", "scope": "Cluster", "names": {"plural": "ranges", "kind": "Range"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object",
                        "properties": {"least": {"type": "integer"}, "most": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.least <= self.most", "message": "upside down"}]}}}}}]}}));
        client.create(&definition).await.unwrap();
        let ranges = client.dynamic_at(&GroupVersionResource::new("writes.example.com", "v1", "ranges"));
        let range = |name: &str, least: u32| -> DynamicObject {
            read(json!({"apiVersion": "writes.example.com/v1", "kind": "Range", "metadata": {"name": name},
                "spec": {"least": least, "most": 2}}))
        };
        let good = range("good", 1);
        eventually("the kind is served", || async { ranges.create(&good).await.ok() }).await;
        let refused = ranges.create(&range("bad", 3)).await.unwrap_err();
        assert!(refused.is_invalid() && refused.status().unwrap().message.contains("upside down"), "{}", refused.chain());
        client.delete::<CustomResourceDefinition>("ranges.writes.example.com").await.unwrap();
        target
    })
    .await;
}
