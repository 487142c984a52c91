//! Media types. The gateway reads responses and events, so it requests them as JSON without compression.

use http::{HeaderMap, HeaderValue, header};

/// The parameters of media types that select another representation of objects.
const KEPT: [&str; 3] = ["as", "g", "v"];

/// Requests an uncompressed response in JSON. Tables and metadata stay what they are.
pub(crate) fn request_json(headers: &mut HeaderMap) {
    headers.remove(header::ACCEPT_ENCODING);
    let accepted: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let mut types: Vec<_> = accepted.iter().flat_map(|value| value.split(',')).map(as_json).collect();
    types.dedup();
    let value = HeaderValue::try_from(types.join(",")).ok().filter(|_| !types.is_empty());
    headers.insert(header::ACCEPT, value.unwrap_or(HeaderValue::from_static("application/json")));
}

/// Returns the JSON type with the parameters of another type.
fn as_json(media_type: &str) -> String {
    let mut parts = media_type.split(';').map(str::trim);
    match parts.next() {
        // Logs are not JSON.
        Some("*/*") => return "application/json,*/*".to_owned(),
        // Types of documents other than objects, such as OpenAPI.
        Some(name @ ("text/plain" | "application/yaml")) => return name.to_owned(),
        Some(name) if name.starts_with("application/com.github.proto-openapi") => return name.to_owned(),
        _ => {}
    }
    let parameters = parts.filter(|part| part.split_once('=').is_some_and(|(key, _)| KEPT.contains(&key)));
    parameters.fold("application/json".to_owned(), |json, parameter| format!("{json};{parameter}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(accept: &'static str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        request_json(&mut headers);
        headers[header::ACCEPT].to_str().unwrap().to_owned()
    }

    #[test]
    fn binary_types_become_json() {
        assert_eq!(rewritten("application/vnd.kubernetes.protobuf"), "application/json");
        assert_eq!(rewritten("application/vnd.kubernetes.protobuf,application/json"), "application/json");
        assert_eq!(rewritten("application/cbor;stream=watch"), "application/json");
        assert_eq!(rewritten("application/json, */*"), "application/json,application/json,*/*");
    }

    #[test]
    fn tables_and_metadata_are_kept() {
        let metadata =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(
            rewritten(metadata),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        );
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(rewritten(table), table);
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(rewritten(discovery), discovery);
    }
}
