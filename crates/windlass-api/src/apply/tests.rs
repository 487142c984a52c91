use std::{collections::BTreeMap, fmt::Debug};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{Container, ContainerPort, Event, Pod, PodSpec, PodTemplateSpec, Service, ServicePort, ServiceSpec},
        networking::v1::{NetworkPolicy, NetworkPolicySpec},
        rbac::v1::{ClusterRole, PolicyRule, RoleBinding, RoleRef},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ManagedFieldsEntry},
};
use serde_json::json;

use super::*;
use crate::Resource;

/// Returns the body without what the client always sends.
fn applied<K: Resource>(object: &K) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    omit_defaults(&K::api_resource().gvk(), &mut value);
    let fields = value.as_object_mut().unwrap();
    fields.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    value
}

fn deployment(spec: DeploymentSpec) -> Deployment {
    Deployment { spec: Some(spec), ..Deployment::default() }
}

#[test]
fn default_of_each_kind_has_no_fields() {
    fn check<K: Resource + Default + Debug>() {
        assert_eq!(applied(&K::default()), json!({}), "{}", K::api_resource().kind);
    }
    check::<ClusterRole>();
    check::<CronJob>();
    check::<CustomResourceDefinition>();
    check::<Deployment>();
    check::<Event>();
    check::<Job>();
    check::<NetworkPolicy>();
    check::<Pod>();
    check::<RoleBinding>();
    check::<Service>();
    check::<StatefulSet>();
    check::<StorageClass>();
}

#[test]
fn required_fields_at_their_default_are_omitted() {
    let scaled = deployment(DeploymentSpec { replicas: Some(0), ..DeploymentSpec::default() });
    assert_eq!(applied(&scaled), json!({"spec": {"replicas": 0}}));
    let placed = PodSpec { node_selector: Some(BTreeMap::default()), ..PodSpec::default() };
    let template = PodTemplateSpec { spec: Some(placed), ..PodTemplateSpec::default() };
    let placed = deployment(DeploymentSpec { template, ..DeploymentSpec::default() });
    assert_eq!(applied(&placed), json!({"spec": {"template": {"spec": {"nodeSelector": {}}}}}));
}

#[test]
fn options_are_kept_whatever_their_value() {
    let template = PodTemplateSpec { spec: Some(PodSpec::default()), ..PodTemplateSpec::default() };
    let selector = LabelSelector { match_labels: Some(BTreeMap::default()), ..LabelSelector::default() };
    let spec = DeploymentSpec { paused: Some(false), selector, template, ..DeploymentSpec::default() };
    let status = DeploymentStatus { replicas: Some(0), ..DeploymentStatus::default() };
    let explicit = Deployment { status: Some(status), ..deployment(spec) };
    let expected = json!({
        "spec": {"paused": false, "selector": {"matchLabels": {}}, "template": {"spec": {}}},
        "status": {"replicas": 0},
    });
    assert_eq!(applied(&explicit), expected);
}

#[test]
fn keys_of_list_items_are_kept() {
    let port = ServicePort { port: 0, name: Some("http".to_owned()), ..ServicePort::default() };
    let ports = Some(vec![port]);
    let service = Service { spec: Some(ServiceSpec { ports, ..ServiceSpec::default() }), ..Service::default() };
    assert_eq!(applied(&service), json!({"spec": {"ports": [{"name": "http", "port": 0}]}}));
    let named = |name: &str| Container {
        name: name.to_owned(),
        ports: Some(vec![ContainerPort::default()]),
        ..Container::default()
    };
    let spec = PodSpec { containers: vec![named("a"), named("")], ..PodSpec::default() };
    let pod = Pod { spec: Some(spec), ..Pod::default() };
    let ports = json!([{"containerPort": 0}]);
    let containers = json!([{"name": "a", "ports": ports}, {"name": "", "ports": ports}]);
    assert_eq!(applied(&pod), json!({"spec": {"containers": containers}}));
}

#[test]
fn atomic_values_are_omitted_whole_or_not_at_all() {
    let role = RoleRef { kind: "Role".to_owned(), ..RoleRef::default() };
    let binding = RoleBinding { role_ref: role, ..RoleBinding::default() };
    assert_eq!(applied(&binding), json!({"roleRef": {"kind": "Role", "name": ""}}));
    let rules = Some(vec![PolicyRule::default()]);
    assert_eq!(applied(&ClusterRole { rules, ..ClusterRole::default() }), json!({"rules": [{"verbs": []}]}));
}

#[test]
fn unset_optional_structs_differ_from_empty_ones() {
    let policy = |spec| NetworkPolicy { spec, ..NetworkPolicy::default() };
    assert_eq!(applied(&policy(None)), json!({}));
    assert_eq!(applied(&policy(Some(NetworkPolicySpec::default()))), json!({"spec": {}}));
}

#[test]
fn other_kinds_are_left_unchanged() {
    let mut object = json!({"spec": {"selector": {}, "template": {}}});
    omit_defaults(&GroupVersionKind::new("example.com", "v1", "Deployment"), &mut object);
    assert_eq!(object, json!({"spec": {"selector": {}, "template": {}}}));
}

#[test]
fn extraction_without_managed_fields_is_an_error() {
    let mut live = deployment(DeploymentSpec { replicas: Some(1), ..DeploymentSpec::default() });
    let error = Deployment::extract(&live, Manager::new("me")).unwrap_err();
    assert!(matches!(error, ExtractError::NoManagedFields), "{error}");
    live.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
    assert_eq!(Deployment::extract(&live, Manager::new("me")).unwrap(), None);
}
