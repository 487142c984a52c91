//! From the stored version of an object to others, and back.
//!
//! Most versions differ in what the server itself knows. Where a webhook knows, objects are sent to it. What is read, is sent
//! at once, a whole list in one go. What a write needs comes up in the middle of what is computed without a pause, so that
//! is computed again once the answers are there: see [`Conversions::settle`].

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_api::Status;

use super::{ResourceInfo, Shape, Tree};

/// From the stored version to another one and back.
#[derive(Clone)]
pub(crate) struct Conversion {
    /// The shape of the stored version.
    pub(crate) stored: Shape,
    pub(crate) from_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    pub(crate) to_stored: Arc<dyn Fn(Value) -> Value + Send + Sync>,
    /// Whoever knows how versions differ, before the two above bring the result into form; none: they know it all.
    pub(crate) translator: Option<Arc<dyn Translator>>,
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
    /// By apiVersion, and by the object before it as JSON.
    known: BTreeMap<(String, String), Value>,
    wanted: Vec<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    translator: Arc<dyn Translator>,
    object: Value,
    to: String,
}

/// How often something is computed anew: each time it knows of more translations, and nothing needs many in a row.
const MOST_ROUNDS: usize = 16;

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion").field("stored", &self.stored).finish_non_exhaustive()
    }
}

// === impl Conversions ===

impl Conversions {
    /// Computes something, and again for as long as translations turn up that have to be asked for. What was computed without
    /// them is thrown away, failure or not.
    pub(crate) async fn settle<T>(&self, mut compute: impl FnMut() -> Result<T, Status>) -> Result<T, Status> {
        for _ in 0..MOST_ROUNDS {
            let computed = compute();
            let wanted = std::mem::take(&mut self.0.lock().wanted);
            if wanted.is_empty() {
                return computed;
            }
            drop(computed);
            for Wanted { translator, object, to } in wanted {
                let key = (to.clone(), object.to_string());
                let translated = translated(&*translator, vec![object], &to).await?.pop().unwrap_or_default();
                self.0.lock().known.insert(key, translated);
            }
        }
        Err(Status::internal("the versions of an object are converted without an end"))
    }

    /// The object as a translator makes it; as it is, until that is known.
    fn look(&self, translator: &Arc<dyn Translator>, object: Value, to: &str) -> Value {
        let mut learned = self.0.lock();
        if let Some(known) = learned.known.get(&(to.to_owned(), object.to_string())) {
            return known.clone();
        }
        learned.wanted.push(Wanted { translator: Arc::clone(translator), object: object.clone(), to: to.to_owned() });
        object
    }
}

async fn translated(translator: &dyn Translator, objects: Vec<Value>, to: &str) -> Result<Vec<Value>, Status> {
    let count = objects.len();
    let translated = translator.translate(objects, to).await?;
    if translated.len() == count { Ok(translated) } else { Err(Status::internal("a translator has lost objects")) }
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// The shape of what storage holds.
    pub(super) fn stored_shape(&self) -> &Shape {
        self.conversion.as_ref().map_or(&self.shape, |conversion| &conversion.stored)
    }

    /// Whether somebody else has to be asked for the other versions.
    pub(super) fn is_translated(&self) -> bool {
        self.conversion.as_ref().is_some_and(|conversion| conversion.translator.is_some())
    }

    /// The version of what is stored from now on; of old objects it may be another.
    fn stored_version(&self) -> String {
        match self.stored_shape() {
            Shape::BuiltIn(_) => self.api_version(),
            Shape::Custom(shape) => format!("{}/{}", self.group, shape.storage_version()),
        }
    }

    /// Stored objects in this version.
    pub(crate) async fn show_all(&self, objects: Vec<Value>) -> Result<Vec<Value>, Status> {
        let Some(conversion) = &self.conversion else { return Ok(objects) };
        let objects = conversion.translate(objects, &self.api_version()).await?;
        Ok(objects.into_iter().map(|object| (conversion.from_stored)(object)).collect())
    }

    /// An object of this version as it is stored.
    pub(crate) async fn to_stored(&self, object: Value) -> Result<Value, Status> {
        let Some(conversion) = &self.conversion else { return Ok(object) };
        let object = conversion.translate(vec![object], &self.stored_version()).await?.pop().unwrap_or_default();
        Ok((conversion.to_stored)(object))
    }

    /// A stored object in this version, without a copy where versions do not differ.
    pub(super) fn shown<'v>(&self, stored: &'v Value, conversions: &Conversions) -> Cow<'v, Value> {
        match &self.conversion {
            None => Cow::Borrowed(stored),
            Some(_) => Cow::Owned(self.convert_from_stored(stored.clone(), conversions)),
        }
    }

    /// As [`Self::show_all`], in the middle of a computation that is [settled](Conversions::settle).
    pub(super) fn convert_from_stored(&self, object: Value, conversions: &Conversions) -> Value {
        let Some(conversion) = &self.conversion else { return object };
        (conversion.from_stored)(conversion.look(object, &self.api_version(), conversions))
    }

    /// As [`Self::to_stored`], in the middle of a computation that is [settled](Conversions::settle).
    pub(super) fn convert_to_stored(&self, object: Value, conversions: &Conversions) -> Value {
        let Some(conversion) = &self.conversion else { return object };
        (conversion.to_stored)(conversion.look(object, &self.stored_version(), conversions))
    }

    /// An object of another version of the same resource in this one, in the middle of such a computation.
    pub(super) fn convert_from(&self, other: &Self, object: Value, conversions: &Conversions) -> Value {
        if self.is_translated() {
            return self.convert_from_stored(object, conversions);
        }
        self.convert_from_stored(other.convert_to_stored(object, conversions), conversions)
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

    fn look(&self, object: Value, to: &str, conversions: &Conversions) -> Value {
        match &self.translator {
            Some(translator) if is_other(&object, to) => conversions.look(translator, object, to),
            _ => object,
        }
    }
}

fn is_other(object: &Value, api_version: &str) -> bool {
    object.text(&["apiVersion"]) != api_version
}
