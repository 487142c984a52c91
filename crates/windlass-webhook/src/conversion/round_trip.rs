//! Whether what is converted comes back as it was.

use serde_json::Value;
use windlass_api::{
    BoxError, Resource,
    crd::{CustomResource, Objects},
};

use super::Convert;

/// An object that did not come back as it was.
#[derive(Debug, thiserror::Error)]
#[error("{from} of {kind} by way of {over}: object {index}: {why}\n  it was   {was}\n  it is    {is}")]
pub struct RoundTripError {
    /// The kind.
    pub kind: String,
    /// The version that the object was in.
    pub from: String,
    /// The version that it went through.
    pub over: String,
    /// Which of the objects of its seed.
    pub index: usize,
    /// What is different, or what failed.
    pub why: String,
    /// The object before.
    pub was: Value,
    /// The object after; null if there was none.
    pub is: Value,
}

/// So many objects are tried.
const OBJECTS: usize = 500;

/// Converts made-up objects of a spoke to its hub and back, and fails if one is another then: for a test of one's own.
///
/// What the hub cannot hold would be lost whenever somebody reads or writes the object in that version. The objects are those of
/// [`Objects`], the same ones in each run.
pub fn spoke_round_trips<S, H>() -> Result<(), Box<RoundTripError>>
where
    S: Convert<H> + CustomResource,
    H: Resource,
{
    round_trips::<S, H>(|spoke| S::from_hub(spoke.to_hub()?))
}

/// Converts made-up objects of a hub to a spoke and back, see [`spoke_round_trips`]. Of a spoke that holds less than its hub this is
/// not true, unless the conversion keeps the rest somewhere, in an annotation for instance.
pub fn hub_round_trips<H, S>() -> Result<(), Box<RoundTripError>>
where
    S: Convert<H>,
    H: CustomResource,
{
    round_trips::<H, S>(|hub| S::from_hub(hub)?.to_hub())
}

fn round_trips<K: CustomResource, Over: Resource>(
    there_and_back: impl Fn(K) -> Result<K, BoxError>,
) -> Result<(), Box<RoundTripError>> {
    let (from, over) = (K::api_resource(), Over::api_resource());
    for (index, object) in Objects::<K>::seeded(0).take(OBJECTS).enumerate() {
        let failed = |why: String, was: Value, is: Value| {
            Box::new(RoundTripError {
                kind: from.kind.to_string(),
                from: from.version.to_string(),
                over: over.version.to_string(),
                index,
                why,
                was,
                is,
            })
        };
        let decoded = serde_json::from_value::<K>(object.clone());
        let decoded =
            decoded.map_err(|error| failed(format!("it cannot be read: {error}"), object.clone(), Value::Null))?;
        // As the type writes it: what it leaves out is no difference.
        let was = serde_json::to_value(&decoded).map_err(|error| failed(error.to_string(), object, Value::Null))?;
        let back = there_and_back(decoded).map_err(|error| failed(error.to_string(), was.clone(), Value::Null))?;
        let is = serde_json::to_value(&back).map_err(|error| failed(error.to_string(), was.clone(), Value::Null))?;
        if let Some(path) = difference(&was, &is, String::new()) {
            return Err(failed(format!("{path} is not what it was"), was, is));
        }
    }
    Ok(())
}

/// Where two values differ first.
fn difference(a: &Value, b: &Value, path: String) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let value = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                difference(&value(a), &value(b), format!("{path}.{name}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(index, (a, b))| difference(a, b, format!("{path}[{index}]")))
        }
        (a, b) => (a != b).then_some(path),
    }
}
