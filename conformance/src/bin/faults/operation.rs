//! One operation of a client on a register, and its outcome.
//!
//! A register is a ConfigMap. Each write has another value, so that a value identifies the write. The values can be read
//! from the encoded objects in etcd, too: they have a mark.

use std::{error::Error as _, io, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_api::ObjectRef;
use windlass_client::{Client, Error};

use crate::{NAMESPACE, Result};

/// The time for an operation of most clients. It is shorter than most faults.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// The time for an operation of the others. It is longer than a server tries, so they see how its attempts end.
pub(crate) const LONG_LIMIT: Duration = Duration::from_secs(12);

/// The key of the value in the data, and the mark before the value.
const KEY: &str = "value";
const MARK: &str = "written:";

/// An object as a client has read or written it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) value: String,
    pub(crate) version: u64,
    uid: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Gets the object, without a resource version.
    Read,
    Create(String),
    /// Replaces the object if it is this one.
    Put(Object, String),
    /// Replaces the object, whatever it is.
    Overwrite(String),
    /// Deletes the object if it is this one.
    Delete(Object),
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Found(Object),
    Deleted,
    Exists,
    Conflict,
    Missing,
    /// The operation was not executed, because no server was reached, or because it had too many requests.
    Rejected,
    /// The operation was executed, will be executed, or never is.
    Unknown(String),
    /// The server must not answer this.
    Wrong(String),
}

/// An operation in the history of the clients.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) register: String,
    pub(crate) request: Request,
    pub(crate) outcome: Outcome,
    /// The times in nanoseconds.
    pub(crate) called: u64,
    pub(crate) returned: u64,
}

impl Object {
    pub(crate) fn of(object: &ConfigMap) -> Result<Self> {
        let metadata = &object.metadata;
        let data = object.data.as_ref().and_then(|data| value_in(data.get(KEY)?.as_bytes()));
        let value = data.ok_or_else(|| format!("a ConfigMap without value: {object:?}"))?;
        let version = metadata.resource_version.as_deref().ok_or("a ConfigMap without resource version")?.parse()?;
        Ok(Self { value, version, uid: metadata.uid.clone().unwrap_or_default() })
    }
}

/// Finds the value in an encoded object.
pub(crate) fn value_in(bytes: &[u8]) -> Option<String> {
    let start = bytes.windows(MARK.len()).position(|window| window == MARK.as_bytes())? + MARK.len();
    let length = bytes[start..].iter().position(|byte| *byte == b';')?;
    String::from_utf8(bytes[start..start + length].to_vec()).ok()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some(NAMESPACE.to_owned());
    object.data = Some([(KEY.to_owned(), format!("{MARK}{value};"))].into());
    object
}

impl Request {
    /// Sends the request once. The client must not repeat it.
    pub(crate) async fn send(&self, client: &Client, name: &str) -> Outcome {
        self.send_within(LIMIT, client, name).await
    }

    pub(crate) async fn send_within(&self, limit: Duration, client: &Client, name: &str) -> Outcome {
        match timeout(limit, self.call(client, name)).await {
            Ok(Ok(Some(object))) => match Object::of(&object) {
                Ok(object) if self.written().is_none_or(|written| *written == object.value) => Outcome::Found(object),
                Ok(object) => Outcome::Wrong(format!("the response to {self:?} has the value {:?}", object.value)),
                Err(error) => Outcome::Wrong(error.to_string()),
            },
            Ok(Ok(None)) => Outcome::Deleted,
            Ok(Err(error)) => self.failure(&error),
            Err(_) => Outcome::Unknown(format!("no response within {limit:?}")),
        }
    }

    async fn call(&self, client: &Client, name: &str) -> Result<Option<ConfigMap>, Error> {
        let reference = || ObjectRef::<ConfigMap>::new(name).within(NAMESPACE);
        match self {
            Self::Read => client.get::<ConfigMap>(reference()).await.map(Some),
            Self::Create(value) => client.create(&config_map(name, value)).await.map(Some),
            Self::Put(expected, value) => {
                let mut object = config_map(name, value);
                object.metadata.resource_version = Some(expected.version.to_string());
                object.metadata.uid = Some(expected.uid.clone());
                client.update(&object).await.map(Some)
            }
            Self::Overwrite(value) => client.update(&config_map(name, value)).await.map(Some),
            Self::Delete(expected) => {
                let deletion = client.delete::<ConfigMap>(reference()).uid(expected.uid.clone());
                deletion.resource_version(expected.version.to_string()).await.map(|_| None)
            }
        }
    }

    /// Returns the value that the request writes, if any.
    pub(crate) const fn written(&self) -> Option<&String> {
        match self {
            Self::Create(value) | Self::Put(_, value) | Self::Overwrite(value) => Some(value),
            Self::Read | Self::Delete(_) => None,
        }
    }

    fn failure(&self, error: &Error) -> Outcome {
        let text = error.chain();
        let Some(status) = error.status() else {
            return if is_unsent(error) { Outcome::Rejected } else { Outcome::Unknown(text) };
        };
        match status.code {
            404 => Outcome::Missing,
            409 if status.is_already_exists() => Outcome::Exists,
            409 if matches!(self, Self::Put(..) | Self::Delete(_)) => Outcome::Conflict,
            429 => Outcome::Rejected,
            500.. => Outcome::Unknown(text),
            _ => Outcome::Wrong(text),
        }
    }
}

/// Reports whether no connection was established.
fn is_unsent(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            return matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
        }
        source = error.source();
    }
    false
}

impl Outcome {
    /// Reports whether the server has answered with the result of the operation.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self, Self::Found(_) | Self::Deleted | Self::Exists | Self::Conflict | Self::Missing)
    }
}

impl Operation {
    /// Returns the line of the history. `None` if the operation says nothing about the register.
    pub(crate) fn line(&self) -> Option<Value> {
        let (kind, expected, written) = match &self.request {
            Request::Read => ("read", None, None),
            Request::Create(value) => ("create", None, Some(value)),
            Request::Put(expected, value) => ("put", Some(expected), Some(value)),
            Request::Overwrite(value) => ("overwrite", None, Some(value)),
            Request::Delete(expected) => ("delete", Some(expected), None),
        };
        let outcome = match &self.outcome {
            Outcome::Found(_) | Outcome::Deleted => "ok",
            Outcome::Exists => "exists",
            Outcome::Conflict => "conflict",
            Outcome::Missing => "missing",
            Outcome::Unknown(_) if matches!(self.request, Request::Read) => return None,
            Outcome::Unknown(_) => "unknown",
            Outcome::Rejected | Outcome::Wrong(_) => return None,
        };
        let mut line = json!({
            "client": self.client, "register": self.register, "kind": kind, "outcome": outcome, "call": self.called,
        });
        if let Outcome::Unknown(message) = &self.outcome {
            line["message"] = json!(message);
        } else {
            line["return"] = json!(self.returned);
        }
        if let Some(expected) = expected {
            line["expect"] = json!(expected.value);
            line["expectVersion"] = json!(expected.version);
        }
        if let Some(value) = written {
            line["value"] = json!(value);
        }
        if let Outcome::Found(object) = &self.outcome {
            // The value of the response, which may differ from the one that was written.
            line["value"] = json!(object.value);
            line["version"] = json!(object.version);
        }
        Some(line)
    }
}
