//! `Clientset`, custom kinds, and the patch tools.

use conformance::{Capability, Target, eventually, on_each_target, on_each_target_with, unique};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        authentication::v1::TokenRequest,
        certificates::v1::CertificateSigningRequest,
        core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::{
    GroupResource, GroupVersionResource, Nested, Object, ObjectBuilder, Patch, Resource as _, Semantic,
    managed_fields::Manager, patch::PatchFrom,
};
use windlass_client::{CachedDiscovery, Clientset, DeferredRestMapper, Scales};
use windlass_derive::Resource;

/// A CertificateSigningRequest in PEM and base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWU1IOENBUUF3SFRFTk1Bc0dBMVVFQXd3RWFtRnVaVEVNTUFvR0ExVUVDZ3dEWkdWMk1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVjV3UxZ1JkdHJDTVM5aWZxeWRLY05iRVFNejRPaE9EcDA1ankzazMwCkZNS0pFbDZweWRaQ0djVjVkcnhCcWJRVGN1UmtGUEQrYytyUHhFZVVVOVJSZEtBQU1Bb0dDQ3FHU000OUJBTUMKQTBrQU1FWUNJUURzTnFhTzBqU2dETVA3S1ZpcHB1UEdhTkErajBmV05xeTIrWkR5dlpvekJRSWhBT2s3OVcxdApaQ3J6UklhZHR5YlBDMmVYUlBCZVNhdlFQWUx2Y2lLS1hOSS8KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// A custom kind whose type has no fields for apiVersion and kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(group = "typed.example.com", version = "v1", k8s_openapi = k8s_openapi)]
struct Website {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WebsiteSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct WebsiteSpec {
    image: String,
}

async fn clientset(target: &Target) -> (Clientset, String) {
    let clientset = Clientset::new(target.client.clone().with_field_owner("windlass-test"));
    let name = unique("clientset");
    clientset.core_v1().namespaces().create(&Namespace::named(name.as_str())).await.unwrap();
    (clientset, name)
}

async fn finish(clientset: &Clientset, namespace: &str) {
    clientset.core_v1().namespaces().delete(namespace).await.unwrap();
}

fn read<K: Object>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn pod(name: &str) -> Pod {
    Pod::named(name).with(|pod| {
        pod.spec = Some(serde_json::from_value(json!({"containers": [{"name": "c", "image": "i"}]})).unwrap());
    })
}

fn deployment(image: &str) -> Deployment {
    read(
        json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "a", "image": image, "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]},
            {"name": "b", "image": "i"}]}}}}),
    )
}

#[tokio::test]
async fn resources_of_every_group_are_listed() {
    on_each_target_with(&[Capability::KindsOf1_34], |target| async {
        let (clientset, ns) = clientset(&target).await;
        clientset.admissionregistration_v1().validating_webhook_configurations().list().await.unwrap();
        clientset.apiextensions_v1().custom_resource_definitions().list().await.unwrap();
        clientset.apiregistration_v1().api_services().list().await.unwrap();
        clientset.apps_v1().replica_sets(&*ns).list().await.unwrap();
        clientset.autoscaling_v2().horizontal_pod_autoscalers(&*ns).list().await.unwrap();
        clientset.batch_v1().cron_jobs(&*ns).list().await.unwrap();
        clientset.certificates_v1().certificate_signing_requests().list().await.unwrap();
        clientset.coordination_v1().leases("").list().await.unwrap();
        clientset.discovery_v1().endpoint_slices(&*ns).list().await.unwrap();
        clientset.events_v1().events(&*ns).list().await.unwrap();
        clientset.flowcontrol_v1().flow_schemas().list().await.unwrap();
        clientset.networking_v1().network_policies(&*ns).list().await.unwrap();
        clientset.node_v1().runtime_classes().list().await.unwrap();
        clientset.policy_v1().pod_disruption_budgets(&*ns).list().await.unwrap();
        clientset.rbac_v1().cluster_roles().list().await.unwrap();
        clientset.resource_v1().device_classes().list().await.unwrap();
        clientset.scheduling_v1().priority_classes().list().await.unwrap();
        clientset.storage_v1().storage_classes().list().await.unwrap();
        assert!(clientset.core_v1().namespaces().get_opt("none").await.unwrap().is_none());
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn pods_are_bound_and_evicted_and_accounts_get_tokens() {
    on_each_target(|target| async {
        let (clientset, ns) = clientset(&target).await;
        let pods = clientset.core_v1().pods(&*ns);
        clientset.core_v1().service_accounts(&*ns).create(&ServiceAccount::named("robot")).await.unwrap();
        pods.create(&pod("p")).await.unwrap();
        assert!(pods.bind("p", "a-node").await.unwrap().is_success());
        let bound = pods.get("p").await.unwrap();
        assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("a-node"));
        assert!(pods.bind("p", "another").await.unwrap_err().is_conflict());
        assert!(pods.evict("p").grace_period(std::time::Duration::ZERO).await.unwrap().is_success());
        assert!(pods.get("p").await.unwrap_err().is_not_found());
        let token = clientset.core_v1().service_accounts(&*ns).create_token("robot", &TokenRequest::default());
        assert!(!token.await.unwrap().status.unwrap().token.unwrap().is_empty());
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn strategic_patch_sends_the_changed_fields() {
    on_each_target(|target| async {
        let (clientset, ns) = clientset(&target).await;
        let deployments = clientset.apps_v1().deployments(&*ns);
        let before = deployments.create(&deployment("1")).await.unwrap();
        let mut after = before.clone();
        let spec = after.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        spec.containers.reverse();
        spec.containers[1].image = Some("2".to_owned());
        spec.containers[1].env.as_mut().unwrap().remove(0);
        spec.restart_policy = Some("Always".to_owned());
        let patch = PatchFrom::new(&before).optimistic_lock().strategic(&after).unwrap();
        let patched = deployments.patch("web", patch.clone()).await.unwrap();
        assert_eq!(patched.spec, after.spec);
        let late = deployments.patch("web", patch).await.unwrap_err();
        assert!(late.is_conflict(), "{}", late.chain());
        let asked = deployment("2").spec.unwrap().template.metadata;
        assert!(Semantic::of::<Deployment>().derivative(&asked, &patched.spec.unwrap().template.metadata).unwrap());
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn apply_takes_over_fields_of_an_update() {
    on_each_target(|target| async {
        let (clientset, ns) = clientset(&target).await;
        let maps = clientset.core_v1().config_maps(&*ns);
        let map = ConfigMap::named("m").with(|map| {
            map.data.get_or_insert_default().insert("old".to_owned(), "1".to_owned());
        });
        let updated = maps.create(&map).await.unwrap();
        let applier = Manager::new("applier");
        assert_eq!(applier.extract(&updated).unwrap(), None);
        let patch = applier.take_over_patch(&["windlass-test"], &updated).unwrap();
        let taken = maps.patch("m", patch).await.unwrap();
        let mine = applier.extract(&taken).unwrap().unwrap();
        assert_eq!(mine.nested_str(&["data", "old"]).unwrap(), Some("1"));
        // Fields that the new owner no longer applies are removed.
        let applied = maps.apply(&ConfigMap::named("m")).field_manager("applier").await.unwrap();
        assert_eq!(applied.data.unwrap_or_default().len(), 0);
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn a_custom_kind_has_all_verbs_and_is_reached_by_its_url_too() {
    on_each_target(|target| async {
        let (clientset, ns) = clientset(&target).await;
        let definition: CustomResourceDefinition = read(json!({
            "metadata": {"name": "websites.typed.example.com"},
            "spec": {"group": "typed.example.com", "scope": "Namespaced",
                "names": {"plural": "websites", "kind": "Website"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}}}]}}));
        let definitions = clientset.apiextensions_v1().custom_resource_definitions();
        definitions.create(&definition).await.unwrap();
        let websites = clientset.custom::<Website>(&*ns);
        let site = Website { spec: WebsiteSpec { image: "a".to_owned() }, ..Website::named("w") };
        let created = eventually("the kind is served", || async { websites.create(&site).await.ok() }).await;
        assert_eq!(created.spec, site.spec);

        let resource = GroupVersionResource::new("typed.example.com", "v1", Website::api_resource().plural);
        let anything = target.client.dynamic_at(&resource).within(&*ns);
        let mut dynamic = anything.get("w").await.unwrap();
        dynamic.set_nested(&["spec", "replicas"], 3).unwrap();
        anything.update(&dynamic).await.unwrap();
        assert_eq!(websites.get_scale("w").await.unwrap().spec.unwrap().replicas, Some(3));
        let before = websites.get("w").await.unwrap();
        let mut after = before.clone();
        after.spec.image = "b".to_owned();
        let patched = websites.patch("w", PatchFrom::new(&before).merge(&after).unwrap()).await.unwrap();
        assert_eq!(patched.spec.image, "b");
        let kept = anything.get("w").await.unwrap();
        assert_eq!(kept.nested_i64(&["spec", "replicas"]).unwrap(), Some(3), "a field that the type does not have");
        assert_eq!(websites.list().await.unwrap().len(), 1);
        websites.delete("w").await.unwrap();
        definitions.delete("websites.typed.example.com").await.unwrap();
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn whatever_has_a_scale_is_scaled_by_the_name_of_its_resource() {
    on_each_target(async |target| {
        let (clientset, ns) = clientset(&target).await;
        clientset.apps_v1().deployments(&*ns).create(&deployment("i:1")).await.unwrap();
        let client = clientset.client().clone();
        let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
        let scales = Scales::new(client, mapper);
        let deployments = scales.of(&GroupResource::new("", "deploy")).await.unwrap().within(&*ns);
        let mut scale = deployments.get_scale("web").await.unwrap();
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
        scale.spec.get_or_insert_default().replicas = Some(5);
        deployments.update_scale(&scale).await.unwrap();
        deployments.patch_scale("web", Patch::Merge(json!({"spec": {"replicas": 7}}))).await.unwrap();
        let scaled = clientset.apps_v1().deployments(&*ns).get("web").await.unwrap();
        assert_eq!(scaled.spec.unwrap().replicas, Some(7));
        let error = scales.of(&GroupResource::new("", "configmaps")).await.unwrap_err();
        assert_eq!(error.to_string(), "configmaps has no scale");
        finish(&clientset, &ns).await;
        target
    })
    .await;
}

#[tokio::test]
async fn certificate_request_is_approved_or_denied_but_not_both() {
    on_each_target(async |target| {
        let (clientset, ns) = clientset(&target).await;
        let requests = clientset.certificates_v1().certificate_signing_requests();
        for name in [format!("{ns}-a"), format!("{ns}-b")] {
            let request: CertificateSigningRequest = read(json!({"metadata": {"name": name}, "spec": {
                "request": REQUEST, "signerName": "example.com/test", "usages": ["client auth"]}}));
            requests.create(&request).await.unwrap();
        }
        let approved = requests.approve(format!("{ns}-a")).reason("Known").message("it is").await.unwrap();
        let condition = approved.status.unwrap().conditions.unwrap().remove(0);
        assert_eq!((condition.type_.as_str(), condition.reason.as_deref()), ("Approved", Some("Known")));
        assert!(condition.last_transition_time.is_some(), "the server says when");
        let again = requests.approve(format!("{ns}-a")).reason("Other").await.unwrap();
        assert_eq!(again.status.unwrap().conditions.unwrap()[0].reason.as_deref(), Some("Known"));
        let error = requests.deny(format!("{ns}-a")).await.unwrap_err();
        assert_eq!(error.status().unwrap().code, 422, "{error}");
        requests.deny(format!("{ns}-b")).await.unwrap();
        for name in [format!("{ns}-a"), format!("{ns}-b")] {
            requests.delete(name).await.unwrap();
        }
        finish(&clientset, &ns).await;
        target
    })
    .await;
}
