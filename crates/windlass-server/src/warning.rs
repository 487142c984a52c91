//! Warnings in responses, whether they succeed or not.

use std::{collections::HashSet, sync::Arc};

use http::HeaderValue;
use parking_lot::Mutex;

/// The maximum number of characters of all warnings in a response. If it is exceeded, each text is cut to [`CUT`]
/// characters. When the cut texts reach the limit, further texts are dropped.
const TOTAL: usize = 4096;
const CUT: usize = 256;

/// Collects the warnings of one request. Clones share the list. Duplicates are ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Collected>>);

#[derive(Debug, Default)]
struct Collected {
    texts: Vec<String>,
    known: HashSet<String>,
    /// The number of characters in the headers.
    written: usize,
    cuts: bool,
}

impl Warnings {
    /// Adds a text, unless it is a duplicate or the limit is reached.
    pub(crate) fn add(&self, text: impl Into<String>) {
        self.0.lock().add(text.into());
    }

    /// Adds several texts.
    pub(crate) fn extend(&self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.add(text));
    }

    /// Returns the values of the `Warning` headers. Texts that are invalid in a header are omitted, as in
    /// kube-apiserver.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let collected = self.0.lock();
        collected.texts.iter().filter_map(|text| header(text, collected.cuts)).collect()
    }
}

impl Collected {
    fn add(&mut self, text: String) {
        let is_full = self.cuts && self.written >= TOTAL;
        if text.is_empty() || is_full || self.known.contains(&text) {
            return;
        }
        let fits = fits(&text);
        self.known.insert(text.clone());
        self.texts.push(text);
        if !fits {
            return;
        }
        let length = |text: &String, cuts: bool| match text.chars().count() {
            length if cuts => length.min(CUT),
            length => length,
        };
        self.written += self.texts.last().map_or(0, |text| length(text, self.cuts));
        if !self.cuts && self.written > TOTAL {
            self.cuts = true;
            self.written = self.texts.iter().filter(|text| self::fits(text)).map(|text| length(text, true)).sum();
        }
    }
}

/// Reports whether a text is valid in a header.
fn fits(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn header(text: &str, cuts: bool) -> Option<HeaderValue> {
    if !fits(text) {
        return None;
    }
    let mut value = String::with_capacity(text.len().min(TOTAL) + 10);
    value.push_str("299 - \"");
    for character in text.chars().take(if cuts { CUT } else { usize::MAX }) {
        if matches!(character, '"' | '\\') {
            value.push('\\');
        }
        value.push(character);
    }
    value.push('"');
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warning_is_quoted_and_sent_once() {
        let warnings = Warnings::default();
        warnings.clone().add("unknown field \"bogus\"");
        warnings.extend(["unknown field \"bogus\"".to_owned(), "line\nbreak".to_owned()]);
        assert_eq!(warnings.headers(), [r#"299 - "unknown field \"bogus\"""#]);
    }

    #[test]
    fn many_long_warnings_are_truncated() {
        let warnings = Warnings::default();
        warnings.extend((0..5).map(|number| format!("{number}{}", "x".repeat(1_000))));
        let headers = warnings.headers();
        assert!(headers.iter().all(|header| header.len() == CUT + "299 - \"\"".len()), "{headers:?}");
    }

    #[test]
    fn warnings_beyond_the_total_are_dropped() {
        let warnings = Warnings::default();
        warnings.extend((0..100_000).map(|number| format!("{number:0300}")));
        assert_eq!(warnings.headers().len(), TOTAL.div_ceil(CUT));
    }
}
