use k8s_openapi::api::{
    autoscaling::{v1 as hpa_v1, v2 as hpa_v2},
    core::v1::{ConfigMap, Pod},
};
use serde_json::json;

use super::*;
use crate::{DynamicObject, ErrorChain, ObjectExt as _};

fn scheme() -> Scheme {
    let mut scheme = Scheme::new();
    scheme.register::<Pod>().unwrap().register::<hpa_v1::HorizontalPodAutoscaler>().unwrap();
    scheme.register::<hpa_v2::HorizontalPodAutoscaler>().unwrap();
    scheme
}

fn pod(json: &str, strictness: Strictness) -> Result<Pod> {
    scheme().decode(json.as_bytes(), strictness).map(|decoded| *decoded.object.downcast().unwrap())
}

#[test]
fn one_kind_is_one_type() {
    let mut scheme = scheme();
    scheme.register::<Pod>().unwrap();
    let pods = Pod::api_resource().gvk();
    let error = scheme.register_as::<ConfigMap>(pods.clone()).unwrap_err().to_string();
    assert!(error.starts_with("/v1, Kind=Pod is already registered as") && error.contains("ConfigMap"), "{error}");
    scheme.register_as::<Pod>(GroupVersionKind::new("x.io", "v1", "Pod")).unwrap();
    assert_eq!(scheme.kinds_of::<Pod>().count(), 2);
    assert!(scheme.recognizes(&pods) && !scheme.recognizes(&ConfigMap::api_resource().gvk()));
    for version in ["", "__internal"] {
        let error = scheme.register_as::<Pod>(GroupVersionKind::new("x.io", version, "Pod")).unwrap_err();
        assert!(matches!(error, SchemeError::Version { .. }), "{error}");
    }
}

#[test]
fn objects_are_decoded_by_their_kind() {
    let json = br#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"}}"#;
    let decoded = scheme().decode(json, Strictness::Lenient).unwrap();
    assert!(decoded.object.is::<hpa_v2::HorizontalPodAutoscaler>());
    assert_eq!(decoded.object.meta().name.as_deref(), Some("h"));
    assert!(decoded.object.downcast::<Pod>().is_err());
    let message = |json: &str| scheme().decode(json.as_bytes(), Strictness::Lenient).unwrap_err().to_string();
    assert_eq!(message(r#"{"apiVersion":"v1","kind":"Odd"}"#), "no type is registered for /v1, Kind=Odd");
    assert_eq!(message(r#"{"kind":"Pod"}"#), "the object has no apiVersion");
    assert_eq!(message(r#"{"apiVersion":"v1","kind":""}"#), "the object has no kind");
    let error = pod(r#"{"apiVersion":"v1","kind":"Pod","spec":3}"#, Strictness::Lenient).unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.starts_with("/v1, Kind=Pod cannot be decoded: invalid type"), "{error}");
}

#[test]
fn strict_decoding_names_every_field_that_is_too_much() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b","odd":1},
        "spec":{"containers":[{"name":"c","imag":"x"}],"containers":[{"name":"d","imag":"x"}]},"more":{}}"#;
    assert_eq!(
        pod(json, Strictness::Strict).unwrap_err().to_string(),
        "strict decoding error: duplicate field \"metadata.name\", duplicate field \"spec.containers\", \
         unknown field \"metadata.odd\", unknown field \"spec.containers[0].imag\", unknown field \"more\""
    );
    let lenient = pod(&json.replace(r#""name":"b","#, ""), Strictness::Lenient).unwrap();
    assert_eq!(lenient.name(), "a");
    assert!(pod(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#, Strictness::Strict).is_ok());
    assert!(pod(r#"{"apiVersion":"v1","kind":"Pod"} x"#, Strictness::Strict).is_err());
}

#[test]
fn versions_are_in_order_of_preference() {
    let mut scheme = scheme();
    let versions = |scheme: &Scheme| -> Vec<String> {
        scheme.prioritized_versions("autoscaling").iter().map(ToString::to_string).collect()
    };
    assert_eq!(versions(&scheme), ["autoscaling/v2", "autoscaling/v1"]);
    scheme.register_as::<DynamicObject>(GroupVersionKind::new("autoscaling", "v3beta1", "Odd")).unwrap();
    scheme.set_version_priority("autoscaling", ["v1"]);
    assert_eq!(versions(&scheme), ["autoscaling/v1", "autoscaling/v2", "autoscaling/v3beta1"]);
    assert!(scheme.prioritized_versions("none").is_empty());
}

#[test]
fn defaults_are_filled_in_by_type() {
    let mut scheme = scheme();
    scheme
        .add_default::<Pod>(|pod| {
            pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        })
        .add_default::<Pod>(|pod| {
            pod.labels_mut().insert("n".to_owned(), "1".to_owned());
        });
    let mut decoded = scheme.decode(br#"{"apiVersion":"v1","kind":"Pod"}"#, Strictness::Strict).unwrap();
    scheme.default_object(&mut *decoded.object);
    assert_eq!(
        (decoded.object.meta().namespace.as_deref(), decoded.object.meta().labels.is_some()),
        (Some("default"), true)
    );
    let mut other = ConfigMap::default();
    scheme.default_object(&mut other);
    assert_eq!(other, ConfigMap::default());
}

#[test]
fn versions_are_converted_directly_or_over_a_third_type() {
    type V1 = hpa_v1::HorizontalPodAutoscaler;
    type V2 = hpa_v2::HorizontalPodAutoscaler;
    let mut scheme = scheme();
    let v1: V1 = serde_json::from_value(json!({"metadata": {"name": "h"}})).unwrap();
    let error = scheme.convert::<V1, V2>(&v1).unwrap_err();
    assert!(matches!(error, SchemeError::NoConversion { .. }), "{error}");
    scheme.add_conversion(|v1: &V1| {
        Ok::<_, BoxError>(DynamicObject { metadata: v1.metadata.clone(), ..DynamicObject::default() })
    });
    scheme.add_conversion(|hub: &DynamicObject| {
        if hub.name().is_empty() {
            return Err(BoxError::from("no name"));
        }
        Ok(V2 { metadata: hub.metadata.clone(), ..V2::default() })
    });
    let converted = scheme.convert_to_version(&v1, &GroupVersion::new("autoscaling", "v2")).unwrap();
    assert_eq!(
        (converted.kind.to_string().as_str(), converted.object.is::<V2>()),
        ("autoscaling/v2, Kind=HorizontalPodAutoscaler", true)
    );
    assert_eq!(converted.object.meta().name.as_deref(), Some("h"));
    assert_eq!(scheme.convert::<V1, V1>(&v1).unwrap(), v1);
    let error = scheme.convert::<V1, V2>(&V1::default()).unwrap_err();
    assert!(ErrorChain(&error).to_string().ends_with("no name"));
}
