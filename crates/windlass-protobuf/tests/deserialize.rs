//! Deserialized protobuf equals deserialized JSON: with the objects of the corpus, every type of k8s-openapi, and hostile
//! input.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Debug,
    fs::File,
    io::Read,
    sync::LazyLock,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use k8s_openapi::{List, Resource};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_api::from_json;
use windlass_protobuf::{
    Error, MessageType, NEWEST_MINOR, decode, from_protobuf, kinds, to_json, to_protobuf, type_of, value_at,
};

/// The protobuf of the corpus by API version and kind.
static CORPUS: LazyLock<BTreeMap<(String, String), Vec<Vec<u8>>>> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(File::open("testdata/corpus.txt.gz").unwrap()).read_to_string(&mut text).unwrap();
    let mut corpus = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines().skip(1) {
        let protobuf = BASE64_STANDARD.decode(line.split('\t').nth(1).unwrap()).unwrap();
        let (version, kind) = type_of(&protobuf).unwrap();
        corpus.entry((version.into_owned(), kind.into_owned())).or_default().push(protobuf);
    }
    corpus
});

type Compare = fn(&[u8]) -> Result<(), String>;

/// Deserializes a value in both ways. Random objects have values that a type rejects in both encodings.
fn compare<T: DeserializeOwned + PartialEq + Debug>(value: &[u8]) -> Result<(), String> {
    let json = to_json(value).unwrap();
    match (from_json::<T>(&json), decode::<T>(value)) {
        (Ok(one), Ok(other)) if one == other => Ok(()),
        (Ok(one), Ok(other)) => Err(format!("{one:?}\n{other:?}")),
        (Err(_), Err(_)) => Ok(()),
        (Ok(_), Err(error)) => Err(error.to_string()),
        (Err(error), Ok(_)) => Err(format!("JSON is rejected: {error}")),
    }
}

macro_rules! types {
    ($($ty:ty)+) => {
        /// Returns the comparisons by API version and kind.
        fn types() -> HashMap<(String, String), Compare> {
            let mut types = HashMap::<_, Compare>::new();
            $(types.insert((<$ty>::API_VERSION.to_owned(), <$ty>::KIND.to_owned()), compare::<$ty>);)+
            types
        }
    };
}

types! {
    k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy
    k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding
    k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration
    k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy
    k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding
    k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration
    k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicy
    k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding
    k8s_openapi::api::admissionregistration::v1beta1::MutatingAdmissionPolicy
    k8s_openapi::api::admissionregistration::v1beta1::MutatingAdmissionPolicyBinding
    k8s_openapi::api::apiserverinternal::v1alpha1::StorageVersion
    k8s_openapi::api::apps::v1::ControllerRevision
    k8s_openapi::api::apps::v1::DaemonSet
    k8s_openapi::api::apps::v1::Deployment
    k8s_openapi::api::apps::v1::ReplicaSet
    k8s_openapi::api::apps::v1::StatefulSet
    k8s_openapi::api::authentication::v1::SelfSubjectReview
    k8s_openapi::api::authentication::v1::TokenRequest
    k8s_openapi::api::authentication::v1::TokenReview
    k8s_openapi::api::authorization::v1::LocalSubjectAccessReview
    k8s_openapi::api::authorization::v1::SelfSubjectAccessReview
    k8s_openapi::api::authorization::v1::SelfSubjectRulesReview
    k8s_openapi::api::authorization::v1::SubjectAccessReview
    k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler
    k8s_openapi::api::autoscaling::v1::Scale
    k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler
    k8s_openapi::api::batch::v1::CronJob
    k8s_openapi::api::batch::v1::Job
    k8s_openapi::api::certificates::v1::CertificateSigningRequest
    k8s_openapi::api::certificates::v1alpha1::ClusterTrustBundle
    k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle
    k8s_openapi::api::certificates::v1beta1::PodCertificateRequest
    k8s_openapi::api::coordination::v1::Lease
    k8s_openapi::api::coordination::v1alpha2::LeaseCandidate
    k8s_openapi::api::coordination::v1beta1::LeaseCandidate
    k8s_openapi::api::core::v1::Binding
    k8s_openapi::api::core::v1::ComponentStatus
    k8s_openapi::api::core::v1::ConfigMap
    k8s_openapi::api::core::v1::Endpoints
    k8s_openapi::api::core::v1::Event
    k8s_openapi::api::core::v1::LimitRange
    k8s_openapi::api::core::v1::Namespace
    k8s_openapi::api::core::v1::Node
    k8s_openapi::api::core::v1::PersistentVolume
    k8s_openapi::api::core::v1::PersistentVolumeClaim
    k8s_openapi::api::core::v1::Pod
    k8s_openapi::api::core::v1::PodTemplate
    k8s_openapi::api::core::v1::ReplicationController
    k8s_openapi::api::core::v1::ResourceQuota
    k8s_openapi::api::core::v1::Secret
    k8s_openapi::api::core::v1::Service
    k8s_openapi::api::core::v1::ServiceAccount
    k8s_openapi::api::discovery::v1::EndpointSlice
    k8s_openapi::api::events::v1::Event
    k8s_openapi::api::flowcontrol::v1::FlowSchema
    k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration
    k8s_openapi::api::networking::v1::IPAddress
    k8s_openapi::api::networking::v1::Ingress
    k8s_openapi::api::networking::v1::IngressClass
    k8s_openapi::api::networking::v1::NetworkPolicy
    k8s_openapi::api::networking::v1::ServiceCIDR
    k8s_openapi::api::networking::v1beta1::IPAddress
    k8s_openapi::api::networking::v1beta1::ServiceCIDR
    k8s_openapi::api::node::v1::RuntimeClass
    k8s_openapi::api::policy::v1::Eviction
    k8s_openapi::api::policy::v1::PodDisruptionBudget
    k8s_openapi::api::rbac::v1::ClusterRole
    k8s_openapi::api::rbac::v1::ClusterRoleBinding
    k8s_openapi::api::rbac::v1::Role
    k8s_openapi::api::rbac::v1::RoleBinding
    k8s_openapi::api::resource::v1::DeviceClass
    k8s_openapi::api::resource::v1::ResourceClaim
    k8s_openapi::api::resource::v1::ResourceClaimTemplate
    k8s_openapi::api::resource::v1::ResourceSlice
    k8s_openapi::api::resource::v1alpha3::DeviceTaintRule
    k8s_openapi::api::resource::v1alpha3::ResourcePoolStatusRequest
    k8s_openapi::api::resource::v1beta1::DeviceClass
    k8s_openapi::api::resource::v1beta1::ResourceClaim
    k8s_openapi::api::resource::v1beta1::ResourceClaimTemplate
    k8s_openapi::api::resource::v1beta1::ResourceSlice
    k8s_openapi::api::resource::v1beta2::DeviceClass
    k8s_openapi::api::resource::v1beta2::DeviceTaintRule
    k8s_openapi::api::resource::v1beta2::ResourceClaim
    k8s_openapi::api::resource::v1beta2::ResourceClaimTemplate
    k8s_openapi::api::resource::v1beta2::ResourceSlice
    k8s_openapi::api::scheduling::v1::PriorityClass
    k8s_openapi::api::scheduling::v1alpha2::PodGroup
    k8s_openapi::api::scheduling::v1alpha2::Workload
    k8s_openapi::api::storage::v1::CSIDriver
    k8s_openapi::api::storage::v1::CSINode
    k8s_openapi::api::storage::v1::CSIStorageCapacity
    k8s_openapi::api::storage::v1::StorageClass
    k8s_openapi::api::storage::v1::VolumeAttachment
    k8s_openapi::api::storage::v1::VolumeAttributesClass
    k8s_openapi::api::storage::v1beta1::VolumeAttributesClass
    k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition
    k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup
    k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList
    k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList
    k8s_openapi::apimachinery::pkg::apis::meta::v1::APIVersions
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Status
    k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService
}

#[test]
fn every_type_of_k8s_openapi_has_the_values_of_json() {
    let types = types();
    let mut failures = Vec::new();
    let mut compared = 0;
    for (ty, compare) in &types {
        // These are messages of JSON only.
        let Some(values) = CORPUS.get(ty) else {
            assert!(!kinds().any(|kind| kind == (&*ty.0, &*ty.1)), "no objects of {ty:?}");
            continue;
        };
        for value in values {
            compared += 1;
            failures.extend(compare(value).err().map(|difference| format!("{ty:?}: {difference}")));
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures[..failures.len().min(5)].join("\n"));
    assert!(types.len() > 90 && compared > 200, "{compared} objects of {} types", types.len());
}

#[test]
fn most_objects_of_the_corpus_are_accepted_by_their_types() {
    use k8s_openapi::{
        api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    };
    fn accepted<T: DeserializeOwned + Resource>() -> usize {
        let values = &CORPUS[&(T::API_VERSION.to_owned(), T::KIND.to_owned())];
        values.iter().filter(|value| from_protobuf::<T>(value).is_ok()).count()
    }
    assert!(accepted::<Pod>() > 0);
    assert!(accepted::<CustomResourceDefinition>() > 0);
}

#[test]
fn dynamic_values_are_those_of_json_for_every_kind() {
    let mut found = BTreeSet::new();
    for (ty, values) in &*CORPUS {
        for value in values {
            let json: Value = serde_json::from_slice(&to_json(value).unwrap()).unwrap();
            assert_eq!(from_protobuf::<Value>(value).unwrap(), json, "{ty:?}");
        }
        found.insert(ty.clone());
    }
    assert!(found.len() > 300, "{} kinds", found.len());
}

#[test]
fn values_at_paths_are_those_of_json() {
    fn walk(value: &[u8], json: &Value, path: &mut Vec<String>, checked: &mut usize) {
        let keys: Vec<&str> = path.iter().map(String::as_str).collect();
        let at: Option<Value> = value_at(value, &keys).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        // The envelope has API version and kind.
        if !matches!(&*keys, ["kind" | "apiVersion"]) {
            assert_eq!(at, Some(json.clone()).filter(|json| !json.is_null()), "{path:?}");
            *checked += 1;
        }
        if let (Value::Object(members), true) = (json, path.len() < 5) {
            for (key, member) in members {
                path.push(key.clone());
                walk(value, member, path, checked);
                path.pop();
            }
            path.push("no such key".to_owned());
            let keys: Vec<&str> = path.iter().map(String::as_str).collect();
            assert_eq!(value_at::<Value>(value, &keys).unwrap(), None);
            path.pop();
        }
    }
    let mut checked = 0;
    for kind in [("v1", "Pod"), ("v1", "Secret"), ("v1", "LimitRange"), ("apps/v1", "ControllerRevision")] {
        for value in &CORPUS[&(kind.0.to_owned(), kind.1.to_owned())] {
            let mut json: Value = serde_json::from_slice(&to_json(value).unwrap()).unwrap();
            json.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
            // The whole object has the members of the envelope.
            for (key, member) in json.as_object().unwrap() {
                walk(value, member, &mut vec![key.clone()], &mut checked);
            }
        }
    }
    assert!(checked > 100, "{checked} paths");
}

#[test]
fn lists_are_deserialized() {
    let json = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
    let value = to_protobuf(json).unwrap();
    let list: List<k8s_openapi::api::core::v1::Pod> = from_protobuf(&value).unwrap();
    assert_eq!(list.metadata.resource_version.as_deref(), Some("7"));
    let names: Vec<_> = list.items.iter().map(|pod| pod.metadata.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b")]);
}

#[test]
fn user_types_take_borrowed_strings_enums_and_options() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct View<'a> {
        #[serde(borrow)]
        spec: Spec<'a>,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        node_name: &'a str,
        restart_policy: Policy,
        hostname: Option<String>,
    }
    #[derive(Debug, Deserialize, PartialEq)]
    enum Policy {
        Always,
        Never,
    }
    let json = br#"{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"n","restartPolicy":"Never","containers":[]}}"#;
    let value = to_protobuf(json).unwrap();
    let view: View<'_> = from_protobuf(&value).unwrap();
    assert_eq!(view, View { spec: Spec { node_name: "n", restart_policy: Policy::Never, hostname: None } });
    assert!(value.as_ptr_range().contains(&view.spec.node_name.as_ptr()));
}

#[test]
fn members_that_a_type_leaves_unread_are_an_error() {
    #[derive(Debug, Deserialize)]
    struct View<C> {
        spec: Spec<C>,
    }
    #[derive(Debug, Deserialize)]
    struct Spec<C> {
        containers: Vec<C>,
    }
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probed {
        readiness_probe: Handler,
    }
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Handler {
        HttpGet(Value),
    }
    #[derive(Debug, Deserialize)]
    struct Called {
        args: [String; 2],
    }
    let pod = |container: &str| {
        let json = format!(r#"{{"kind":"Pod","apiVersion":"v1","spec":{{"containers":[{container},{container}]}}}}"#);
        to_protobuf(json.as_bytes()).unwrap()
    };
    // The handler is a message of its own within the probe.
    let alone = pod(r#"{"name":"c","readinessProbe":{"httpGet":{"port":80}}}"#);
    let probed = from_protobuf::<View<Probed>>(&alone).unwrap();
    assert!(matches!(&probed.spec.containers[1].readiness_probe, Handler::HttpGet(get) if get["port"] == 80));
    let more = pod(r#"{"name":"c","readinessProbe":{"httpGet":{"port":80},"periodSeconds":5}}"#);
    let error = from_protobuf::<View<Probed>>(&more).unwrap_err().to_string();
    assert!(error.ends_with("the object has more members"), "{error}");
    let two = from_protobuf::<View<Called>>(&pod(r#"{"name":"c","args":["a","b"]}"#)).unwrap();
    assert_eq!(two.spec.containers[0].args, ["a", "b"]);
    let error = from_protobuf::<View<Called>>(&pod(r#"{"name":"c","args":["a","b","c"]}"#)).unwrap_err().to_string();
    assert!(error.ends_with("the list has more items"), "{error}");
}

#[test]
fn error_of_a_type_names_message_field_and_position() {
    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "never deserialized")]
    struct Wrong {
        spec: BTreeMap<String, Option<u8>>,
    }
    let value = to_protobuf(br#"{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"n"}}"#).unwrap();
    let Error::Protobuf { message, field, offset, problem } = from_protobuf::<Wrong>(&value).unwrap_err() else {
        panic!("another error")
    };
    assert_eq!((message, field), ("PodSpec", Some("nodeName")));
    assert!(offset < value.len() && problem.starts_with("invalid type: string"), "{offset} {problem}");
    let error = value_at::<u8>(&value, &["spec", "nodeName"]).unwrap_err();
    assert!(error.to_string().starts_with("cannot decode PodSpec.nodeName at byte "), "{error}");
}

/// Compares values. Parsed numbers may differ in their last bit.
fn are_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= f64::EPSILON * one.abs()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| are_equal(one, other)))
        }
        _ => one == other,
    }
}

/// Deserializes hostile input. The result must be that of JSON.
fn check(value: &[u8]) -> bool {
    let (json, other) = (to_json(value), from_protobuf::<Value>(value));
    match (json, other) {
        (Ok(json), Ok(other)) => {
            let json = serde_json::from_slice(&json).unwrap();
            assert!(are_equal(&other, &json), "{other}\n{json}");
            true
        }
        (_, Err(Error::Protobuf { message, offset, problem, .. })) => {
            assert!(offset <= value.len() && !message.is_empty() && !problem.is_empty());
            false
        }
        (_, Err(Error::Prefix | Error::UnknownKind { .. })) => false,
        (Err(error), Ok(_)) => panic!("JSON is rejected: {error}"),
        (_, Err(error)) => panic!("{error}"),
    }
}

#[test]
fn hostile_values_are_errors_or_the_values_of_json() {
    let kinds = [
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "Event"),
        ("v1", "LimitRange"),
        ("apps/v1", "ControllerRevision"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("authentication.k8s.io/v1", "TokenReview"),
    ];
    let (mut accepted, mut rejected) = (0, 0);
    for (version, kind) in kinds {
        let values = &CORPUS[&(version.to_owned(), kind.to_owned())];
        for value in values.iter().filter(|value| value.len() < 1200).take(2) {
            for length in 0..value.len() {
                if check(&value[..length]) { accepted += 1 } else { rejected += 1 }
            }
            for at in 0..value.len() {
                for mask in [0x01, 0x80, 0xFF] {
                    let mut value = value.clone();
                    value[at] ^= mask;
                    if check(&value) { accepted += 1 } else { rejected += 1 }
                }
            }
        }
    }
    assert!(accepted > 300 && rejected > 300, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn nested_messages_are_limited() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let nested = |depth: usize| {
        let (open, close) = (r#"{"not":"#.repeat(depth), "}".repeat(depth));
        let json = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{open}{{}}{close}}}}}]}}}}"#);
        MessageType::of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            .unwrap()
            .encode(json.as_bytes(), NEWEST_MINOR)
    };
    let ty = MessageType::of("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    assert!(ty.deserialize::<Value>(&nested(100).unwrap()).is_ok());
    // Written by hand, because the encoder has the same limit.
    let field = |number: u32, content: &[u8]| {
        let mut bytes = Vec::new();
        for mut value in [number << 3 | 2, u32::try_from(content.len()).unwrap()] {
            while value >= 0x80 {
                bytes.push((value & 0x7F) as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(u8::try_from(value).unwrap());
        }
        bytes.extend_from_slice(content);
        bytes
    };
    let schema = (0..20_000).fold(Vec::new(), |schema, _| field(28, &schema));
    let crd = field(2, &field(7, &field(4, &field(1, &schema))));
    let error = ty.deserialize::<CustomResourceDefinition>(&crd).unwrap_err();
    assert!(error.to_string().ends_with("more than 128 nested messages"), "{error}");
}
