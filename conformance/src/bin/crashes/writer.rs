//! A writer of one object, which knows each state that the object must have had.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_api::{Entropy, ObjectExt as _, ObjectRef};
use windlass_client::{Client, Error};

use crate::Result;

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "default";

/// The prefix of their names.
pub(crate) const PREFIX: &str = "writer-";

/// The key of the number in the data.
const NUMBER: &str = "number";

/// A state of the object: the number that was written, or `None` if it does not exist.
pub(crate) type State = Option<u64>;

pub(crate) struct Writer {
    name: String,
    random: Entropy,
    /// All states that the object has had since it was first created.
    history: Vec<State>,
    /// The object as it was last acknowledged.
    object: Option<ConfigMap>,
    /// The state that a write in progress leads to.
    in_progress: Option<State>,
}

impl Writer {
    pub(crate) fn new(number: u64, random: Entropy) -> Self {
        Self { name: format!("{PREFIX}{number}"), random, history: Vec::new(), object: None, in_progress: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn history(&self) -> &[State] {
        &self.history
    }

    /// Writes until the server does not answer any more. The server must accept each write.
    pub(crate) async fn write(mut self, client: Client) -> Result<Self> {
        loop {
            let next = match &self.object {
                Some(_) if self.random.below(5) == 0 => None,
                _ => Some(self.random.next_u64()),
            };
            self.in_progress = Some(next);
            match self.send(&client, next).await {
                Ok(object) => self.has(next, object),
                Err(error) if error.status().is_none() => return Ok(self),
                Err(error) => return Err(format!("{} with {:?}: {error}", self.name, self.object).into()),
            }
        }
    }

    async fn send(&self, client: &Client, next: State) -> Result<Option<ConfigMap>, Error> {
        let Some(number) = next else {
            let version = self.object.as_ref().and_then(|object| object.metadata.resource_version.clone());
            client.delete::<ConfigMap>(self.reference()).resource_version(version.unwrap_or_default()).await?;
            return Ok(None);
        };
        let mut object = self.object.clone().unwrap_or_default();
        object.metadata.name = Some(self.name.clone());
        object.metadata.namespace = Some(NAMESPACE.to_owned());
        object.data = Some([(NUMBER.to_owned(), number.to_string())].into());
        let written = match &self.object {
            Some(_) => client.update(&object).await?,
            None => client.create(&object).await?,
        };
        Ok(Some(written))
    }

    fn has(&mut self, state: State, object: Option<ConfigMap>) {
        self.history.push(state);
        self.object = object;
        self.in_progress = None;
    }

    /// Reads the object after a start, and checks its state. Reports whether a write that was in progress has happened.
    pub(crate) async fn resolve(&mut self, client: &Client) -> Result<bool> {
        let object = client.get_opt::<ConfigMap>(self.reference()).await?;
        let found = object.as_ref().map(state).transpose()?;
        let before = self.object.as_ref().map(state).transpose()?;
        let version =
            |object: &Option<ConfigMap>| object.as_ref().and_then(|object| object.metadata.resource_version.clone());
        if found == before && version(&object) == version(&self.object) {
            self.in_progress = None;
            return Ok(false);
        }
        if self.in_progress != Some(found) {
            let expected = format!("{before:?}, or {:?} if the write in progress has happened", self.in_progress);
            return Err(format!("{} has the state {found:?}, expected {expected}", self.name).into());
        }
        self.has(found, object);
        Ok(true)
    }

    fn reference(&self) -> ObjectRef<ConfigMap> {
        ObjectRef::new(self.name.as_str()).within(NAMESPACE)
    }
}

/// Returns the number in an object.
pub(crate) fn state(object: &ConfigMap) -> Result<u64> {
    let number = object.data.as_ref().and_then(|data| data.get(NUMBER)?.parse().ok());
    number.ok_or_else(|| format!("{} contains no number: {:?}", object.name(), object.data).into())
}
