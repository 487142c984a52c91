//! Server-side applies of the generated configurations of built-in kinds, and the fields that they own.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_api::{
    ApplyConfiguration as _, ObjectBuilder as _, ObjectExt as _,
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Pod},
        },
        apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
    },
    managed_fields::Manager,
};
use windlass_apply_configurations::{
    apps::v1::{DeploymentApply, DeploymentSpecApply, DeploymentStrategyApply, RollingUpdateDeploymentApply},
    core::v1::{
        ConfigMapApply, ContainerApply, ContainerPortApply, PodApply, PodConditionApply, PodSpecApply, PodStatusApply,
        PodTemplateSpecApply,
    },
};
use windlass_envtest::Environment;

use crate::{clients, owned};

/// Returns a complete Deployment, without replicas.
fn deployment() -> DeploymentApply {
    let port = ContainerPortApply::new().container_port(80).protocol("TCP");
    let container = ContainerApply::new().name("web").image("nginx").ports([port]);
    let template = PodTemplateSpecApply::new().label("app", "web").spec(PodSpecApply::new().containers([container]));
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    let spec = DeploymentSpecApply::new().selector(selector).template(template);
    DeploymentApply::named("web").in_namespace("default").label("app", "web").spec(spec)
}

#[tokio::test(start_paused = true)]
async fn configuration_owns_exactly_the_fields_that_are_set() {
    let env = Environment::start().await;
    let (one, other) = clients(&env);
    let applied: Deployment = one.apply(&deployment()).await.unwrap();
    let expected = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {r#"k:{"name":"web"}"#: {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {
                        ".": {}, "f:containerPort": {}, "f:protocol": {},
                    }},
                }}},
            },
        },
    });
    assert_eq!(owned(&applied, "one"), expected);

    let update = RollingUpdateDeploymentApply::new().max_surge(IntOrString::Int(0));
    let spec = DeploymentSpecApply::new().replicas(0).strategy(DeploymentStrategyApply::new().rolling_update(update));
    let scaled = other.apply(&DeploymentApply::named("web").in_namespace("default").spec(spec)).await.unwrap();
    assert_eq!(
        owned(&scaled, "other"),
        json!({"f:spec": {"f:replicas": {}, "f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}}})
    );
    assert_eq!(owned(&scaled, "one"), expected);
    assert_eq!(scaled.spec.unwrap().replicas, Some(0));
}

#[tokio::test(start_paused = true)]
async fn empty_map_is_owned_and_missing_map_is_not() {
    let env = Environment::start().await;
    let client = env.client().with_field_owner("me");
    let settings = || ConfigMapApply::named("settings").in_namespace("default");
    let applied = client.apply(&settings().data(BTreeMap::new()).immutable(false)).await.unwrap();
    assert_eq!(owned(&applied, "me"), json!({"f:data": {}, "f:immutable": {}}));
    let owner = client.create(&ConfigMap::named("owner").in_namespace("default")).await.unwrap();
    let applied = client.apply(&settings().controlled_by(&owner).annotation("team", "shop")).await.unwrap();
    let reference = format!(r#"k:{{"uid":"{}"}}"#, owner.uid().unwrap());
    assert_eq!(
        owned(&applied, "me"),
        json!({"f:metadata": {"f:annotations": {"f:team": {}}, "f:ownerReferences": {reference: {}}}})
    );
}

#[tokio::test(start_paused = true)]
async fn extracted_configuration_keeps_its_owner_when_applied() {
    let env = Environment::start().await;
    let (one, other) = clients(&env);
    one.apply(&deployment()).await.unwrap();
    let spec = DeploymentSpecApply::new().replicas(3);
    let live = other.apply(&DeploymentApply::named("web").in_namespace("default").spec(spec)).await.unwrap();

    let mut mine = DeploymentApply::extract(&live, Manager::new("one")).unwrap().unwrap();
    let defaulted = mine.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.as_ref()).unwrap();
    assert!(defaulted.restart_policy.is_none() && mine.spec.as_ref().unwrap().replicas.is_none());
    mine.spec.get_or_insert_default().paused = Some(true);
    let paused = one.apply(&mine).await.unwrap();
    let mut expected = owned(&live, "one");
    expected["f:spec"]["f:paused"] = json!({});
    assert_eq!(owned(&paused, "one"), expected);
    assert_eq!(owned(&paused, "other"), json!({"f:spec": {"f:replicas": {}}}));
    assert!(DeploymentApply::extract(&live, Manager::new("none")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn condition_is_applied_to_the_status_by_its_keys() {
    let env = Environment::start().await;
    let client = env.client().with_field_owner("gate");
    let pod = PodSpecApply::new().containers([ContainerApply::new().name("web").image("nginx")]);
    client.apply(&PodApply::named("web").in_namespace("default").spec(pod)).await.unwrap();
    let condition = PodConditionApply::new().type_("example.com/ready").status("True");
    let status = PodApply::named("web").in_namespace("default").status(PodStatusApply::new().conditions([condition]));
    let applied = client.apply(&status).subresource("status").await.unwrap();
    let manager = Manager::new("gate").subresource("status");
    let mine = PodApply::extract(&applied, manager).unwrap().unwrap();
    assert_eq!((mine.spec, mine.status), (None, status.status));
    let mut complete = PodApply::from(Pod { metadata: PodApply::named("web").metadata, ..applied });
    assert!(complete.spec.take().is_some_and(|spec| spec.restart_policy.as_deref() == Some("Always")));
    assert!(complete.status.is_some_and(|status| status.phase.as_deref() == Some("Pending")));
}
