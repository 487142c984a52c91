//! The trace context of a request: the headers of W3C Trace Context and Baggage.
//!
//! The server exports no spans. Like a kube-apiserver without a tracing configuration, it passes the context of a write
//! on to admission webhooks, and to no other server.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// A trace context. Empty for a request without the headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceContext(Option<Arc<HeaderMap>>);

impl TraceContext {
    /// Returns the context in the headers of a request. An invalid parent is ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let (parent, baggage) = (headers.get(PARENT).and_then(normalized), headers.get(BAGGAGE));
        if parent.is_none() && baggage.is_none() {
            return Self::default();
        }
        let mut context = HeaderMap::new();
        if let Some(parent) = parent {
            context.insert(PARENT, parent);
            context.extend(headers.get(STATE).map(|state| (STATE, state.clone())));
        }
        context.extend(baggage.map(|baggage| (BAGGAGE, baggage.clone())));
        Self(Some(Arc::new(context)))
    }

    /// Adds the context to the headers of another request.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        headers.extend(self.0.as_deref().cloned().into_iter().flatten());
    }
}

/// Returns a `traceparent` in the form of version 00, which is what OpenTelemetry sends for any version. Returns `None`
/// if it is invalid.
fn normalized(parent: &HeaderValue) -> Option<HeaderValue> {
    let mut parts = parent.to_str().ok()?.splitn(5, '-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, length: usize| is_hex(part, length) && part.bytes().any(|digit| digit != b'0');
    if !is_hex(version, 2) || version == "ff" || !is_id(trace, 32) || !is_id(span, 16) || !is_hex(flags, 2) {
        return None;
    }
    // The known flags: sampled and random.
    let flags = u8::from_str_radix(flags, 16).ok()?;
    if version == "00" && (parts.next().is_some() || flags > 3) {
        return None;
    }
    HeaderValue::try_from(format!("00-{trace}-{span}-{:02x}", flags & 3)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

    fn passed(headers: &[(&HeaderName, &str)]) -> Vec<(String, String)> {
        let headers = headers.iter().map(|(name, value)| ((*name).clone(), value.parse().unwrap())).collect();
        let mut passed = HeaderMap::new();
        TraceContext::of(&headers).add_to(&mut passed);
        passed.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn valid_parent_is_normalized_and_others_are_ignored() {
        let parent = |text: &str| passed(&[(&PARENT, text)]).pop().map(|(_, value)| value);
        let of = |flags: &str| Some(format!("00-{TRACE}-{flags}"));
        for (text, expected) in [
            (format!("00-{TRACE}-01"), of("01")),
            (format!("00-{TRACE}-00"), of("00")),
            (format!("01-{TRACE}-09-later"), of("01")),
            (format!("00-{TRACE}-01-more"), None),
            (format!("00-{TRACE}-08"), None),
            (format!("ff-{TRACE}-01"), None),
            (format!("00-{}-01", TRACE.to_uppercase()), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{TRACE}"), None),
            (String::new(), None),
        ] {
            assert_eq!(parent(&text), expected, "{text}");
        }
    }

    #[test]
    fn state_is_passed_with_a_valid_parent_only() {
        let pair = |name: &HeaderName, value: &str| (name.to_string(), value.to_owned());
        let parent = format!("00-{TRACE}-01");
        let all = passed(&[(&PARENT, &parent), (&STATE, "a=b"), (&BAGGAGE, "c=d")]);
        assert_eq!(all, [pair(&PARENT, &parent), pair(&STATE, "a=b"), pair(&BAGGAGE, "c=d")]);
        assert_eq!(passed(&[(&PARENT, "?"), (&STATE, "a=b"), (&BAGGAGE, "c=d")]), [pair(&BAGGAGE, "c=d")]);
        assert!(passed(&[(&STATE, "a=b")]).is_empty());
    }
}
