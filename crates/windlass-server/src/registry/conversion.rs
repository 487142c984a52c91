//! The versions of an object: the one that is asked for, the one that is stored, and the hub, in which writes are computed and
//! checked.
//!
//! Most versions differ in what the server itself knows. Where a webhook knows, objects are sent to it. What is read or written
//! is sent at once, a whole list in one go. Only what others own of an object is a matter of further versions: it comes up in
//! the middle of what is computed without a pause, so that is computed again once the answers are there: see
//! [`Conversions::settle`].

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_api::Status;

use super::{ResourceInfo, Shape, Tree};

/// From the stored version to another one and back.
#[derive(Clone)]
pub(crate) struct Conversion {
    pub(crate) hub: Hub,
    /// The shape of the stored version.
    pub(crate) stored: Shape,
    /// Fills in what a stored object lacks, by the version that it was stored in.
    pub(crate) complete: Arc<dyn Fn(&mut Value) + Send + Sync>,
    pub(crate) from_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    pub(crate) to_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    /// Whoever knows how versions differ, before the two above bring the result into form; none: they know it all.
    pub(crate) translator: Option<Arc<dyn Translator>>,
    /// The versions that are not served, but still own fields of objects.
    pub(crate) unserved: Arc<[Arc<ResourceInfo>]>,
}

/// In which version writes are computed and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hub {
    /// In the stored one: all versions have the rules of one.
    Stored,
    /// In the one that is asked for: each has rules of its own.
    Asked,
}

/// Makes objects of some version objects of another.
pub(crate) trait Translator: fmt::Debug + Send + Sync + 'static {
    /// The same objects, in their order. `to`: an apiVersion.
    fn translate<'a>(&'a self, objects: Vec<Value>, to: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}

/// What translators have said in the course of one write. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversions(Arc<Mutex<Learned>>);

#[derive(Debug, Default)]
struct Learned {
    known: BTreeMap<Question, Result<Value, Status>>,
    wanted: BTreeMap<Question, Wanted>,
}

/// An apiVersion, and the object to convert to it as JSON.
type Question = (String, String);

#[derive(Debug)]
struct Wanted {
    translator: Arc<dyn Translator>,
    object: Value,
}

/// The most passes of a computation. Each pass gets a few steps further: four conversions in a row for each version that owns
/// fields of the object.
const MOST_ROUNDS: usize = 1000;

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("hub", &self.hub).field("stored", &self.stored).finish_non_exhaustive()
    }
}

// === impl Conversions ===

impl Conversions {
    /// Computes something, again each time that translations are missing. A computation fails at the first missing one, so
    /// that only objects that exist are translated. Whether a failed translation fails the computation is up to it.
    pub(crate) async fn settle<T>(&self, mut compute: impl FnMut() -> Result<T, Status>) -> Result<T, Status> {
        for _ in 0..MOST_ROUNDS {
            let computed = compute();
            let wanted = std::mem::take(&mut self.0.lock().wanted);
            if wanted.is_empty() {
                return computed;
            }
            drop(computed);
            for (question, Wanted { translator, object }) in wanted {
                let translated = translated(&*translator, vec![object], &question.0).await;
                let translated = translated.map(|mut objects| objects.pop().unwrap_or_default());
                self.0.lock().known.insert(question, translated);
            }
        }
        Err(Status::internal("the versions of an object are converted without an end"))
    }

    /// Returns the object as a translator makes it. Fails if that is not known yet.
    fn look(&self, translator: &Arc<dyn Translator>, object: Value, to: &str) -> Result<Value, Status> {
        let mut learned = self.0.lock();
        let question = (to.to_owned(), object.to_string());
        if let Some(known) = learned.known.get(&question) {
            return known.clone();
        }
        learned.wanted.insert(question, Wanted { translator: Arc::clone(translator), object });
        Err(Status::internal("an object has not been converted yet"))
    }
}

async fn translated(translator: &dyn Translator, objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Status> {
    let count = objects.len();
    let translated = translator.translate(objects, to).await?;
    if translated.len() == count { Ok(translated) } else { Err(Status::internal("a translator has lost objects")) }
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// The shape in which writes are computed and checked.
    pub(super) fn hub_shape(&self) -> &Shape {
        match &self.conversion {
            Some(conversion) if conversion.hub == Hub::Stored => &conversion.stored,
            _ => &self.shape,
        }
    }

    /// Whether somebody else has to be asked for the other versions.
    pub(super) fn is_translated(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| conversion.translator.is_some())
    }

    /// The version of what is stored from now on; of old objects it may be another.
    fn stored_version(&self) -> String {
        match self.conversion.as_ref().map(|conversion| &conversion.stored) {
            Some(Shape::Custom(shape)) => format!("{}/{}", self.group, shape.storage_version()),
            _ => self.api_version(),
        }
    }

    fn with_hub(&self, hub: Hub) -> Option<&Conversion> {
        self.conversion.as_ref().filter(|conversion| conversion.hub == hub)
    }

    /// Stored objects in this version.
    pub(crate) async fn show_all(&self, stored: Vec<Value>) -> Result<Vec<Value>, Status> {
        let hubs = self.hubs_of(stored).await?;
        let Some(conversion) = self.with_hub(Hub::Stored) else { return Ok(hubs) };
        Ok(hubs.into_iter().map(|hub| (conversion.from_stored)(hub)).collect())
    }

    /// Stored objects in the hub.
    async fn hubs_of(&self, mut stored: Vec<Value>) -> Result<Vec<Value>, Status> {
        let Some(conversion) = self.with_hub(Hub::Asked) else { return Ok(stored) };
        for object in &mut stored {
            (conversion.complete)(object);
        }
        let objects = conversion.translate(stored, &self.api_version()).await?;
        Ok(objects.into_iter().map(|object| (conversion.from_stored)(object)).collect())
    }

    /// A stored object in the hub.
    pub(super) async fn hub_of(&self, stored: Value) -> Result<Value, Status> {
        Ok(self.hubs_of(vec![stored]).await?.pop().unwrap_or_default())
    }

    /// An object of the hub as it is stored, without a copy where they do not differ. It loses what storage does not keep.
    pub(super) async fn to_stored<'v>(&self, hub: &'v mut Value) -> Result<Cow<'v, Value>, Status> {
        if let Shape::Custom(shape) = self.hub_shape() {
            shape.prune(hub);
        }
        let Some(conversion) = self.with_hub(Hub::Asked) else { return Ok(Cow::Borrowed(hub)) };
        let object = conversion.translate(vec![hub.clone()], &self.stored_version()).await?.pop().unwrap_or_default();
        Ok(Cow::Owned((conversion.to_stored)(object)))
    }

    /// An object of the hub in this version, without a copy where they do not differ.
    pub(crate) fn shown<'v>(&self, hub: &'v Value) -> Cow<'v, Value> {
        match self.with_hub(Hub::Stored) {
            None => Cow::Borrowed(hub),
            Some(conversion) => Cow::Owned((conversion.from_stored)(hub.clone())),
        }
    }

    /// An object of this version in the hub.
    pub(crate) fn to_hub(&self, object: Value) -> Value {
        match self.with_hub(Hub::Stored) {
            None => object,
            Some(conversion) => (conversion.to_stored)(object),
        }
    }

    /// An object of the hub of another version of the same resource in the hub of this one.
    pub(crate) async fn adopt(&self, other: Value) -> Result<Value, Status> {
        let api_version = self.api_version();
        match self.with_hub(Hub::Asked) {
            Some(conversion) if is_other(&other, &api_version) => {
                let object = conversion.translate(vec![other], &api_version).await?.pop().unwrap_or_default();
                Ok((conversion.from_stored)(object))
            }
            _ => Ok(other),
        }
    }

    /// An object of another version of the same resource in this one, in the middle of a computation that is
    /// [settled](Conversions::settle).
    pub(super) fn convert_from(&self, other: &Self, object: Value, conversions: &Conversions) -> Result<Value, Status> {
        match self.with_hub(Hub::Asked) {
            None => Ok(self.shown(&other.to_hub(object)).into_owned()),
            Some(conversion) => {
                let object = conversion.look(object, &self.api_version(), conversions)?;
                Ok((conversion.from_stored)(object))
            }
        }
    }
}

impl Conversion {
    /// The objects, those translated that are of another version.
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
        for (place, object) in places.into_iter().zip(translated(&**translator, others, to).await?) {
            objects[place] = object;
        }
        Ok(objects)
    }

    fn look(&self, object: Value, to: &str, conversions: &Conversions) -> Result<Value, Status> {
        match &self.translator {
            Some(translator) if is_other(&object, to) => conversions.look(translator, object, to),
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

    /// Knows the objects that exist, and takes no others.
    #[derive(Debug, Default)]
    struct Strict(Mutex<Vec<Value>>);

    impl Translator for Strict {
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
    async fn only_objects_that_exist_are_converted() {
        let strict = Arc::new(Strict::default());
        let translator: Arc<dyn Translator> = Arc::clone(&strict) as _;
        let conversions = Conversions::default();
        let chain = || {
            let first = json!({"apiVersion": "v1", "in": "v1"});
            let second = conversions.look(&translator, first, "v2")?;
            conversions.look(&translator, second, "v3")
        };
        assert_eq!(conversions.settle(chain).await.unwrap(), json!({"apiVersion": "v3", "in": "v3"}));
        let asked = strict.0.lock().clone();
        assert_eq!(asked, [json!({"apiVersion": "v1", "in": "v1"}), json!({"apiVersion": "v2", "in": "v2"})]);
    }

    #[tokio::test]
    async fn failed_conversion_is_left_to_the_computation() {
        let translator: Arc<dyn Translator> = Arc::new(Strict::default());
        let conversions = Conversions::default();
        let attempt = || conversions.look(&translator, json!({"apiVersion": "v1", "in": "v9"}), "v2");
        let failure = conversions.settle(attempt).await.unwrap_err();
        assert!(failure.message.starts_with("no such object: "), "{}", failure.message);
        assert!(conversions.settle(|| Ok(attempt().is_err())).await.unwrap());
    }
}
