//! Conversion between the requested version of an object, the stored version, and the hub version, in which writes are
//! computed and checked.
//!
//! The server itself converts between most versions; a webhook converts the others. Objects that are read or written
//! are converted before the computation of a write, a whole list in one request. The managed fields of an object may
//! belong to further versions, which only the computation itself finds. It cannot wait for the webhook, so it is
//! repeated once these conversions have arrived: see [`Conversions::run`].

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_api::Status;

use crate::{
    object::Tree,
    resource::{ResourceInfo, Shape},
};

/// Converts from the stored version to another version and back.
#[derive(Clone)]
pub(crate) struct Conversion {
    pub(crate) hub: Hub,
    /// The shape of the stored version.
    pub(crate) stored: Shape,
    /// Completes a stored object with the defaults of the version in which it was stored.
    pub(crate) complete: Arc<dyn Fn(&mut Value) + Send + Sync>,
    pub(crate) from_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    pub(crate) to_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    /// The webhook or other translator between versions. The two functions above bring its result into form. `None`:
    /// they convert everything themselves.
    pub(crate) translator: Option<Arc<dyn VersionConverter>>,
    /// The versions that are no longer served but still own fields of objects.
    pub(crate) unserved: Arc<[Arc<ResourceInfo>]>,
}

/// The version in which writes are computed and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hub {
    /// The stored version: all versions share one set of rules.
    Stored,
    /// The requested version: each version has its own rules.
    Requested,
}

/// Converts objects between versions.
pub(crate) trait VersionConverter: fmt::Debug + Send + Sync + 'static {
    /// Converts the objects to the apiVersion `to` and keeps their order.
    fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}

/// The conversions that translators have returned during one write. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversions(Arc<Mutex<ConversionCache>>);

#[derive(Debug, Default)]
struct ConversionCache {
    known: BTreeMap<ConversionKey, Result<Value, Status>>,
    pending: BTreeMap<ConversionKey, PendingConversion>,
}

/// An apiVersion, and the object to convert to it as JSON.
type ConversionKey = (String, String);

#[derive(Debug)]
struct PendingConversion {
    translator: Arc<dyn VersionConverter>,
    object: Value,
}

/// The maximum number of passes of a computation. Each pass resolves at least one conversion; a version that owns
/// fields of the object needs four in a row.
const MAX_PASSES: usize = 1000;

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("hub", &self.hub).field("stored", &self.stored).finish_non_exhaustive()
    }
}

// === impl Conversions ===

impl Conversions {
    /// Runs a computation, and repeats it while it requests new conversions. A computation fails at the first missing
    /// conversion, so that only objects that exist are converted. The computation decides how to handle a failed
    /// conversion.
    pub(crate) async fn run<T>(&self, mut compute: impl FnMut() -> Result<T, Status>) -> Result<T, Status> {
        for _ in 0..MAX_PASSES {
            let computed = compute();
            let pending = std::mem::take(&mut self.0.lock().pending);
            if pending.is_empty() {
                return computed;
            }
            drop(computed);
            for (key, PendingConversion { translator, object }) in pending {
                let translated = translate_checked(&*translator, vec![object], &key.0).await;
                let translated = translated.map(|mut objects| objects.pop().unwrap_or_default());
                self.0.lock().known.insert(key, translated);
            }
        }
        Err(Status::internal("the conversions of an object do not terminate"))
    }

    /// Returns the converted object. Returns an error if the conversion is not known yet, and records it as wanted.
    fn lookup(&self, translator: &Arc<dyn VersionConverter>, object: Value, to: &str) -> Result<Value, Status> {
        let mut cache = self.0.lock();
        let key = (to.to_owned(), object.to_string());
        if let Some(known) = cache.known.get(&key) {
            return known.clone();
        }
        cache.pending.insert(key, PendingConversion { translator: Arc::clone(translator), object });
        Err(Status::internal("an object has not been converted yet"))
    }
}

async fn translate_checked(
    translator: &dyn VersionConverter,
    objects: Vec<Value>,
    to: &str,
) -> Result<Vec<Value>, Status> {
    let count = objects.len();
    let translated = translator.translate(objects, to).await?;
    if translated.len() == count { Ok(translated) } else { Err(Status::internal("a conversion has lost objects")) }
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// Returns the shape in which writes are computed and checked.
    pub(crate) fn hub_shape(&self) -> &Shape {
        match &self.conversion {
            Some(conversion) if conversion.hub == Hub::Stored => &conversion.stored,
            _ => &self.shape,
        }
    }

    /// Reports whether a translator converts between the versions.
    pub(crate) fn is_translated(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| conversion.translator.is_some())
    }

    /// Returns the version in which new writes are stored. Objects stored earlier may have another version.
    fn stored_version(&self) -> String {
        match self.conversion.as_ref().map(|conversion| &conversion.stored) {
            Some(Shape::Custom(shape)) => format!("{}/{}", self.group, shape.storage_version()),
            _ => self.api_version(),
        }
    }

    fn with_hub(&self, hub: Hub) -> Option<&Conversion> {
        self.conversion.as_ref().filter(|conversion| conversion.hub == hub)
    }

    /// Converts stored objects to this version.
    pub(crate) async fn convert_stored(&self, stored: Vec<Value>) -> Result<Vec<Value>, Status> {
        let hubs = self.all_stored_to_hub(stored).await?;
        let Some(conversion) = self.with_hub(Hub::Stored) else { return Ok(hubs) };
        Ok(hubs.into_iter().map(|hub| (conversion.from_stored)(hub)).collect())
    }

    /// Converts stored objects to the hub version.
    async fn all_stored_to_hub(&self, mut stored: Vec<Value>) -> Result<Vec<Value>, Status> {
        let Some(conversion) = self.with_hub(Hub::Requested) else { return Ok(stored) };
        for object in &mut stored {
            (conversion.complete)(object);
        }
        let objects = conversion.translate(stored, &self.api_version()).await?;
        Ok(objects.into_iter().map(|object| (conversion.from_stored)(object)).collect())
    }

    /// Converts a stored object to the hub version.
    pub(crate) async fn stored_to_hub(&self, stored: Value) -> Result<Value, Status> {
        Ok(self.all_stored_to_hub(vec![stored]).await?.pop().unwrap_or_default())
    }

    /// Converts an object from the hub version to the stored form, without a copy if they are equal. Drops fields that
    /// storage does not keep.
    pub(crate) async fn to_stored<'v>(&self, hub: &'v mut Value) -> Result<Cow<'v, Value>, Status> {
        if let Shape::Custom(shape) = self.hub_shape() {
            shape.prune(hub);
        }
        let Some(conversion) = self.with_hub(Hub::Requested) else { return Ok(Cow::Borrowed(hub)) };
        let object = conversion.translate(vec![hub.clone()], &self.stored_version()).await?.pop().unwrap_or_default();
        Ok(Cow::Owned((conversion.to_stored)(object)))
    }

    /// Converts an object from the hub version to this version, without a copy if they are equal.
    pub(crate) fn hub_to_requested<'v>(&self, hub: &'v Value) -> Cow<'v, Value> {
        match self.with_hub(Hub::Stored) {
            None => Cow::Borrowed(hub),
            Some(conversion) => Cow::Owned((conversion.from_stored)(hub.clone())),
        }
    }

    /// Converts an object from this version to the hub version.
    pub(crate) fn to_hub(&self, object: Value) -> Value {
        match self.with_hub(Hub::Stored) {
            None => object,
            Some(conversion) => (conversion.to_stored)(object),
        }
    }

    /// Converts an object from the hub version of another version of the same resource to the hub version of this one.
    pub(crate) async fn convert_to_own_hub(&self, other: Value) -> Result<Value, Status> {
        let api_version = self.api_version();
        match self.with_hub(Hub::Requested) {
            Some(conversion) if is_other(&other, &api_version) => {
                let object = conversion.translate(vec![other], &api_version).await?.pop().unwrap_or_default();
                Ok((conversion.from_stored)(object))
            }
            _ => Ok(other),
        }
    }

    /// Converts an object of another version of the same resource to this version, within a computation of
    /// [`Conversions::run`].
    pub(crate) fn convert_from(&self, other: &Self, object: Value, conversions: &Conversions) -> Result<Value, Status> {
        match self.with_hub(Hub::Requested) {
            None => Ok(self.hub_to_requested(&other.to_hub(object)).into_owned()),
            Some(conversion) => {
                let object = conversion.lookup(object, &self.api_version(), conversions)?;
                Ok((conversion.from_stored)(object))
            }
        }
    }
}

impl Conversion {
    /// Converts those objects that have another apiVersion than `to`.
    async fn translate(&self, mut objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Status> {
        let Some(translator) = &self.translator else { return Ok(objects) };
        let (mut places, mut others) = (Vec::new(), Vec::new());
        for (place, object) in objects.iter_mut().enumerate().filter(|(_, object)| is_other(object, to)) {
            places.push(place);
            others.push(object.take());
        }
        if others.is_empty() {
            return Ok(objects);
        }
        for (place, object) in places.into_iter().zip(translate_checked(&**translator, others, to).await?) {
            objects[place] = object;
        }
        Ok(objects)
    }

    fn lookup(&self, object: Value, to: &str, conversions: &Conversions) -> Result<Value, Status> {
        match &self.translator {
            Some(translator) if is_other(&object, to) => conversions.lookup(translator, object, to),
            _ => Ok(object),
        }
    }
}

fn is_other(object: &Value, api_version: &str) -> bool {
    object.text(&["apiVersion"]) != api_version
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A translator that only accepts the objects that exist.
    #[derive(Debug, Default)]
    struct Strict(Mutex<Vec<Value>>);

    impl VersionConverter for Strict {
        fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
            self.0.lock().extend(objects.iter().cloned());
            let convert = move |object: Value| {
                if object["in"] != object["apiVersion"] {
                    return Err(Status::unclassified(format!("no such object: {object}")));
                }
                Ok(json!({"apiVersion": to, "in": to}))
            };
            Box::pin(async move { objects.into_iter().map(convert).collect() })
        }
    }

    #[tokio::test]
    async fn chained_conversions_use_converted_objects() {
        let strict = Arc::new(Strict::default());
        let translator: Arc<dyn VersionConverter> = Arc::clone(&strict) as _;
        let conversions = Conversions::default();
        let chain = || {
            let first = json!({"apiVersion": "v1", "in": "v1"});
            let second = conversions.lookup(&translator, first, "v2")?;
            conversions.lookup(&translator, second, "v3")
        };
        assert_eq!(conversions.run(chain).await.unwrap(), json!({"apiVersion": "v3", "in": "v3"}));
        let converted = strict.0.lock().clone();
        assert_eq!(converted, [json!({"apiVersion": "v1", "in": "v1"}), json!({"apiVersion": "v2", "in": "v2"})]);
    }

    #[tokio::test]
    async fn failed_conversion_is_an_error_of_the_computation() {
        let translator: Arc<dyn VersionConverter> = Arc::new(Strict::default());
        let conversions = Conversions::default();
        let attempt = || conversions.lookup(&translator, json!({"apiVersion": "v1", "in": "v9"}), "v2");
        let failure = conversions.run(attempt).await.unwrap_err();
        assert!(failure.message.starts_with("no such object: "), "{}", failure.message);
        assert!(conversions.run(|| Ok(attempt().is_err())).await.unwrap());
    }
}
