//! The children of a website.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec, Secret},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{Resource, ResourceExt};

use crate::api::Website;

/// The namespace of all routes.
pub const ROUTES: &str = "routes";

pub fn deployment(website: &Website) -> Deployment {
    let labels = BTreeMap::from([("app.kubernetes.io/instance".to_owned(), website.name_any())]);
    let container = Container { name: "web".to_owned(), image: Some("nginx:1.29".to_owned()), ..Container::default() };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
    };
    let spec = DeploymentSpec {
        replicas: Some(website.spec.replicas),
        selector: LabelSelector { match_labels: Some(labels), ..LabelSelector::default() },
        template,
        ..DeploymentSpec::default()
    };
    Deployment { metadata: owned(website, website.name_any()), spec: Some(spec), ..Deployment::default() }
}

/// Returns the Secret with a random key. Its name is unique for the website: a second attempt cannot create a second one.
pub fn key(website: &Website) -> Secret {
    let uid = website.uid().unwrap_or_default();
    let name = format!("{}-key-{}", website.name_any(), uid.get(..8).unwrap_or_default());
    let key = format!("{:032x}", rand::random::<u128>());
    let data = BTreeMap::from([("key".to_owned(), key)]);
    Secret { metadata: owned(website, name), string_data: Some(data), ..Secret::default() }
}

/// Returns the route. It is in another namespace, where an owner reference has no effect.
pub fn route(website: &Website) -> ConfigMap {
    let namespace = website.namespace().unwrap_or_default();
    let backend = format!("{namespace}/{}", website.name_any());
    let data = [("host".to_owned(), website.spec.host.clone()), ("backend".to_owned(), backend)];
    let metadata = ObjectMeta {
        name: Some(format!("{namespace}.{}", website.name_any())),
        namespace: Some(ROUTES.to_owned()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, data: Some(data.into()), ..ConfigMap::default() }
}

fn owned(website: &Website, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: website.namespace(),
        owner_references: website.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
