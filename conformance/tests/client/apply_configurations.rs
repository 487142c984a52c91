//! Server-side applies of apply configurations: the fields that each manager owns.

use std::collections::BTreeMap;

use conformance::{Capability, Target, eventually, example_objects, on_each_target, on_each_target_with, unique};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_api::{
    ApplyConfiguration, DynamicObject, Object, ObjectBuilder as _, Resource, crd::CustomResource as _,
    managed_fields::Manager,
};
use windlass_apply_configurations::{
    admissionregistration::v1::{
        MutatingAdmissionPolicyApply, MutatingAdmissionPolicyBindingApply, MutatingWebhookConfigurationApply,
        ValidatingAdmissionPolicyApply, ValidatingAdmissionPolicyBindingApply, ValidatingWebhookConfigurationApply,
    },
    apiextensions::v1::CustomResourceDefinitionApply,
    apiregistration::v1::APIServiceApply,
    apps::v1::{
        ControllerRevisionApply, DaemonSetApply, DeploymentApply, DeploymentSpecApply, ReplicaSetApply,
        StatefulSetApply,
    },
    autoscaling,
    batch::v1::{CronJobApply, JobApply},
    certificates::v1::CertificateSigningRequestApply,
    coordination::v1::LeaseApply,
    core::v1::{
        self as core, ConfigMapApply, ContainerApply, ContainerPortApply, EndpointsApply, EnvVarApply, LimitRangeApply,
        NamespaceApply, NodeApply, PersistentVolumeApply, PersistentVolumeClaimApply, PodApply, PodConditionApply,
        PodSpecApply, PodStatusApply, PodTemplateApply, PodTemplateSpecApply, ReplicationControllerApply,
        ResourceQuotaApply, SecretApply, ServiceAccountApply, ServiceApply, ServicePortApply, ServiceSpecApply,
    },
    discovery::v1::EndpointSliceApply,
    events,
    flowcontrol::v1::{FlowSchemaApply, PriorityLevelConfigurationApply},
    networking::v1::{IPAddressApply, IngressApply, IngressClassApply, NetworkPolicyApply, ServiceCIDRApply},
    node::v1::RuntimeClassApply,
    policy::v1::PodDisruptionBudgetApply,
    rbac::v1::{ClusterRoleApply, ClusterRoleBindingApply, RoleApply, RoleBindingApply},
    resource::v1::{DeviceClassApply, ResourceClaimApply, ResourceClaimTemplateApply, ResourceSliceApply},
    scheduling::v1::PriorityClassApply,
    storage::v1::{
        CSIDriverApply, CSINodeApply, CSIStorageCapacityApply, StorageClassApply, VolumeAttachmentApply,
        VolumeAttributesClassApply,
    },
};
use windlass_client::Client;
use windlass_derive::{ApplyConfiguration, CustomResource, Schema};

/// A custom kind with a keyed list and a status.
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource, ApplyConfiguration)]
#[resource(group = "applies.example.com", version = "v1", status, crate = windlass_api)]
#[schema(crate = windlass_api)]
struct Website {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WebsiteSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<WebsiteStatus>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api)]
struct WebsiteSpec {
    image: String,
    #[serde(default)]
    replicas: u16,
    #[serde(default)]
    #[schema(list_type = "map", map_keys("path"))]
    pages: Vec<Page>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api, derive(PartialEq))]
struct Page {
    path: String,
    #[serde(default)]
    title: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api)]
struct WebsiteStatus {
    ready: bool,
}

/// The namespace of a test, and the clients of two field managers.
struct Applies {
    namespace: String,
    one: Client,
    other: Client,
}

impl Applies {
    async fn to(target: &Target) -> Self {
        let namespace = unique("applies");
        target.client.create(&Namespace::named(namespace.as_str())).await.unwrap();
        let client = |manager: &str| target.client.clone().with_field_owner(manager);
        Self { namespace, one: client("one"), other: client("other") }
    }

    async fn finish(&self) {
        self.one.delete::<Namespace>(&*self.namespace).await.unwrap();
    }

    /// Returns a complete Deployment, without replicas.
    fn deployment(&self) -> DeploymentApply {
        let template = PodTemplateSpecApply::new().label("app", "web").spec(pod_spec([container()]));
        let selector = LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() };
        self.web().label("app", "web").spec(DeploymentSpecApply::new().selector(selector).template(template))
    }

    /// Returns the Deployment without any fields.
    fn web(&self) -> DeploymentApply {
        DeploymentApply::named("web").in_namespace(&self.namespace)
    }
}

fn labels() -> BTreeMap<String, String> {
    [("app".to_owned(), "web".to_owned())].into()
}

fn container() -> ContainerApply {
    ContainerApply::new().name("web").image("nginx")
}

fn pod_spec(containers: impl IntoIterator<Item = ContainerApply>) -> PodSpecApply {
    PodSpecApply::new().containers(containers.into_iter().collect::<Vec<_>>())
}

/// Returns the fields that a manager owns by applies to the object, or to its status.
fn owned<K: Object>(object: &K, manager: &str, subresource: Option<&str>) -> Option<Value> {
    let mut entries = object.metadata().managed_fields.iter().flatten();
    let entry = entries.find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == subresource
    });
    Some(entry?.fields_v1.clone()?.0)
}

#[tokio::test]
async fn configurations_own_exactly_the_fields_they_set() {
    on_each_target(|target| async {
        let applies = Applies::to(&target).await;
        let Applies { namespace, one, .. } = &applies;

        let settings = ConfigMapApply::named("settings").in_namespace(namespace).data(labels()).immutable(false);
        let settings: ConfigMap = one.apply(&settings.binary_data(BTreeMap::new())).await.unwrap();
        let expected = json!({"f:binaryData": {}, "f:data": {"f:app": {}}, "f:immutable": {}});
        assert_eq!(owned(&settings, "one", None), Some(expected));

        let port = ServicePortApply::new().port(80).protocol("TCP").target_port(IntOrString::Int(8080));
        let spec = ServiceSpecApply::new().selector(labels()).ports([port]).publish_not_ready_addresses(false);
        let service: Service = one.apply(&ServiceApply::named("web").in_namespace(namespace).spec(spec)).await.unwrap();
        let expected = json!({"f:spec": {
            "f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
            "f:publishNotReadyAddresses": {},
            "f:selector": {},
        }});
        assert_eq!(owned(&service, "one", None), Some(expected));

        let port = ContainerPortApply::new().container_port(80).protocol("TCP");
        let container = container().ports([port]).env([EnvVarApply::new().name("A").value("")]).tty(false);
        let spec = pod_spec([container]).automount_service_account_token(false);
        let pod: Pod = one.apply(&PodApply::named("web").in_namespace(namespace).spec(spec)).await.unwrap();
        let container = json!({
            ".": {}, "f:image": {}, "f:name": {}, "f:tty": {},
            "f:env": {r#"k:{"name":"A"}"#: {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}, "f:protocol": {}}},
        });
        let containers = json!({r#"k:{"name":"web"}"#: container});
        let expected = json!({"f:spec": {"f:automountServiceAccountToken": {}, "f:containers": containers}});
        assert_eq!(owned(&pod, "one", None), Some(expected));

        let condition = PodConditionApply::new().type_("example.com/ready").status("True");
        let status = PodApply::named("web").in_namespace(namespace).status(PodStatusApply::new().conditions([condition]));
        let pod = one.apply(&status).subresource("status").await.unwrap();
        let condition = json!({r#"k:{"type":"example.com/ready"}"#: {".": {}, "f:status": {}, "f:type": {}}});
        assert_eq!(owned(&pod, "one", Some("status")), Some(json!({"f:status": {"f:conditions": condition}})));
        let mine = PodApply::extract(&pod, Manager::new("one").subresource("status")).unwrap().unwrap();
        assert_eq!((mine.spec, mine.status), (None, status.status));
        applies.finish().await;
        target
    })
    .await;
}

#[tokio::test]
async fn field_that_is_not_set_again_is_removed() {
    on_each_target(|target| async {
        let applies = Applies::to(&target).await;
        let Applies { one, other, .. } = &applies;
        let mut all = applies.deployment().annotation("team", "shop");
        let spec = all.spec.take().unwrap().replicas(3).paused(true).min_ready_seconds(5);
        let deployment = one.apply(&all.spec(spec)).await.unwrap().spec.unwrap();
        assert_eq!(
            (deployment.replicas, deployment.paused, deployment.min_ready_seconds),
            (Some(3), Some(true), Some(5))
        );
        let shared = applies.web().spec(DeploymentSpecApply::new().min_ready_seconds(5));
        other.apply(&shared).await.unwrap();

        let deployment: Deployment = one.apply(&applies.deployment()).await.unwrap();
        assert_eq!(deployment.metadata.annotations, None);
        let spec = deployment.spec.as_ref().unwrap();
        // The server sets its default, and nobody owns it. The other manager keeps its field.
        assert_eq!((spec.replicas, spec.paused, spec.min_ready_seconds), (Some(1), None, Some(5)));
        let fields = owned(&deployment, "one", None).unwrap()["f:spec"].clone();
        assert_eq!(fields.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:selector", "f:template"]);
        assert_eq!(owned(&deployment, "other", None), Some(json!({"f:spec": {"f:minReadySeconds": {}}})));

        // Without its last field, a manager has no entry.
        let deployment = other.apply(&applies.web()).await.unwrap();
        assert_eq!(owned(&deployment, "other", None), None);
        assert!(deployment.spec.unwrap().min_ready_seconds.is_none_or(|seconds| seconds == 0));
        applies.finish().await;
        target
    })
    .await;
}

#[tokio::test]
async fn conflict_names_the_owner_and_force_takes_the_field() {
    on_each_target(|target| async {
        let applies = Applies::to(&target).await;
        let Applies { one, other, .. } = &applies;
        let scaled = |replicas: i32| applies.web().spec(DeploymentSpecApply::new().replicas(replicas));
        let mut full = applies.deployment();
        full.spec = full.spec.map(|spec| spec.replicas(3));
        one.apply(&full).await.unwrap();

        let refused = other.apply(&scaled(0)).await.unwrap_err();
        assert!(refused.is_conflict(), "{}", refused.chain());
        let causes = &refused.status().unwrap().details.as_ref().unwrap().causes;
        assert_eq!((causes.len(), causes[0].field.as_str()), (1, ".spec.replicas"));
        assert_eq!(
            (causes[0].reason.as_str(), causes[0].message.as_str()),
            ("FieldManagerConflict", r#"conflict with "one""#)
        );

        // Equal values are shared; another value is taken over.
        let shared = other.apply(&scaled(3)).await.unwrap();
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        assert_eq!(owned(&shared, "other", None).as_ref(), Some(&replicas));
        assert_eq!(owned(&shared, "one", None).unwrap()["f:spec"]["f:replicas"], json!({}));
        let taken = other.apply(&scaled(0)).force().await.unwrap();
        assert_eq!(taken.spec.as_ref().unwrap().replicas, Some(0));
        assert_eq!(owned(&taken, "other", None), Some(replicas));
        assert_eq!(owned(&taken, "one", None).unwrap()["f:spec"].get("f:replicas"), None);
        applies.finish().await;
        target
    })
    .await;
}

#[tokio::test]
async fn extracted_configuration_is_what_was_applied() {
    on_each_target(|target| async {
        let applies = Applies::to(&target).await;
        let Applies { one, other, .. } = &applies;
        one.apply(&applies.deployment()).await.unwrap();
        let scaled = applies.web().spec(DeploymentSpecApply::new().replicas(0));
        let live = other.apply(&scaled).await.unwrap();
        assert_eq!(DeploymentApply::extract(&live, Manager::new("other")).unwrap(), Some(scaled));
        assert_eq!(DeploymentApply::extract(&live, Manager::new("none")).unwrap(), None);

        let mut mine = DeploymentApply::extract(&live, Manager::new("one")).unwrap().unwrap();
        assert_eq!(mine, applies.deployment());
        mine.spec.get_or_insert_default().paused = Some(true);
        let paused = one.apply(&mine).await.unwrap();
        let mut expected = owned(&live, "one", None).unwrap();
        expected["f:spec"]["f:paused"] = json!({});
        assert_eq!(owned(&paused, "one", None), Some(expected));
        assert_eq!(owned(&paused, "other", None), owned(&live, "other", None));
        applies.finish().await;
        target
    })
    .await;
}

#[tokio::test]
async fn custom_kind_is_applied_by_parts() {
    on_each_target(|target| async {
        let applies = Applies::to(&target).await;
        let Applies { namespace, one, other } = &applies;
        let definition = target.client.create(&Website::definition()).await.unwrap();
        let site = || WebsiteApply::named("web").in_namespace(namespace);
        let page = |path: &str| PageApply::new().path(path);
        let spec = || WebsiteSpecApply::new().image("nginx").pages([page("/").title("Home")]).headers(BTreeMap::new());
        let first = site().spec(spec());
        let website: Website = eventually("the kind is served", || async { one.apply(&first).await.ok() }).await;
        let home = json!({".": {}, "f:path": {}, "f:title": {}});
        let expected = json!({"f:spec": {"f:image": {}, "f:headers": {}, "f:pages": {r#"k:{"path":"/"}"#: home}}});
        assert_eq!(owned(&website, "one", None), Some(expected.clone()));

        // Each manager owns its items of the list. Zero is owned, too.
        let more = site().spec(WebsiteSpecApply::new().replicas(0).pages([page("/a")]));
        let website = other.apply(&more).await.unwrap();
        let item = json!({r#"k:{"path":"/a"}"#: {".": {}, "f:path": {}}});
        assert_eq!(owned(&website, "other", None), Some(json!({"f:spec": {"f:pages": item, "f:replicas": {}}})));
        assert_eq!(owned(&website, "one", None), Some(expected));
        let paths: Vec<_> = website.spec.pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!((paths, website.spec.replicas), (vec!["/", "/a"], 0));
        let conflict = other.apply(&site().spec(WebsiteSpecApply::new().image("caddy"))).await.unwrap_err();
        assert!(conflict.is_conflict(), "{}", conflict.chain());

        let status = site().status(WebsiteStatusApply::new().ready(false));
        let website = other.apply(&status).subresource("status").await.unwrap();
        assert_eq!(owned(&website, "other", Some("status")), Some(json!({"f:status": {"f:ready": {}}})));
        let theirs = WebsiteApply::extract(&website, Manager::new("other")).unwrap().unwrap();
        let pages = theirs.spec.as_ref().unwrap().pages.clone();
        assert_eq!(
            (pages, theirs.spec.unwrap().replicas, theirs.status.is_some()),
            (Some(vec![page("/a")]), Some(0), false)
        );
        let status = WebsiteApply::extract(&website, Manager::new("other").subresource("status")).unwrap().unwrap();
        assert_eq!(status.status.unwrap().ready, Some(false));

        let website = one.apply(&site().spec(WebsiteSpecApply::new().image("nginx"))).await.unwrap();
        let paths: Vec<_> = website.spec.pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(paths, ["/a"]);
        assert_eq!(owned(&website, "one", None), Some(json!({"f:spec": {"f:image": {}}})));
        let name = definition.metadata.name.unwrap();
        target.client.delete::<CustomResourceDefinition>(&*name).await.unwrap();
        applies.finish().await;
        target
    })
    .await;
}

/// Applies an example by its configuration type and as plain JSON, and compares the owned fields. Nothing is stored.
/// Returns the difference.
async fn check_kind<C>(client: &Client, example: &Value) -> Result<(), String>
where
    C: ApplyConfiguration<Object: Resource> + Serialize + DeserializeOwned,
{
    let configuration: C = serde_json::from_value(example.clone()).map_err(|error| error.to_string())?;
    let applied = client.apply(&configuration).dry_run().await.map_err(|error| error.chain())?;
    let plain: DynamicObject = serde_json::from_value(example.clone()).unwrap();
    let plain = client.dynamic(&C::Object::api_resource()).apply(&plain).dry_run().await.unwrap();
    let fields = owned(&applied, "one", None).ok_or("nothing is owned")?;
    let expected = owned(&plain, "one", None).unwrap();
    if fields != expected {
        return Err(format!("owns {fields} instead of {expected}"));
    }

    let extracted = C::extract(&applied, Manager::new("one")).unwrap().ok_or("nothing is extracted")?;
    let extracted = serde_json::to_value(&extracted).unwrap();
    // The spec of a CertificateSigningRequest has no owner. The server moves the values of `stringData` in a Secret.
    let mut expected = example.clone();
    let is_extracted = |name: &str| name != "stringData" && fields.get(format!("f:{name}")).is_some();
    expected.as_object_mut().unwrap().retain(|name, _| is_extracted(name));
    // Atomic values, and keys of list items, are extracted with their defaults.
    if contains(&extracted, &expected) { Ok(()) } else { Err(format!("extracts {extracted} instead of {expected}")) }
}

/// Reports whether a value has all fields of another.
fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(value), Value::Object(part)) => {
            part.iter().all(|(name, part)| value.get(name).is_some_and(|value| contains(value, part)))
        }
        (Value::Array(value), Value::Array(part)) => {
            value.len() == part.len() && value.iter().zip(part).all(|(value, part)| contains(value, part))
        }
        _ => value == part,
    }
}

/// Calls [`check_kind`] for each example. Returns the differences, and the examples without a type.
macro_rules! check_each {
    ($client:expr, $examples:expr, $problems:ident; $($type:ty,)*) => {
        let mut examples = $examples;
        $(
            let resource = <$type as ApplyConfiguration>::Object::api_resource();
            let is_of_type = |example: &conformance::Example| {
                let types = |field: &str| example.object[field].as_str().unwrap_or_default().to_owned();
                (types("apiVersion"), types("kind")) == (resource.api_version(), resource.kind.to_string())
            };
            let at = examples.iter().position(is_of_type).unwrap_or_else(|| panic!("no example: {resource:?}"));
            let example = examples.remove(at);
            if let Err(difference) = Box::pin(check_kind::<$type>($client, &example.object)).await {
                $problems.push(format!("{}: {difference}", example.label));
            }
        )*
        $problems.extend(examples.into_iter().map(|example| format!("{}: no configuration", example.label)));
    };
}

#[tokio::test]
async fn each_built_in_configuration_owns_the_fields_of_its_body() {
    on_each_target_with(&[Capability::KindsOf1_36], |target| async {
        let applies = Applies::to(&target).await;
        let examples = example_objects(&applies.namespace, applies.namespace.trim_start_matches("applies-"));
        let mut problems = Vec::new();
        check_each! {
            &applies.one, examples, problems;
            core::EventApply,
            ConfigMapApply,
            EndpointsApply,
            LimitRangeApply,
            NamespaceApply,
            NodeApply,
            PersistentVolumeApply,
            PersistentVolumeClaimApply,
            PodApply,
            PodTemplateApply,
            ReplicationControllerApply,
            ResourceQuotaApply,
            SecretApply,
            ServiceAccountApply,
            ServiceApply,
            APIServiceApply,
            ControllerRevisionApply,
            DaemonSetApply,
            DeploymentApply,
            ReplicaSetApply,
            StatefulSetApply,
            events::v1::EventApply,
            autoscaling::v1::HorizontalPodAutoscalerApply,
            autoscaling::v2::HorizontalPodAutoscalerApply,
            CronJobApply,
            JobApply,
            CertificateSigningRequestApply,
            IngressApply,
            IngressClassApply,
            IPAddressApply,
            NetworkPolicyApply,
            ServiceCIDRApply,
            PodDisruptionBudgetApply,
            ClusterRoleApply,
            ClusterRoleBindingApply,
            RoleApply,
            RoleBindingApply,
            CSIDriverApply,
            CSINodeApply,
            CSIStorageCapacityApply,
            StorageClassApply,
            VolumeAttachmentApply,
            VolumeAttributesClassApply,
            MutatingAdmissionPolicyApply,
            MutatingAdmissionPolicyBindingApply,
            MutatingWebhookConfigurationApply,
            ValidatingAdmissionPolicyApply,
            ValidatingAdmissionPolicyBindingApply,
            ValidatingWebhookConfigurationApply,
            CustomResourceDefinitionApply,
            PriorityClassApply,
            LeaseApply,
            RuntimeClassApply,
            EndpointSliceApply,
            DeviceClassApply,
            ResourceClaimApply,
            ResourceClaimTemplateApply,
            ResourceSliceApply,
            FlowSchemaApply,
            PriorityLevelConfigurationApply,
        }
        assert!(problems.is_empty(), "{problems:#?}");
        applies.finish().await;
        target
    })
    .await;
}
