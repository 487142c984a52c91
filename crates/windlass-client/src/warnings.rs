//! Warnings that a server sends with its response, for example about deprecated versions or unknown fields.
//!
//! Servers send them as `Warning` headers with code 299. Other codes are warnings of HTTP caches; they are ignored, as
//! are malformed headers.

mod encoded_words;

use std::{collections::HashSet, fmt, io::Write, sync::Arc};

use http::{HeaderMap, header};
use parking_lot::Mutex;

use crate::operation::Operation;

/// The code of persistent warnings for users.
const PERSISTENT: &str = "299";
/// The maximum number of warning texts remembered for deduplication. Usually there are few; names in the texts could
/// make them many.
const REMEMBERED: usize = 4096;

/// A warning from a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Warning {
    /// The agent that warns; `-` if unspecified.
    pub agent: String,
    /// The human-readable text.
    pub text: String,
}

/// A handler of warnings.
pub trait WarningHandler: fmt::Debug + Send + Sync + 'static {
    /// Called when the response to `operation` contains a warning.
    fn handle(&self, operation: &Operation, warning: &Warning);
}

/// Logs each warning.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWarnings;

/// Ignores all warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoreWarnings;

/// Collects the warnings. Clones share the collection.
#[derive(Clone, Debug, Default)]
pub struct CollectWarnings(Arc<Mutex<Vec<Warning>>>);

/// Passes each warning text to another handler only once.
#[derive(Debug)]
pub struct UniqueWarnings<H> {
    handler: H,
    /// The texts delivered so far. Cleared when full: a repeated warning is better than unbounded memory.
    told: Mutex<HashSet<String>>,
}

/// Writes each warning as a line, as kubectl does: `Warning: …`.
pub struct WriteWarnings<W> {
    out: Mutex<W>,
    color: Color,
}

/// Color in the written warnings, for terminals that support it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// Plain text.
    #[default]
    No,
    /// Highlights the word `Warning`.
    Yes,
}

// === impl Warning ===

impl Warning {
    /// Returns the warnings in all headers of a response, in order.
    pub(crate) fn all(headers: &HeaderMap) -> Vec<Self> {
        let mut warnings = Vec::new();
        for value in headers.get_all(header::WARNING) {
            let mut rest = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
            // One header may contain several warnings.
            while let Some((code, warning, after)) = one(rest) {
                if code == PERSISTENT && !warning.text.is_empty() {
                    warnings.push(warning);
                }
                rest = after;
            }
        }
        warnings
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses `299 agent "text"` with an optional quoted date and further warnings after a comma. Returns the code, the
/// warning and the rest.
fn one(value: &str) -> Option<(&str, Warning, &str)> {
    let (code, rest) = value.trim_start().split_once(' ')?;
    let (agent, rest) = rest.split_once(' ')?;
    if !(code.len() == 3 && code.bytes().all(|digit| digit.is_ascii_digit())) || agent.is_empty() {
        return None;
    }
    let (text, rest) = quoted(rest)?;
    let text = encoded_words::decode(&text).unwrap_or(text);
    if text.chars().any(char::is_control) {
        return None;
    }
    let rest = rest.trim_start();
    let rest = if rest.starts_with('"') { quoted(rest)?.1.trim_start() } else { rest };
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(',')? };
    Some((code, Warning { agent: agent.to_owned(), text }, rest))
}

/// Parses a quoted string with backslash escapes. Returns the text and the rest after the closing quote.
fn quoted(value: &str) -> Option<(String, &str)> {
    let value = value.strip_prefix('"')?;
    let mut text = String::with_capacity(value.len());
    let mut characters = value.char_indices();
    loop {
        match characters.next()? {
            (end, '"') => return Some((text, &value[end + 1..])),
            (_, '\\') => text.push(characters.next()?.1),
            (_, other) => text.push(other),
        }
    }
}

// === Handlers ===

impl WarningHandler for LogWarnings {
    fn handle(&self, operation: &Operation, warning: &Warning) {
        tracing::warn!(target: "windlass_client::warning", %operation, "{warning}");
    }
}

impl WarningHandler for IgnoreWarnings {
    fn handle(&self, _: &Operation, _: &Warning) {}
}

impl CollectWarnings {
    /// Returns and removes the collected warnings.
    #[must_use]
    pub fn take(&self) -> Vec<Warning> {
        std::mem::take(&mut self.0.lock())
    }
}

impl WarningHandler for CollectWarnings {
    fn handle(&self, _: &Operation, warning: &Warning) {
        self.0.lock().push(warning.clone());
    }
}

impl<H: WarningHandler> UniqueWarnings<H> {
    /// Creates a handler that passes warnings on to `handler`.
    #[must_use]
    pub fn new(handler: H) -> Self {
        Self { handler, told: Mutex::default() }
    }
}

impl<H: WarningHandler> WarningHandler for UniqueWarnings<H> {
    fn handle(&self, operation: &Operation, warning: &Warning) {
        let first = {
            let mut told = self.told.lock();
            if told.len() >= REMEMBERED {
                told.clear();
            }
            told.insert(warning.text.clone())
        };
        if first {
            self.handler.handle(operation, warning);
        }
    }
}

impl<W: Write + Send + 'static> WriteWarnings<W> {
    /// Creates a handler that writes to `out`, usually standard error.
    #[must_use]
    pub const fn new(out: W, color: Color) -> Self {
        Self { out: Mutex::new(out), color }
    }
}

impl<W: Write + Send + 'static> WarningHandler for WriteWarnings<W> {
    fn handle(&self, _: &Operation, warning: &Warning) {
        let mut out = self.out.lock();
        // If a warning cannot be written, neither can an error about it.
        let _ = match self.color {
            Color::No => writeln!(out, "Warning: {warning}"),
            Color::Yes => writeln!(out, "\x1b[33;1mWarning:\x1b[0m {warning}"),
        };
    }
}

impl<W> fmt::Debug for WriteWarnings<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteWarnings").field("color", &self.color).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn texts(values: &[&[u8]]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WARNING, HeaderValue::from_bytes(value).unwrap());
        }
        Warning::all(&headers).into_iter().map(|warning| warning.text).collect()
    }

    #[test]
    fn warnings_are_read_as_they_are_quoted() {
        for (value, expected) in [
            (r#"299 - "old version""#, &["old version"][..]),
            (r#"299 kubernetes "with \"quotes\" and \\""#, &[r#"with "quotes" and \"#]),
            (r#"299 - "dated" "Wed, 21 Oct 2015 07:28:00 GMT""#, &["dated"]),
            (r#"299 - "one", 299 - "two" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "three""#, &["one", "two", "three"]),
            (r#"199 - "not ours", 299 - "ours""#, &["ours"]),
            (r#"299 - "good", nonsense"#, &["good"]),
            (r#"299 - "Grüße""#, &["Grüße"]),
            (r#"299 - "=?utf-8?q?Gr=C3=BC=C3=9Fe=2C_=22alle=22?=""#, &[r#"Grüße, "alle""#]),
            (r#"299 - "=?utf-8?q?a=07b?=""#, &[]),
            (r#"299 - """#, &[]),
            (r#"299 - "open"#, &[]),
            (r#"299 - "and" more"#, &[]),
            (r#"29 - "short""#, &[]),
            (r#"299  "no agent""#, &[]),
            ("299", &[]),
            ("", &[]),
        ] {
            assert_eq!(texts(&[value.as_bytes()]), expected, "{value}");
        }
    }

    #[test]
    fn warning_headers_are_parsed_and_others_ignored() {
        let values: [&[u8]; 3] = [br#"299 - "a""#, b"299 - \"\xff\"", br#"299 - "b""#];
        assert_eq!(texts(&values), ["a", "b"]);
        assert_eq!(texts(&["299 - \"bell \u{85}\"".as_bytes()]), [""; 0]);
    }

    fn told(handler: &impl WarningHandler, texts: &[&str]) {
        for text in texts {
            let warning = Warning { agent: "-".to_owned(), text: (*text).to_owned() };
            handler.handle(&Operation::request("/x"), &warning);
        }
    }

    #[test]
    fn repeated_warning_is_reported_once() {
        let collected = CollectWarnings::default();
        told(&UniqueWarnings::new(collected.clone()), &["a", "b", "a"]);
        let texts: Vec<_> = collected.take().into_iter().map(|warning| warning.text).collect();
        assert_eq!(texts, ["a", "b"]);
        assert!(collected.take().is_empty());
    }

    #[test]
    fn lines_for_people_begin_with_the_word() {
        for (color, expected) in [
            (Color::No, "Warning: a\nWarning: b\n"),
            (Color::Yes, "\x1b[33;1mWarning:\x1b[0m a\n\x1b[33;1mWarning:\x1b[0m b\n"),
        ] {
            let handler = WriteWarnings::new(Vec::new(), color);
            told(&handler, &["a", "b"]);
            assert_eq!(String::from_utf8(handler.out.into_inner()).unwrap(), expected);
        }
    }
}
