//! Label and field selectors, parsed by the server and by clients. Input: a line with the label selector, then the
//! field selector.
#![no_main]

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use windlass_api::{FieldSelector, LabelSelector};
use windlass_fuzz::{JSON, TEST_SERVER, first_line};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (labels, fields) = first_line(data);
    let escape = |bytes| percent_encode(bytes, NON_ALPHANUMERIC);
    for collection in ["/api/v1/pods", "/apis/ex.io/v1/namespaces/default/foos"] {
        let path = format!("{collection}?labelSelector={}&fieldSelector={}", escape(labels), escape(fields));
        TEST_SERVER.ask("GET", &path, JSON, JSON, Bytes::new()).check();
    }
    if let Some(selector) = std::str::from_utf8(labels).ok().and_then(|text| text.parse::<LabelSelector>().ok()) {
        assert_eq!(selector.to_string().parse::<LabelSelector>().as_ref(), Ok(&selector));
    }
    if let Some(selector) = std::str::from_utf8(fields).ok().and_then(|text| text.parse::<FieldSelector>().ok()) {
        assert_eq!(selector.to_string().parse::<FieldSelector>().as_ref(), Ok(&selector));
    }
});
