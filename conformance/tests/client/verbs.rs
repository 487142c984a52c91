//! Verbs, subresources, watches, `ListWatch`, discovery.

use std::time::Duration;

use conformance::{Capability, Target, on_each_target, on_each_target_with, unique};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Pod},
};
use serde_json::{Value, json};
use windlass_api::{GroupVersion, ListItem, ListOptions, ListWatch, Object, ObjectExt, Patch, Propagation, Resource};
use windlass_client::{CachedDiscovery, Client, DeferredRestMapper, TableWriter, WatchEvent, verbs::Deletion};

/// Returns a client, and a namespace for the test.
async fn namespace(target: &Target) -> (Client, String) {
    let client = target.client.clone().with_field_owner("windlass-test");
    let name = unique("client");
    let namespace: Namespace = read(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    client.create(&namespace).await.unwrap();
    (client, name)
}

fn read<K: Object>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn config_map(namespace: &str, name: &str) -> ConfigMap {
    read(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": "test"}}}))
}

#[tokio::test]
async fn an_object_lives_through_all_verbs() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let created = client.create(&config_map(&ns, "a")).await.unwrap();
        assert!(created.uid().is_some());
        assert!(client.create(&config_map(&ns, "a")).await.unwrap_err().is_already_exists());
        assert_eq!(client.get_opt::<ConfigMap>("none").within(&ns).await.unwrap(), None);

        let mut changed = client.get::<ConfigMap>(created.object_ref()).await.unwrap();
        changed.labels_mut().insert("x".to_owned(), "y".to_owned());
        client.update(&changed).await.unwrap();
        assert!(client.update(&changed).await.unwrap_err().is_conflict());

        let merge = Patch::Merge(json!({"data": {"k": "w"}}));
        let patched = client.patch::<ConfigMap>("a", merge).within(&ns).await.unwrap();
        assert_eq!(patched.data.unwrap()["k"], "w");
        client.create(&config_map(&ns, "b")).await.unwrap();

        let list = client.list::<ConfigMap>().within(&ns).labels("app=test").await.unwrap();
        assert_eq!(list.len(), 2);
        let page = client.list::<ConfigMap>().within(&ns).labels("app=test").limit(1).await.unwrap();
        assert_eq!((page.len(), page.metadata.remaining), (1, None));
        let rest = client.list::<ConfigMap>().within(&ns).labels("app=test").limit(1);
        let rest = rest.continue_from(page.metadata.continue_token.unwrap()).await.unwrap();
        assert_eq!((rest.len(), rest.metadata.continue_token), (1, None));

        let wrong = client.delete::<ConfigMap>("a").within(&ns).uid("another").await.unwrap_err();
        assert!(wrong.is_conflict(), "{}", wrong.chain());
        let deletion = client.delete::<ConfigMap>("a").within(&ns).uid(created.uid().unwrap()).await.unwrap();
        assert!(matches!(deletion, Deletion::Status(status) if status.is_success()));
        assert!(client.get::<ConfigMap>("a").within(&ns).await.unwrap_err().is_not_found());
        client.delete_collection::<ConfigMap>().within(&ns).labels("app=test").await.unwrap();
        assert!(client.list::<ConfigMap>().within(&ns).labels("app=test").await.unwrap().is_empty());
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn an_object_is_applied_and_its_fields_have_owners() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        client.create(&config_map(&ns, "a")).await.unwrap();
        let applied = client.apply(&config_map(&ns, "b")).await.unwrap();
        let owners: Vec<_> =
            applied.metadata.managed_fields.clone().unwrap().into_iter().map(|entry| entry.manager.unwrap()).collect();
        assert_eq!(owners, ["windlass-test"]);
        // The response can be applied again, because managedFields are omitted.
        client.apply(&applied).await.unwrap();
        let merge = Patch::Merge(json!({"data": {"k": "w"}}));
        client.clone().with_field_owner("other").patch::<ConfigMap>("a", merge).within(&ns).await.unwrap();
        let theft = client.apply(&config_map(&ns, "a")).await.unwrap_err();
        assert!(theft.is_conflict(), "{}", theft.chain());
        client.apply(&config_map(&ns, "a")).force().await.unwrap();
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn status_and_scale_are_separate_subresources() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let deployment: Deployment = read(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": ns},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}));
        let mut deployment = client.create(&deployment).await.unwrap();
        deployment.status.get_or_insert_default().observed_generation = Some(7);
        deployment.spec.as_mut().unwrap().replicas = Some(9);
        let updated = client.update_status(&deployment).await.unwrap();
        assert_eq!(updated.status.unwrap().observed_generation, Some(7));
        assert_eq!(updated.spec.unwrap().replicas, Some(2), "the status alone is written");

        let mut scale = client.get_scale::<Deployment>("d").within(&ns).await.unwrap();
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
        scale.spec.as_mut().unwrap().replicas = Some(3);
        client.update_scale::<Deployment>(&scale).await.unwrap();
        let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
        let patched = client.patch_scale::<Deployment>("d", patch).within(&ns).await.unwrap();
        assert_eq!(patched.spec.unwrap().replicas, Some(4));
        let deletion = client.delete::<Deployment>("d").within(&ns).propagation(Propagation::Foreground).await.unwrap();
        assert!(deletion.object().unwrap().is_deleting());
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn watch_delivers_added_modified_and_deleted() {
    on_each_target_with(&[Capability::InitialEvents], |target| async {
        let (client, ns) = namespace(&target).await;
        client.create(&config_map(&ns, "a")).await.unwrap();
        let watch = client.watch::<ConfigMap>().within(&ns).labels("app=test").initial_events();
        let mut events = watch.timeout(Duration::from_secs(30)).await.unwrap();
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(object))) if object.name() == "a"));
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Bookmark(mark))) if mark.initial_events_end));
        client.delete::<ConfigMap>("a").within(&ns).await.unwrap();
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(object))) if object.name() == "a"));
        let refused = client.watch::<ConfigMap>().within(&ns).resource_version("nonsense").await.unwrap_err();
        assert!(refused.status().unwrap().message.contains("nonsense"), "{}", refused.chain());
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn list_watch_and_dynamic_clients_agree() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        client.create(&config_map(&ns, "a")).await.unwrap();
        let resource = ConfigMap::api_resource();
        let dynamic = client.dynamic(&resource).list().within(&ns).labels("app=test").await.unwrap();
        assert_eq!((dynamic.items[0].name(), &*dynamic.items[0].types.as_ref().unwrap().kind), ("a", "ConfigMap"));
        assert_eq!(dynamic.items[0].data["data"], json!({"k": "v"}));
        let again = client.dynamic(&resource).update(&dynamic.items[0]).await.unwrap();
        assert_eq!(again.data, dynamic.items[0].data);

        let metadata = client.metadata(&resource).get("a").within(&ns).await.unwrap();
        assert_eq!(
            (metadata.labels()["app"].as_str(), &*metadata.types.as_ref().unwrap().kind),
            ("test", "PartialObjectMetadata")
        );

        for (list_watch, with_data) in [
            (client.list_watch(&resource, Some(&ns)), true),
            (client.list_watch(&resource, Some(&ns)).metadata_only(), false),
        ] {
            let options = ListOptions { labels: Some("app=test".to_owned()), ..ListOptions::default() };
            let items: Vec<_> = list_watch.list(options).await.unwrap().try_collect().await.unwrap();
            let [ListItem::Object(object), ListItem::End(end)] = &items[..] else { panic!("{items:?}") };
            let data = windlass_protobuf::value_at::<Value>(object, &["data"]).unwrap();
            assert_eq!(data.is_some(), with_data);
            assert!(end.resource_version.as_u64().is_some());
        }
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn discovery_knows_the_built_in_kinds() {
    on_each_target(|target| async {
        let discovery = target.client.discovery().await.unwrap();
        // The document of another test's custom group may be missing at this moment.
        let ours = |group: &str| !group.contains('.') || group.ends_with(".k8s.io");
        let failed: Vec<_> = discovery.failed.iter().filter(|failed| ours(&failed.group_version.group)).collect();
        assert!(failed.is_empty(), "{failed:?}");
        let deployments = discovery.find_kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(deployments.resource, Deployment::api_resource());
        assert!(deployments.supports("watch") && deployments.short_names.contains(&"deploy".to_owned()));
        assert!(deployments.subresources.iter().any(|part| part.name == "scale" && part.kind.kind == "Scale"));
        assert_eq!(discovery.groups[0].name, "");
        let preferred = discovery.preferred_resources().filter(|found| found.resource.plural == "events").count();
        assert_eq!(preferred, 2, "one in the core group, one in events.k8s.io");
        target
    })
    .await;
}

#[tokio::test]
async fn names_are_mapped_schemas_are_found_and_tables_are_printed() {
    on_each_target(|target| async {
        let client = &target.client;
        let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
        for (text, expected) in
            [("deploy", "deployments.apps"), ("Event", "events"), ("hpa", "horizontalpodautoscalers.autoscaling")]
        {
            assert_eq!(mapper.resolve(text).await.unwrap().resource.group_resource().to_string(), expected);
        }
        let all = mapper.mapper().await.unwrap();
        let all: Vec<_> = all.category("all").iter().map(|found| found.resource.plural.to_string()).collect();
        assert!(all.contains(&"pods".to_owned()) && !all.contains(&"configmaps".to_owned()), "{all:?}");

        let apps = GroupVersion::new("apps", "v1");
        let schemas = client.openapi().document(&apps).await.unwrap().expect("apps/v1 has schemas");
        assert!(schemas["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
        assert!(client.openapi_v2().await.unwrap()["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
        let release = client.server_version().await.unwrap().release().map(|(major, minor)| format!("{major}.{minor}"));
        assert_eq!(release, Some(target.kubernetes.to_string()));
        assert!(client.is_enabled(&Deployment::api_resource().gvr()).await.unwrap());

        let table = client.table(&Namespace::api_resource()).named("default").await.unwrap();
        let text = TableWriter::new().write(&table);
        let cells: Vec<_> = text.split_whitespace().collect();
        assert_eq!(cells[..5], ["NAME", "STATUS", "AGE", "default", "Active"]);
        target
    })
    .await;
}

#[tokio::test]
async fn subresources_of_unscheduled_pod_have_equal_errors() {
    on_each_target(|target| async {
        let (client, ns) = namespace(&target).await;
        let pod: Pod = read(json!({"metadata": {"name": "p", "namespace": ns},
            "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}}));
        client.create(&pod).await.unwrap();
        assert_eq!(client.logs("p").within(&ns).tail(1).await.unwrap().text().await.unwrap(), "");
        let error = client.logs("p").within(&ns).container("nope").await.unwrap_err();
        assert!(error.status().unwrap().message.contains("container nope is not valid for pod p"), "{}", error.chain());
        let host = "does not have a host assigned";
        for error in [
            client.exec("p", ["ls"]).within(&ns).await.unwrap_err(),
            client.attach("p").within(&ns).await.unwrap_err(),
            client.port_forward("p").within(&ns).connect(80).await.unwrap_err(),
        ] {
            assert!(error.status().unwrap().message.contains(host), "{}", error.chain());
        }
        client.delete::<Namespace>(&*ns).await.unwrap();
        target
    })
    .await;
}
