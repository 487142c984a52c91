//! The availability of a remote API service, and the condition that reports it.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::time;
use windlass_api::{Status, format_time};

use super::{
    endpoint::{self, NoRoute, Service},
    proxy::{self, AGGREGATOR},
    remote::RemoteService,
};
use crate::{
    object::{Tree, object_mut},
    registry::{Registry, WebhookCalls, WriteParams},
    resource::{Body, Target},
};

/// The time for a request to the other server.
const LIMIT: Duration = Duration::from_secs(5);
/// The endpoints of a service that are tried at the same time. One success is enough.
const ATTEMPTS: usize = 5;

/// The condition `Available` of an API service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Availability {
    pub(super) holds: Holds,
    reason: &'static str,
    message: String,
}

/// The status of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    True,
    False,
    Unknown,
}

impl Availability {
    fn failed(reason: &'static str, message: String) -> Self {
        Self { holds: Holds::False, reason, message }
    }

    /// Reports whether the other server was asked, so that another attempt without a change in between makes sense.
    pub(super) fn is_failed_request(&self) -> bool {
        self.reason == "FailedDiscoveryCheck"
    }
}

/// Checks a remote API service. Also returns an address of its server, if the service has one: preferably one that answers.
pub(super) async fn check(registry: &Registry, remote: &RemoteService) -> (Availability, Option<String>) {
    let (namespace, name) = (&remote.service.namespace, &remote.service.name);
    let of = format!("service/{name} in {namespace:?}");
    let route = match endpoint::resolve(registry, &remote.service).await {
        Ok(Service::Missing) => {
            return (Availability::failed("ServiceNotFound", format!("{of} is not present")), None);
        }
        Ok(Service::Found { kind, route }) => match (route, &*kind) {
            (Ok(route), _) => route,
            (Err(reason), "ClusterIP") => return (missing(&reason, remote, &of), None),
            (Err(reason), _) => {
                let why = unresolved(&reason, &kind, remote);
                return (Availability::failed("FailedDiscoveryCheck", why), None);
            }
        },
        Err(status) => {
            let message = format!("{of} cannot be checked due to: {status}");
            return (Availability { holds: Holds::Unknown, reason: "ServiceAccessError", message }, None);
        }
    };
    let mut attempts: FuturesUnordered<_> = route.first(ATTEMPTS).map(|address| attempt(remote, address)).collect();
    let mut last = String::new();
    while let Some(result) = attempts.next().await {
        match result {
            Ok(address) => {
                let message = "all checks passed".to_owned();
                return (Availability { holds: Holds::True, reason: "Passed", message }, Some(address.to_owned()));
            }
            Err(error) => last = error,
        }
    }
    drop(attempts);
    (Availability::failed("FailedDiscoveryCheck", last), route.first(1).next().map(str::to_owned))
}

/// Requests the discovery document of the group version from the server at an address.
async fn attempt<'a>(remote: &RemoteService, address: &'a str) -> Result<&'a str, String> {
    let connection = remote.connection.as_ref()?;
    let path = remote.path();
    let url = format!("https://{address}{path}");
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let request = proxy::request_as(AGGREGATOR, address, &path).map_err(|error| failed(error.to_string()))?;
    match time::timeout(LIMIT, connection.send(request)).await {
        Ok(Ok(response)) if (200..300).contains(&response.status().as_u16()) => Ok(address),
        Ok(Ok(response)) => Err(failed(format!("bad status from {url}: {}", response.status().as_u16()))),
        Ok(Err(error)) => Err(failed(format!("Get {url:?}: {}", proxy::reason(&*error)))),
        Err(_) => Err(failed(format!("Get {url:?}: context deadline exceeded"))),
    }
}

/// Returns the availability without endpoints of a service of type ClusterIP.
fn missing(reason: &NoRoute, remote: &RemoteService, of: &str) -> Availability {
    match reason {
        NoRoute::NoPort => {
            Availability::failed("ServicePortError", format!("{of} is not listening on port {}", remote.service.port))
        }
        NoRoute::NoEndpointSlices => {
            Availability::failed("EndpointsNotFound", format!("cannot find endpointslices for {of}"))
        }
        NoRoute::NoEndpoints { port_name } => Availability::failed(
            "MissingEndpoints",
            format!("endpointslices for {of} have no addresses with port name {port_name:?}"),
        ),
        NoRoute::Unsupported => Availability::failed("FailedDiscoveryCheck", unresolved(reason, "ClusterIP", remote)),
    }
}

/// Returns the reason why a service has no address.
fn unresolved(reason: &NoRoute, kind: &str, remote: &RemoteService) -> String {
    let name = &remote.service.name;
    match reason {
        NoRoute::NoPort => format!("no service port {} found for service {name:?}", remote.service.port),
        NoRoute::NoEndpointSlices | NoRoute::NoEndpoints { .. } => {
            format!("no endpoints available for service {name:?}")
        }
        NoRoute::Unsupported => format!("unsupported service type {kind:?}"),
    }
}

/// Writes the condition, unless the object has it already. Returns the object as it is stored now, unless it was deleted.
pub(super) async fn record(registry: &Registry, name: &str, new: &Availability) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get("apiregistration.k8s.io", "v1", "apiservices") else { return Ok(()) };
    let target = Target::object(resource, None, name);
    let Some(item) = registry.peek(&target).await? else { return Ok(()) };
    let before = item.value();
    let mut object = before.clone();
    set(&mut object, new, &format_time(registry.clock().now()));
    if object == before {
        return Ok(());
    }
    let params = WriteParams {
        field_manager: "kube-apiserver".to_owned(),
        webhooks: WebhookCalls::Never,
        ..WriteParams::default()
    };
    registry.update(&target.subresource("status"), Body::Value(object), params).await.map(drop)
}

/// Sets the condition. The time changes only with the status.
fn set(object: &mut Value, new: &Availability, now: &str) {
    let holds = match new.holds {
        Holds::True => "True",
        Holds::False => "False",
        Holds::Unknown => "Unknown",
    };
    let mut conditions = object.items(&["status", "conditions"]).to_vec();
    let known = conditions.iter().position(|condition| condition.text(&["type"]) == "Available");
    let unchanged = known.map(|at| &conditions[at]).filter(|condition| condition.text(&["status"]) == holds);
    let since = unchanged.map_or(now, |condition| condition.text(&["lastTransitionTime"])).to_owned();
    let condition = json!({
        "type": "Available", "status": holds, "lastTransitionTime": since, "reason": new.reason, "message": new.message,
    });
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    object_mut(object, "status").insert("conditions".to_owned(), conditions.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_condition_changes_only_with_its_status() {
        let failed = |message: &str| Availability::failed("MissingEndpoints", message.to_owned());
        let mut object = json!({});
        set(&mut object, &failed("one"), "then");
        set(&mut object, &failed("two"), "later");
        let condition = &object["status"]["conditions"][0];
        assert_eq!((condition.text(&["message"]), condition.text(&["lastTransitionTime"])), ("two", "then"));
        let passed = Availability { holds: Holds::True, reason: "Passed", message: String::new() };
        set(&mut object, &passed, "now");
        assert_eq!(object["status"]["conditions"][0].text(&["lastTransitionTime"]), "now");
        assert_eq!(object.items(&["status", "conditions"]).len(), 1);
    }
}
