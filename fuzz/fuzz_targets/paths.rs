//! Paths and queries. Input: the method in the first byte, then a line with the path, then the query.
#![no_main]

use bytes::Bytes;
use http::{Request, Uri};
use windlass_fuzz::{JSON, TEST_SERVER, first_line};

/// Prevents permanent changes, and long waits.
const QUIET: &str = "dryRun=All&timeoutSeconds=1&";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((method, rest)) = data.split_first() else { return };
    let method = ["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"][usize::from(*method) % 8];
    let (path, query) = first_line(rest);
    let (path, query) = (String::from_utf8_lossy(path), String::from_utf8_lossy(query));
    let Ok(uri) = format!("/{}?{QUIET}{query}", path.trim_start_matches('/')).parse::<Uri>() else { return };
    // Watches would only return after their timeout.
    if query.contains("watch") || query.contains("follow") || path.contains("watch") {
        return;
    }
    let request = Request::builder().method(method).uri(uri).header("content-type", JSON);
    TEST_SERVER.send(request.body(Bytes::from_static(b"{\"metadata\":{\"name\":\"y\"}}")).expect("its parts are valid"));
});
