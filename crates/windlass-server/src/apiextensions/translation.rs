//! Versions that a webhook converts: what it is asked, and what it may answer.
//!
//! A webhook sees whole objects, and may change all of them but their metadata, of which it may change labels and annotations.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use windlass_api::{Entropy, Status};

use crate::{
    registry::{Errors, Path, Translator, Tree, as_object, validate_annotations, validate_labels},
    webhook::{Call, CallError},
};

const TIMEOUT: Duration = Duration::from_secs(30);
const GROUP: &str = "apiextensions.k8s.io";
/// What a webhook may change of metadata.
const OPEN: [&str; 2] = ["labels", "annotations"];

/// The webhook of a definition.
#[derive(Debug)]
pub(super) struct Webhook {
    config: Value,
    /// Of reviews: the first that is known here.
    version: Option<&'static str>,
    entropy: Entropy,
}

impl Webhook {
    /// `conversion`: that of a definition; none if it names no webhook.
    pub(super) fn of(conversion: &Value, entropy: &Entropy) -> Option<Self> {
        if conversion.text(&["strategy"]) != "Webhook" {
            return None;
        }
        let config = conversion.at(&["webhook", "clientConfig"]).cloned().unwrap_or_default();
        let asked = conversion.items(&["webhook", "conversionReviewVersions"]).iter().filter_map(Value::as_str);
        let version = asked.into_iter().find_map(|asked| ["v1", "v1beta1"].into_iter().find(|known| *known == asked));
        Some(Self { config, version, entropy: entropy.clone() })
    }

    async fn ask(&self, objects: &[Value], to: &str) -> Result<Vec<Value>, Status> {
        let first = objects.first().unwrap_or(&Value::Null);
        let whom = gvk(first.text(&["apiVersion"]), first.text(&["kind"]));
        let failed = |why: &str| Status::unclassified(format!("conversion webhook for {whom} failed: {why}"));
        let Some(version) = self.version else {
            return Err(Status::unclassified("no supported conversion review versions"));
        };
        let uid = self.entropy.uuid();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": format!("{GROUP}/{version}"),
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
            "response": null,
        });
        let call = Call { config: &self.config, timeout: TIMEOUT, user_agent: "kube-apiserver" };
        let answer = call.post(&review).await.map_err(|error| match error {
            CallError::Nowhere(why) => Status::unclassified(why),
            error @ CallError::Failed { .. } => failed(&error.to_string()),
        })?;
        let converted = response(&answer, version, &uid).map_err(|why| failed(&why))?;
        if converted.len() == objects.len() {
            return Ok(converted.to_vec());
        }
        let (found, expected) = (converted.len(), objects.len());
        Err(Status::unclassified(format!(
            "conversion webhook for {whom} returned {found} objects, expected {expected}"
        )))
    }
}

impl Translator for Webhook {
    fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let converted = self.ask(&objects, to).await?;
            let pairs = objects.iter().zip(converted).enumerate();
            pairs.map(|(place, (original, converted))| checked(original, converted, to, place)).collect()
        })
    }
}

/// The objects of an answer; or the words for what is wrong with it.
fn response<'a>(answer: &'a Value, version: &str, uid: &str) -> Result<&'a [Value], String> {
    let found = (answer.text(&["apiVersion"]), answer.text(&["kind"]));
    // The older version was never held to this.
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

/// What a webhook has made of an object, with the metadata that it must not change.
fn checked(original: &Value, mut converted: Value, to: &str, place: usize) -> Result<Value, Status> {
    let whom = gvk(original.text(&["apiVersion"]), original.text(&["kind"]));
    let refused = |what: &str, why: String| {
        Err(Status::unclassified(format!("conversion webhook for {whom} returned invalid {what}: {why}")))
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
    match restored(metadata, &converted) {
        Ok(metadata) => {
            as_object(&mut converted).insert("metadata".to_owned(), metadata);
            Ok(converted)
        }
        Err(why) => refused("metadata", why),
    }
}

/// The metadata of the original, with what of the converted object counts.
fn restored(mut metadata: Value, converted: &Value) -> Result<Value, String> {
    let given = converted.get("metadata").ok_or("missing metadata in converted object")?;
    if !given.is_object() {
        return Err(format!("invalid metadata of type {} in converted object", go_type(given)));
    }
    for field in OPEN {
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

/// As Go prints one: `example.com/v1, Kind=Website`.
fn gvk(api_version: &str, kind: &str) -> String {
    let version = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!("{version}, Kind={kind}")
}

/// What Go calls the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
