//! The gate for requests of a sharded reconciler: it rejects requests after the local deadline, and writes without a
//! precondition.

use http::Method;
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;
use windlass_api::BoxError;
use windlass_client::{Gate, Operation, Outgoing, Verb};

use super::{Shard, Writes};

/// The gate between a sharded reconciler and the server.
#[derive(Debug)]
pub(crate) struct ShardGate {
    shard: Shard,
    writes: Writes,
}

/// The reason why a request of a sharded reconciler was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum Refused {
    #[error("this replica is no longer a member of its group, or could not renew its lease")]
    NoMember,
    #[error(
        "a write of a sharded controller needs a precondition: the resourceVersion or uid of the object, or a fixed name \
         for what it creates"
    )]
    Unconditional,
}

impl ShardGate {
    pub(crate) fn new(shard: Shard) -> Self {
        let writes = shard.writes();
        Self { shard, writes }
    }
}

impl Gate for ShardGate {
    fn admit(&self, request: &Outgoing<'_>) -> Result<(), BoxError> {
        if self.open_until().is_none_or(|until| until <= Instant::now()) {
            return Err(Refused::NoMember.into());
        }
        if self.writes == Writes::Conditional && !is_conditional(request) {
            return Err(Refused::Unconditional.into());
        }
        Ok(())
    }

    fn open_until(&self) -> Option<Instant> {
        self.shard.open_until()
    }
}

/// Reports whether a request is a read or a conditional write. Bodies that cannot be parsed, and streams, are not
/// conditional.
fn is_conditional(request: &Outgoing<'_>) -> bool {
    let Operation { verb, subresource, .. } = request.operation;
    if *verb == Verb::Connect {
        return true;
    }
    let named = |body: &Value| ["resourceVersion", "uid"].iter().any(|field| is_text(&body["metadata"][*field]));
    let preconditioned =
        |options: &Value| ["resourceVersion", "uid"].iter().any(|field| is_text(&options["preconditions"][*field]));
    let says = |what: &dyn Fn(&Value) -> bool| request.value().is_some_and(|body| what(&body));
    match *request.method {
        // The object of a subresource exists already: an eviction deletes it, a binding binds it.
        Method::POST if subresource.is_some() => {
            says(&|body| named(body) || preconditioned(&body["deleteOptions"]) || !is_text(&body["metadata"]["name"]))
        }
        Method::POST => says(&creates_by_name),
        Method::PUT => says(&named),
        Method::PATCH => says(&|body| named(body) || tests_version(body)),
        Method::DELETE => says(&preconditioned),
        // Reads.
        _ => true,
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// A creation with a fixed name succeeds only if no object has the name. An object with neither name nor prefix, such
/// as a review, is not stored.
fn creates_by_name(body: &Value) -> bool {
    let metadata = &body["metadata"];
    is_text(&metadata["name"]) || !is_text(&metadata["generateName"])
}

/// Reports whether a JSON patch contains the resource version or UID.
fn tests_version(patch: &Value) -> bool {
    let is_test = |operation: &Value| {
        matches!(operation["op"].as_str(), Some("test" | "replace" | "add"))
            && matches!(operation["path"].as_str(), Some("/metadata/resourceVersion" | "/metadata/uid"))
            && is_text(&operation["value"])
    };
    patch.as_array().is_some_and(|operations| operations.iter().any(is_test))
}
