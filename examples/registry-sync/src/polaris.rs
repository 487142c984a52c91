//! Polaris, by its HTTP API: namespaces, services and instances under `/naming/v1`, with a user's token.
//!
//! Objects created by this program are marked: services by their metadata, namespaces by their comment. Unmarked
//! objects are not changed. The health and isolation of instances belong to Polaris and are not changed either. Its
//! list of instances does not contain their metadata, so a change of the metadata alone, made in Polaris, is not
//! detected.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, header::InvalidHeaderValue};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Client, ObjectKey, api::Clock};

use crate::{Entry, Instance, Registry, RegistryError, wire::Wire};

/// The mark of objects created by this program.
const OWNER: &str = "windlass-registry-sync";
/// The key of the mark in a service's metadata.
const MARK: &str = "managed-by";
/// The key of an instance's metadata with the time when its deletion started.
const LEAVING: &str = "leaving";

const DONE: u32 = 200_000;
const UNCHANGED: u32 = 200_002;
const THERE_ALREADY: u32 = 400_201;
const NO_INSTANCE: u32 = 400_303;

/// The maximum number of objects per request, the limit of Polaris.
const AT_ONCE: usize = 100;

/// A Polaris registry.
#[derive(Debug)]
pub struct Polaris {
    wire: Wire,
    /// The services known to be ours; Polaris lists new services with a delay of one or two seconds.
    ours: Mutex<BTreeSet<ObjectKey>>,
}

/// The relevant fields of a response.
#[derive(Debug, Deserialize)]
struct Answer {
    code: u32,
    #[serde(default)]
    info: String,
    /// The total number of objects.
    #[serde(default)]
    amount: usize,
    #[serde(default)]
    responses: Vec<Part>,
    #[serde(default)]
    namespaces: Vec<FoundNamespace>,
    #[serde(default)]
    services: Vec<FoundService>,
    #[serde(default)]
    instances: Vec<FoundInstance>,
}

#[derive(Debug, Deserialize)]
struct Part {
    code: u32,
    #[serde(default)]
    info: String,
}

#[derive(Debug, Deserialize)]
struct FoundNamespace {
    name: String,
    #[serde(default)]
    comment: Option<String>,
}

#[derive(Debug, Deserialize)]
struct FoundService {
    name: String,
    namespace: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct FoundInstance {
    host: String,
    port: u16,
}

impl Polaris {
    /// Creates a registry. `client` connects to the address of Polaris; the token belongs to a user with write access.
    ///
    /// # Errors
    /// Returns an error if the token is not a valid header value.
    pub fn new(client: Client, token: &str) -> Result<Self, InvalidHeaderValue> {
        let wire =
            Wire::new(client).with_header(HeaderName::from_static("x-polaris-token"), HeaderValue::from_str(token)?);
        Ok(Self { wire, ours: Mutex::default() })
    }

    /// Returns the objects of all pages of a list.
    async fn list<T>(&self, path: &str, items: impl Fn(Answer) -> Vec<T>) -> Result<Vec<T>, RegistryError> {
        let mut all = Vec::new();
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let page = format!("/naming/v1/{path}{separator}offset={}&limit={AT_ONCE}", all.len());
            let (_, answer) = self.wire.get::<Answer>(&page).await?;
            let answer = accepted(path, answer, &[DONE])?;
            let amount = answer.amount;
            let before = all.len();
            all.extend(items(answer));
            if all.len() >= amount || all.len() == before {
                return Ok(all);
            }
        }
    }

    /// Changes several objects in batches.
    async fn change(&self, verb: Verb, path: &str, things: Vec<Value>, good: &[u32]) -> Result<(), RegistryError> {
        for things in things.chunks(AT_ONCE) {
            let (at, body) = (format!("/naming/v1/{path}"), json!(things));
            let (_, answer) = match verb {
                Verb::Post => self.wire.post::<Answer>(&at, &body).await?,
                Verb::Put => self.wire.put::<Answer>(&at, &body).await?,
            };
            accepted(path, answer, good)?;
        }
        Ok(())
    }

    async fn instances(&self, key: &ObjectKey) -> Result<BTreeSet<(String, u16)>, RegistryError> {
        let query = format!("instances?service={}&namespace={}", quoted(&key.name), quoted(namespace(key)));
        let found = self.list(&query, |answer| answer.instances).await?;
        Ok(found.into_iter().map(|instance| (instance.host, instance.port)).collect())
    }

    /// Deletes instances after a change of their metadata. A Polaris with file storage (1.18) keeps listing a deleted
    /// instance unless it has changed within the last seconds. So each attempt must contain a new change.
    async fn take_away<'a>(
        &self,
        key: &ObjectKey,
        instances: impl Iterator<Item = &'a (String, u16)>,
    ) -> Result<(), RegistryError> {
        let leaving: Vec<_> = instances.map(|(host, port)| bare(key, host, *port)).collect();
        let now = Clock::system().now().to_string();
        let mut marked = leaving.clone();
        for instance in &mut marked {
            instance["metadata"] = json!({LEAVING: now});
        }
        self.change(Verb::Put, "instances", marked, &[DONE, NO_INSTANCE]).await?;
        self.change(Verb::Post, "instances/delete", leaving, &[DONE]).await
    }

    /// Creates the service, unless it exists and is ours. Returns an error if it belongs to another owner.
    async fn claim(&self, key: &ObjectKey) -> Result<(), RegistryError> {
        let path = "services";
        let service = json!([{"name": key.name, "namespace": namespace(key), "metadata": {MARK: OWNER}}]);
        let (_, answer) = self.wire.post::<Answer>("/naming/v1/services", &service).await?;
        let is_new = answer.code == DONE;
        accepted(path, answer, &[DONE, THERE_ALREADY])?;
        if !is_new && !self.ours.lock().contains(key) {
            let query = format!("services?name={}&namespace={}", quoted(&key.name), quoted(namespace(key)));
            let found = self.list(&query, |answer| answer.services).await?;
            if !found.iter().any(|service| service.name == *key.name && is_ours(service)) {
                let why = format!("{key} already exists and has another owner");
                return Err(RegistryError::Refused { what: path.to_owned(), why });
            }
        }
        self.ours.lock().insert(key.clone());
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Post,
    Put,
}

impl Registry for Polaris {
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>> {
        Box::pin(async {
            let query = format!("services?keys={MARK}&values={OWNER}");
            let services = self.list(&query, |answer| answer.services).await?;
            let mut entries = BTreeMap::new();
            for service in services.iter().filter(|service| is_ours(service)) {
                let key = ObjectKey::new(&*service.name).within(&*service.namespace);
                let instances = self.instances(&key).await?.into_iter();
                let instances =
                    instances.map(|(host, port)| Instance { host, port, metadata: BTreeMap::new() }).collect();
                entries.insert(key, Entry { instances });
            }
            self.ours.lock().extend(entries.keys().cloned());
            Ok(entries)
        })
    }

    fn shows(&self, entry: &Entry) -> Option<Entry> {
        let bare = |instance: &Instance| Instance { metadata: BTreeMap::new(), ..instance.clone() };
        Some(Entry { instances: entry.instances.iter().map(bare).collect() })
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            self.claim(key).await?;
            let found = self.instances(key).await?;
            let is_found = |instance: &&Instance| found.contains(&(instance.host.clone(), instance.port));
            let (kept, new): (Vec<_>, Vec<_>) = entry.instances.iter().partition(is_found);
            let whole =
                |instances: Vec<&Instance>| instances.into_iter().map(|instance| whole(key, instance)).collect();
            self.change(Verb::Post, "instances", whole(new), &[DONE, THERE_ALREADY]).await?;
            self.change(Verb::Put, "instances", whole(kept), &[DONE, UNCHANGED]).await?;
            let wanted: BTreeSet<_> =
                entry.instances.iter().map(|instance| (instance.host.clone(), instance.port)).collect();
            self.take_away(key, found.difference(&wanted)).await
        })
    }

    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            if !self.ours.lock().contains(key) {
                // The service may belong to another owner, because even its first write may have been rejected. Only
                // marked services are ours.
                let query = format!("services?name={}&namespace={}", quoted(&key.name), quoted(namespace(key)));
                if !self.list(&query, |answer| answer.services).await?.iter().any(is_ours) {
                    return Ok(());
                }
            }
            self.take_away(key, self.instances(key).await?.iter()).await?;
            let service = json!({"name": key.name, "namespace": namespace(key)});
            self.change(Verb::Post, "services/delete", vec![service], &[DONE]).await?;
            self.ours.lock().remove(key);
            Ok(())
        })
    }

    fn has_namespaces(&self) -> bool {
        true
    }

    fn namespaces(&self) -> BoxFuture<'_, Result<BTreeSet<String>, RegistryError>> {
        Box::pin(async {
            let found = self.list("namespaces", |answer| answer.namespaces).await?;
            let ours = found.into_iter().filter(|namespace| namespace.comment.as_deref() == Some(OWNER));
            Ok(ours.map(|namespace| namespace.name).collect())
        })
    }

    fn add_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        let namespace = json!({"name": name, "comment": OWNER});
        Box::pin(self.change(Verb::Post, "namespaces", vec![namespace], &[DONE, THERE_ALREADY]))
    }

    fn remove_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            if !self.namespaces().await?.contains(name) {
                return Ok(());
            }
            self.change(Verb::Post, "namespaces/delete", vec![json!({"name": name})], &[DONE]).await
        })
    }
}

/// Returns an error if one part of the request was rejected.
fn accepted(what: &str, answer: Answer, good: &[u32]) -> Result<Answer, RegistryError> {
    let parts = answer.responses.iter().map(|part| (part.code, &part.info));
    // If the response has parts, its own code repeats the code of one of them.
    let whole = std::iter::once((answer.code, &answer.info)).filter(|_| answer.responses.is_empty());
    match parts.chain(whole).find(|(code, _)| !good.contains(code)) {
        None => Ok(answer),
        Some((code, why)) => Err(RegistryError::Refused { what: what.to_owned(), why: format!("{code}, {why}") }),
    }
}

fn is_ours(service: &FoundService) -> bool {
    service.metadata.get(MARK).is_some_and(|owner| owner == OWNER)
}

fn namespace(key: &ObjectKey) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

fn bare(key: &ObjectKey, host: &str, port: u16) -> Value {
    json!({"service": key.name, "namespace": namespace(key), "host": host, "port": port})
}

fn whole(key: &ObjectKey, instance: &Instance) -> Value {
    let mut value = bare(key, &instance.host, instance.port);
    value["metadata"] = json!(instance.metadata);
    value
}

fn quoted(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
