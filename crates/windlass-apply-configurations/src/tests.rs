//! The rules that all generated configurations follow, and the values that the tests of the generated module use.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_api::ApplyConfiguration;

use crate::{
    core::v1::{ContainerApply, PersistentVolumeClaimApply, PodApply, PodSpecApply, PodTemplateSpecApply},
    prelude::*,
};

/// A type with a value in which all fields are set.
pub(crate) trait Complete {
    fn complete() -> Self;
}

/// Checks that a configuration with all fields set has the encoding of its source, in both directions.
pub(crate) fn check<S, C>()
where
    S: Serialize + DeserializeOwned,
    C: Complete + Clone + Debug + PartialEq + Serialize + DeserializeOwned + From<S>,
{
    let complete = C::complete();
    let encoded = serde_json::to_value(&complete).unwrap();
    let source: S = serde_json::from_value(encoded.clone()).unwrap_or_else(|error| panic!("{error}: {encoded}"));
    let mut decoded = serde_json::to_value(&source).unwrap();
    // The types of kinds that are parts of others, such as PersistentVolumeClaim, encode them.
    remove_type_meta(&mut decoded, &encoded);
    assert_eq!(decoded, encoded);
    assert_eq!(C::from(source), complete);
    assert_eq!(serde_json::to_value(C::from(serde_json::from_value(decoded).unwrap())).unwrap(), encoded);
}

pub(crate) fn check_kind<S, C>()
where
    S: Serialize + DeserializeOwned,
    C: Complete + Clone + Debug + PartialEq + Serialize + DeserializeOwned + From<S> + ApplyConfiguration<Object = S>,
{
    check::<S, C>();
    let Body::Fields(body) = C::complete().body() else { panic!("the body is an object") };
    assert!(body.is_ok_and(|body| body.contains_key("metadata")));
}

/// Removes the API version and the kind where only one side encodes them.
fn remove_type_meta(decoded: &mut Value, encoded: &Value) {
    match (decoded, encoded) {
        (Value::Object(decoded), Value::Object(encoded)) => {
            decoded.retain(|name, _| encoded.contains_key(name) || !["apiVersion", "kind"].contains(&name.as_str()));
            for (name, value) in decoded {
                remove_type_meta(value, encoded.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(decoded), Value::Array(encoded)) => {
            decoded.iter_mut().zip(encoded).for_each(|(decoded, encoded)| remove_type_meta(decoded, encoded));
        }
        _ => {}
    }
}

macro_rules! complete {
    ($($type:ty: $json:tt;)*) => {$(
        impl Complete for $type {
            fn complete() -> Self {
                serde_json::from_value(json!($json)).unwrap()
            }
        }
    )*};
}

complete! {
    bool: true;
    f64: 1.5;
    i32: 7;
    i64: 8_000_000_000_i64;
    ByteString: "YQ==";
    CustomResourceSubresourceStatus: {};
    IntOrString: "25%";
    JSONSchemaProps: {"type": "object"};
    LabelSelector: {"matchLabels": {"a": "b"}};
    MicroTime: "2026-01-02T03:04:05.000006Z";
    ObjectMeta: {"name": "web"};
    Quantity: "100m";
    RawExtension: {"a": 1};
    String: "text";
    Time: "2026-01-02T03:04:05Z";
}

impl<T: Complete> Complete for Vec<T> {
    fn complete() -> Self {
        vec![T::complete()]
    }
}

impl<T: Complete> Complete for BTreeMap<String, T> {
    fn complete() -> Self {
        [("key".to_owned(), T::complete())].into()
    }
}

#[test]
fn only_fields_that_are_set_are_encoded() {
    assert_eq!(serde_json::to_value(PodSpecApply::new()).unwrap(), json!({}));
    let container = ContainerApply::new().name("web").env([]).tty(false).command(Vec::new());
    let spec = PodSpecApply::new().containers([container]).priority(0).active_deadline_seconds(5);
    let template = PodTemplateSpecApply::new().label("app", "web").annotation("team", "shop").spec(spec);
    assert_eq!(
        serde_json::to_value(&template).unwrap(),
        json!({
            "metadata": {"annotations": {"team": "shop"}, "labels": {"app": "web"}},
            "spec": {
                "activeDeadlineSeconds": 5,
                "containers": [{"command": [], "env": [], "name": "web", "tty": false}],
                "priority": 0,
            },
        })
    );
}

#[test]
fn fields_of_other_minor_versions_are_preserved() {
    let encoded = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "later": {"a": [null]}}], "later": [1], "none": null}, "status": null,
    });
    let pod: PodApply = serde_json::from_value(encoded).unwrap();
    let spec = pod.spec.clone().unwrap();
    assert_eq!((spec.other.get("later"), spec.other.get("none")), (Some(&json!([1])), None));
    let expected = json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "later": {"a": [null]}}], "later": [1]},
    });
    assert_eq!(serde_json::to_value(&pod).unwrap(), expected);
    let container = ContainerApply::new().name("web").other("later", json!({"a": [null]}));
    let spec = PodSpecApply::new().containers([container]).other("later", vec![1]);
    assert_eq!(PodApply::named("web").spec(spec), pod);
}

#[test]
fn value_of_another_type_is_an_error() {
    let error = |json: &str| serde_json::from_str::<PersistentVolumeClaimApply>(json).unwrap_err().to_string();
    let message = error(r#"{"spec": [1]}"#);
    assert!(message.starts_with("invalid type: sequence, expected struct PersistentVolumeClaimSpecApply"), "{message}");
    assert!(error(r#"{"spec": {"volumeName": 1}}"#).starts_with("invalid type: integer `1`, expected a string"));
}
