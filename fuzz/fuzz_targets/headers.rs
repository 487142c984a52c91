//! Request headers, one per line: content negotiation, authentication and impersonation, with reads and writes.
#![no_main]

use bytes::Bytes;
use http::{HeaderValue, Request};
use windlass_fuzz::TEST_SERVER;

const NAMES: [&str; 10] = [
    "accept",
    "content-type",
    "authorization",
    "impersonate-user",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-extra-scopes",
    "accept-encoding",
    "if-none-match",
    "sec-websocket-protocol",
];
const BODY: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"}}"#;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let headers: Vec<_> = NAMES
        .into_iter()
        .zip(data.split(|byte| *byte == b'\n'))
        .filter_map(|(name, value)| Some((name, HeaderValue::from_bytes(value).ok().filter(|value| !value.is_empty())?)))
        .collect();
    for (method, path) in [
        ("GET", "/api/v1/namespaces/default/pods"),
        ("GET", "/api/v1/namespaces/default/configmaps/x"),
        ("GET", "/apis"),
        ("GET", "/openapi/v3"),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All"),
        ("PATCH", "/api/v1/namespaces/default/configmaps/x?dryRun=All&fieldManager=m"),
    ] {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        TEST_SERVER.send(request.body(Bytes::from_static(BODY.as_bytes())).expect("its parts are valid"));
    }
});
