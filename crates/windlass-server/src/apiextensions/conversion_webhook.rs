//! Conversion webhooks: the requests, and the validation of the responses.
//!
//! A webhook receives whole objects. It may change everything except the metadata, of which it may only change labels
//! and annotations.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use windlass_api::{Entropy, Status};

use crate::{
    object::{Errors, Path, Tree, as_object, validate_annotations, validate_labels},
    patch::go_type,
    resource::VersionConverter,
    webhook::{Call, CallError},
};

const TIMEOUT: Duration = Duration::from_secs(30);
const GROUP: &str = "apiextensions.k8s.io";
/// The metadata fields that a webhook may change.
const CONVERTIBLE_METADATA: [&str; 2] = ["labels", "annotations"];

/// The conversion webhook of a CRD.
#[derive(Debug)]
pub(super) struct Webhook {
    config: Value,
    /// The first supported version of ConversionReview.
    version: Option<&'static str>,
    entropy: Entropy,
}

impl Webhook {
    /// Creates the webhook of a CRD's `conversion`; returns `None` if that does not use a webhook.
    pub(super) fn of(conversion: &Value, entropy: &Entropy) -> Option<Self> {
        if conversion.text(&["strategy"]) != "Webhook" {
            return None;
        }
        let config = conversion.at(&["webhook", "clientConfig"]).cloned().unwrap_or_default();
        let requested = conversion.items(&["webhook", "conversionReviewVersions"]).iter().filter_map(Value::as_str);
        let version =
            requested.into_iter().find_map(|requested| ["v1", "v1beta1"].into_iter().find(|known| *known == requested));
        Some(Self { config, version, entropy: entropy.clone() })
    }

    async fn send_review(&self, objects: &[Value], to: &str) -> Result<Vec<Value>, Status> {
        let first = objects.first().unwrap_or(&Value::Null);
        let source = gvk(first.text(&["apiVersion"]), first.text(&["kind"]));
        let failed = |why: &str| Status::unclassified(format!("conversion webhook for {source} failed: {why}"));
        let Some(version) = self.version else {
            return Err(Status::unclassified("no supported conversion review versions"));
        };
        let uid = self.entropy.uuid();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("{GROUP}/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
            "response": null,
        });
        let call =
            Call { config: &self.config, timeout: TIMEOUT, user_agent: "kube-apiserver", trace: None, users: None };
        let answer = call.post(&review).await.map_err(|error| match error {
            CallError::NoEndpoint(why) => Status::unclassified(why),
            error @ CallError::Failed { .. } => failed(&error.to_string()),
        })?;
        let converted = response(&answer, version, &uid).map_err(|why| failed(&why))?;
        if converted.len() == objects.len() {
            return Ok(converted.to_vec());
        }
        let (found, expected) = (converted.len(), objects.len());
        Err(Status::unclassified(format!(
            "conversion webhook for {source} returned {found} objects, expected {expected}"
        )))
    }
}

impl VersionConverter for Webhook {
    fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let converted = self.send_review(&objects, to).await?;
            let pairs = objects.iter().zip(converted).enumerate();
            pairs.map(|(place, (original, converted))| checked(original, converted, to, place)).collect()
        })
    }
}

/// Returns the converted objects of a response, or the error message for an invalid response.
fn response<'a>(answer: &'a Value, version: &str, uid: &str) -> Result<&'a [Value], String> {
    let found = (answer.text(&["apiVersion"]), answer.text(&["kind"]));
    // The real server does not check this for the older version.
    let is_strict = version == "v1";
    if is_strict && found != ("apiextensions.k8s.io/v1", "ConversionReview") {
        return Err(format!(
            "expected webhook response of {}, got {}",
            gvk("apiextensions.k8s.io/v1", "ConversionReview"),
            gvk(found.0, found.1)
        ));
    }
    let response = answer.at(&["response"]).ok_or("no response provided")?;
    let given = response.text(&["uid"]);
    if is_strict && given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    match (response.text(&["result", "status"]), response.text(&["result", "message"])) {
        ("Success", _) => Ok(response.items(&["convertedObjects"])),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Returns a converted object with the original's metadata. Returns an error if the webhook changed fields that it must
/// not change.
pub(super) fn checked(original: &Value, mut converted: Value, to: &str, place: usize) -> Result<Value, Status> {
    let source = gvk(original.text(&["apiVersion"]), original.text(&["kind"]));
    let refused = |what: &str, why: String| {
        Err(Status::unclassified(format!("conversion webhook for {source} returned invalid {what}: {why}")))
    };
    let indexed = format!("object at index {place}");
    let (version, kind) = (converted.text(&["apiVersion"]), converted.text(&["kind"]));
    if version != to {
        let why = format!("invalid groupVersion (expected {to}, received {version})");
        return refused(&indexed, why);
    }
    let expected = original.text(&["kind"]);
    if kind != expected {
        return refused(&indexed, format!("invalid kind (expected {expected}, received {kind})"));
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (original.text(&["metadata", field]), converted.text(&["metadata", field]));
        if expected != found {
            return refused("object", format!("must have the same {shown}: {expected} != {found}"));
        }
    }
    let metadata = original.at(&["metadata"]).cloned().unwrap_or_else(|| json!({}));
    match restore_metadata(metadata, &converted) {
        Ok(metadata) => {
            as_object(&mut converted).insert("metadata".to_owned(), metadata);
            Ok(converted)
        }
        Err(why) => refused("metadata", why),
    }
}

/// Returns the original's metadata with the labels and annotations of the converted object.
fn restore_metadata(mut metadata: Value, converted: &Value) -> Result<Value, String> {
    let given = converted.get("metadata").ok_or("missing metadata in converted object")?;
    if !given.is_object() {
        return Err(format!("invalid metadata of type {} in converted object", go_type(given)));
    }
    for field in CONVERTIBLE_METADATA {
        let Some(texts) = given.at(&[field]) else {
            as_object(&mut metadata).shift_remove(field);
            continue;
        };
        let Some(entries) = texts.as_object() else {
            return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(texts)));
        };
        if let Some((key, value)) = entries.iter().find(|(_, value)| !value.is_string()) {
            let found = go_type(value);
            return Err(format!("metadata.{field}[{key}] must be a string, but is {found} in converted object"));
        }
        if metadata.get(field).and_then(Value::as_object).unwrap_or(&Map::new()) != entries {
            let mut errors = Errors::default();
            let path = Path::new("metadata");
            match field {
                "labels" => validate_labels(Some(texts), &path.child("labels"), &mut errors),
                _ => validate_annotations(given, &path.child("annotation"), &mut errors),
            }
            let problems: Vec<String> =
                errors.into_causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            match problems.as_slice() {
                [] => {}
                [problem] => return Err(problem.clone()),
                problems => return Err(format!("[{}]", problems.join(", "))),
            }
        }
        as_object(&mut metadata).insert(field.to_owned(), texts.clone());
    }
    Ok(metadata)
}

/// Formats a version and kind as Go does: `example.com/v1, Kind=Website`.
pub(super) fn gvk(api_version: &str, kind: &str) -> String {
    let version = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!("{version}, Kind={kind}")
}

#[cfg(test)]
mod tests {
    use crate::apiextensions::conversion_webhook::*;

    fn website(labels: &Value) -> Value {
        json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"name": "blog", "namespace": "n", "uid": "u", "generation": 1, "labels": labels},
            "spec": {"image": "a"},
        })
    }

    /// Checks a valid response of a webhook after a change.
    fn check(change: impl FnOnce(&mut Value)) -> Result<Value, String> {
        let original = website(&json!({"a": "b"}));
        let mut converted = original.clone();
        converted["apiVersion"] = "example.com/v2".into();
        change(&mut converted);
        checked(&original, converted, "example.com/v2", 0).map_err(|status| {
            assert_eq!((status.code, status.reason.as_deref()), (500, None));
            status.message.replace("conversion webhook for example.com/v1, Kind=Website returned invalid ", "")
        })
    }

    #[test]
    fn conversion_changes_only_labels_and_annotations() {
        let converted = check(|object| {
            object["spec"] = json!({"container": "a"});
            object["metadata"]["generation"] = 9.into();
            object["metadata"]["finalizers"] = json!(["x/y"]);
            object["metadata"]["labels"] = json!({"c": "d"});
            object["metadata"]["annotations"] = json!({"e": "f"});
        });
        let converted = converted.unwrap();
        assert_eq!(converted["spec"], json!({"container": "a"}));
        assert_eq!(
            converted["metadata"],
            json!({"name": "blog", "namespace": "n", "uid": "u", "generation": 1, "labels": {"c": "d"}, "annotations": {"e": "f"}})
        );
        let bare = check(|object| object["metadata"]["labels"] = Value::Null).unwrap();
        assert_eq!(bare["metadata"].get("labels"), None);
    }

    #[test]
    fn conversion_of_immutable_fields_is_rejected() {
        let refused = |path: [&str; 2], value: Value| {
            let change = |object: &mut Value| match path {
                [field, ""] => object[field] = value,
                [field, below] => object[field][below] = value,
            };
            check(change).unwrap_err()
        };
        for (path, value, expected) in [
            (
                ["apiVersion", ""],
                json!("example.com/v3"),
                "object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
            ),
            (["kind", ""], json!("Shop"), "object at index 0: invalid kind (expected Website, received Shop)"),
            (["metadata", "name"], json!("shop"), "object: must have the same name: blog != shop"),
            (["metadata", "namespace"], json!(""), "object: must have the same namespace: n != "),
            (["metadata", "uid"], json!("v"), "object: must have the same UID: u != v"),
            (
                ["metadata", "labels"],
                json!([]),
                "metadata: invalid metadata.labels of type []interface {} in converted object",
            ),
            (
                ["metadata", "labels"],
                json!({"a": 1}),
                "metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            ),
        ] {
            assert_eq!(refused(path, value), expected);
        }
        let bad = refused(["metadata", "labels"], json!({"a": "b c"}));
        assert!(bad.starts_with("metadata: metadata.labels: Invalid value: \"b c\": "), "{bad}");
    }

    #[test]
    fn conversion_response_must_match_the_request() {
        let answer = |version: &str, response: Value| {
            let answer =
                json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "ConversionReview", "response": response});
            response_of(&answer, version)
        };
        fn response_of(answer: &Value, version: &str) -> Result<usize, String> {
            response(answer, version, "u").map(<[Value]>::len)
        }
        let good = json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{}]});
        assert_eq!(answer("v1", good.clone()), Ok(1));
        let of_another = json!({"uid": "v", "result": {"status": "Success"}, "convertedObjects": [{}]});
        assert_eq!(answer("v1", of_another.clone()), Err("expected response.uid=\"u\", got \"v\"".to_owned()));
        assert_eq!(answer("v1beta1", of_another), Ok(1), "v1beta1 is not checked");
        assert_eq!(answer("v1", Value::Null), Err("no response provided".to_owned()));
        let failed = |result: Value| answer("v1", json!({"uid": "u", "result": result}));
        assert_eq!(
            failed(json!({"status": "Failed"})),
            Err("response.result.status was 'Failed', not 'Success'".to_owned())
        );
        assert_eq!(failed(json!({"status": "Failed", "message": "no"})), Err("no".to_owned()));
        let review = json!({"apiVersion": "v1", "kind": "List", "response": good});
        assert_eq!(
            response_of(&review, "v1"),
            Err("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /v1, Kind=List"
                .to_owned())
        );
    }

    #[test]
    fn first_known_review_version_is_used() {
        let webhook = |strategy: &str, versions: &[&str]| {
            let conversion = json!({"strategy": strategy, "webhook": {"conversionReviewVersions": versions}});
            Webhook::of(&conversion, &Entropy::seeded(1)).map(|webhook| webhook.version)
        };
        assert_eq!(webhook("None", &["v1"]), None);
        assert_eq!(webhook("Webhook", &["v2", "v1beta1", "v1"]), Some(Some("v1beta1")));
        assert_eq!(webhook("Webhook", &["v2"]), Some(None));
    }
}
