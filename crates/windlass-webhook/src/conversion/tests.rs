use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use windlass_api::{BoxError, GroupKind, GroupVersion, crd::CustomResource};

use super::*;
use crate::{
    RegisterError, Webhooks,
    testing::{Recorded, V1, V2, V3, post, send},
};

impl Convert<V2> for V1 {
    fn to_hub(self) -> Result<V2, BoxError> {
        match self.image.as_str() {
            "broken" => Err("it is broken".into()),
            "panic" => panic!("as told"),
            _ => Ok(V2 { metadata: self.metadata, container: self.image }),
        }
    }

    fn from_hub(hub: V2) -> Result<Self, BoxError> {
        Ok(Self { metadata: hub.metadata, image: hub.container })
    }
}

impl Convert<V2> for V3 {
    fn to_hub(self) -> Result<V2, BoxError> {
        Ok(V2 { metadata: self.metadata, container: self.picture })
    }

    fn from_hub(hub: V2) -> Result<Self, BoxError> {
        Ok(Self { metadata: hub.metadata, picture: hub.container })
    }
}

/// A second conversion, with `V3` as the hub: upper case becomes lower case.
impl Convert<V3> for V1 {
    fn to_hub(self) -> Result<V3, BoxError> {
        Ok(V3 { metadata: self.metadata, picture: self.image.to_ascii_lowercase() })
    }

    fn from_hub(hub: V3) -> Result<Self, BoxError> {
        Ok(Self { metadata: hub.metadata, image: hub.picture })
    }
}

macro_rules! defined {
    ($($version:ident $field:literal)*) => {$(
        impl CustomResource for $version {
            fn declared() -> CustomResourceDefinition {
                let schema = json!({"type": "object", "properties": {$field: {"type": "string", "maxLength": 20}}});
                let version = json!({"name": "v", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
                serde_json::from_value(json!({"metadata": {}, "spec": {
                    "group": "g", "scope": "Namespaced", "names": {"kind": "W", "plural": "w"}, "versions": [version],
                }}))
                .unwrap()
            }
        }
    )*};
}

defined! {
    V1 "image"
    V2 "container"
}

fn webhooks() -> Webhooks {
    Webhooks::builder().conversion(Hub::<V2>::new().spoke::<V1>().spoke::<V3>()).build().unwrap()
}

fn website(version: &str, field: &str, value: &str) -> Value {
    json!({"apiVersion": format!("shop.example.com/{version}"), "kind": "Website", "metadata": {"name": "w"}, field: value})
}

fn review(to: &str, objects: &[Value]) -> Value {
    let request = json!({"uid": "u-7", "desiredAPIVersion": format!("shop.example.com/{to}"), "objects": objects});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
}

/// Returns the converted objects, or the failure.
async fn converted(webhooks: &Webhooks, to: &str, objects: &[Value]) -> Result<Value, String> {
    let (code, answer) = post(webhooks, "/convert", &review(to, objects)).await;
    assert_eq!((code, &answer["apiVersion"]), (200, &json!("apiextensions.k8s.io/v1")));
    let response = &answer["response"];
    assert_eq!((&response["uid"], answer.get("request")), (&json!("u-7"), None));
    if response["result"]["status"] == "Success" {
        return Ok(response["convertedObjects"].clone());
    }
    assert_eq!(response["convertedObjects"], Value::Null, "all objects or none are converted");
    Err(response["result"]["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_version_converts_to_every_other_via_hub() {
    let webhooks = webhooks();
    let versions = [("v1", "image"), ("v2", "container"), ("v3", "picture")];
    for (from, field) in versions {
        for (to, other) in versions.into_iter().filter(|(to, _)| *to != from) {
            let objects = [website(from, field, "a"), website(from, field, "b")];
            let expected = json!([website(to, other, "a"), website(to, other, "b")]);
            assert_eq!(converted(&webhooks, to, &objects).await, Ok(expected), "{from} → {to}");
        }
    }
    assert_eq!(converted(&webhooks, "v1", &[]).await, Ok(json!([])));
}

#[tokio::test]
async fn one_failed_object_fails_the_conversion_review() {
    let objects = [website("v1", "image", "fine"), website("v1", "image", "broken")];
    let error = converted(&webhooks(), "v3", &objects).await.unwrap_err();
    let v1 = "shop.example.com/v1, Kind=Website";
    assert_eq!(error, format!("{v1} failed to convert to hub version shop.example.com/v2, Kind=Website: it is broken"));
}

#[tokio::test]
async fn conversion_rejects_other_kinds_and_same_version() {
    let webhooks = webhooks();
    let error = async |to: &str, object: Value| converted(&webhooks, to, &[object]).await.unwrap_err();
    let same = error("v1", website("v1", "image", "a")).await;
    assert_eq!(same, "conversion of Website is not allowed between the same version shop.example.com/v1");
    let mut elsewhere = website("v1", "image", "a");
    elsewhere["apiVersion"] = "garden.example.com/v1".into();
    let group = error("v2", elsewhere).await;
    assert_eq!(group, "Website of garden.example.com/v1 and shop.example.com/v2 do not belong to the same API group");
    let mut kind = website("v1", "image", "a");
    kind["kind"] = "Shop".into();
    assert_eq!(error("v2", kind).await, "Shop of shop.example.com/v1 is not convertible to shop.example.com/v2");
    let unknown = error("v9", website("v1", "image", "a")).await;
    assert_eq!(unknown, r#"no kind "Website" is registered for version "shop.example.com/v9""#);
}

#[tokio::test]
async fn panic_fails_the_conversion_and_is_counted() {
    let metrics = Recorded::default();
    let hub = Hub::<V2>::new().spoke::<V1>();
    let webhooks = Webhooks::builder().conversion(hub).metrics(metrics.clone()).build().unwrap();
    let error = converted(&webhooks, "v2", &[website("v1", "image", "panic")]).await.unwrap_err();
    assert_eq!(error, "internal error occurred during conversion");
    let expected = ["registered /convert", "started /convert", "conversion panicked", "finished /convert 200"];
    assert_eq!(metrics.take(), expected);
}

#[tokio::test]
async fn malformed_conversion_review_is_a_bad_request() {
    let webhooks = webhooks();
    let json = || http::Request::post("/convert").header("content-type", "application/json");
    for body in ["", "{", "[]", r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}"#] {
        assert_eq!(send(&webhooks, json(), body.to_owned()).await, (400, Value::Null), "{body}");
    }
}

#[tokio::test]
async fn custom_converter_needs_no_types() {
    struct Relabel;
    impl Converter for Relabel {
        async fn convert(&self, mut object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
            object["cameFrom"] = object["apiVersion"].clone();
            object["wanted"] = to.to_string().into();
            Ok(object)
        }
    }
    let kind = || GroupKind::new("shop.example.com", "Website");
    let webhooks = Webhooks::builder().converter(kind(), Relabel).build().unwrap();
    let made = converted(&webhooks, "v9", &[website("v1", "image", "a")]).await.unwrap();
    let mut expected = website("v9", "image", "a");
    expected["cameFrom"] = "shop.example.com/v1".into();
    expected["wanted"] = "shop.example.com/v9".into();
    assert_eq!(made, json!([expected]));

    let twice = Webhooks::builder().converter(kind(), Relabel).converter(kind(), Relabel).build();
    assert_eq!(twice.unwrap_err(), RegisterError::DuplicateConverter(kind()));
}

#[test]
fn duplicate_spoke_version_is_rejected() {
    let twice = Webhooks::builder().conversion(Hub::<V2>::new().spoke::<V1>().spoke::<V1>()).build().unwrap_err();
    let text = "shop.example.com/v1, Kind=Website cannot be another version of Website.shop.example.com";
    assert_eq!(twice.to_string(), text);
}

#[test]
fn round_trip_test_passes_or_shows_the_difference() {
    spoke_round_trips::<V1, V2>().unwrap();
    hub_round_trips::<V2, V1>().unwrap();
    let error = spoke_round_trips::<V1, V3>().unwrap_err();
    assert_eq!((error.from.as_str(), error.via.as_str(), error.reason.as_str()), ("v1", "v3", ".image has changed"));
    assert!(
        error.before["image"].as_str().unwrap().contains('Z') && error.after["image"].as_str().unwrap().contains('z')
    );
}
