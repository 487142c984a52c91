//! Warnings that travel beside an answer, whether it succeeds or not.

use std::sync::Arc;

use http::HeaderValue;
use parking_lot::Mutex;

/// All texts of one answer together may have so many characters; past that each is cut to [`CUT`].
const TOTAL: usize = 4096;
const CUT: usize = 256;

/// Collects the warnings of one request. Clones collect into the same list; a text counts once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a text, unless it is there already.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut texts = self.0.lock();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }

    /// Adds several texts.
    pub(crate) fn extend(&self, texts: impl IntoIterator<Item = String>) {
        texts.into_iter().for_each(|text| self.add(text));
    }

    /// The values of the `Warning` headers. A text that cannot stand in a header is left out, as the real server does.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let texts = self.0.lock();
        let total: usize = texts.iter().map(|text| text.chars().count()).sum();
        let header = |text: &String| {
            if text.chars().any(char::is_control) {
                return None;
            }
            let mut value = String::with_capacity(text.len() + 10);
            value.push_str("299 - \"");
            for character in text.chars().take(if total > TOTAL { CUT } else { usize::MAX }) {
                if matches!(character, '"' | '\\') {
                    value.push('\\');
                }
                value.push(character);
            }
            value.push('"');
            HeaderValue::from_bytes(value.as_bytes()).ok()
        };
        texts.iter().filter_map(header).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_and_counted_once() {
        let warnings = Warnings::default();
        warnings.clone().add("unknown field \"bogus\"");
        warnings.extend(["unknown field \"bogus\"".to_owned(), "line\nbreak".to_owned()]);
        assert_eq!(warnings.headers(), [r#"299 - "unknown field \"bogus\"""#]);
    }

    #[test]
    fn many_long_texts_are_cut() {
        let warnings = Warnings::default();
        warnings.extend((0..5).map(|number| format!("{number}{}", "x".repeat(1_000))));
        let headers = warnings.headers();
        assert!(headers.iter().all(|header| header.len() == CUT + "299 - \"\"".len()), "{headers:?}");
    }
}
