//! The FlowSchema and the priority level of a request, from the headers of its response.

use std::collections::BTreeMap;

use http::{HeaderMap, Request};
use serde_json::Value;
use windlass_client::Client;

use super::{Seen, send, whole};

/// The resources, and the headers with their UIDs.
const PARTS: [(&str, &str); 2] = [
    ("flowschemas", "X-Kubernetes-PF-FlowSchema-UID"),
    ("prioritylevelconfigurations", "X-Kubernetes-PF-PriorityLevel-UID"),
];

/// Returns the names, separated by a space. A dash is a missing header, and a question mark an unknown object.
pub(super) async fn names(client: &Client, seen: &Seen) -> Result<String, String> {
    let (Seen::Response { head, .. } | Seen::Opened { head }) = seen else { return Ok("-".to_owned()) };
    let mut names = Vec::new();
    for (resource, header) in PARTS {
        names.push(match uid(&head.headers, header) {
            None => "-".to_owned(),
            Some(uid) => objects(client, resource).await?.remove(&uid).unwrap_or_else(|| "?".to_owned()),
        });
    }
    Ok(names.join(" "))
}

fn uid(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Returns the names of all objects of a resource by their UIDs.
async fn objects(client: &Client, resource: &str) -> Result<BTreeMap<String, String>, String> {
    let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{resource}");
    let request = Request::get(path).body("".into()).map_err(|error| error.to_string())?;
    let list = whole(send(client, request).await?).await?.value().unwrap_or_default();
    let items = list["items"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(items.map(|item| (text(&item["metadata"]["uid"]), text(&item["metadata"]["name"]))).collect())
}
