//! Files written by `windlass generate`: several YAML documents below a header line.

use serde::Serialize;
use serde_json::Value;

/// The first line of these files.
const HEADER: &str = "# Written by `windlass generate`; do not edit.\n";

/// The documents of a file, as values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(pub(crate) Vec<Value>);

impl Documents {
    /// Parses a file's text; a missing file has no documents. Returns `None` if the file is hand-written.
    pub(crate) fn of(text: Option<&str>) -> Option<Self> {
        let Some(text) = text else { return Some(Self::default()) };
        let documents = text.strip_prefix(HEADER)?.split("---\n").filter(|document| !document.trim().is_empty());
        documents.map(|document| serde_saphyr::from_str(document).ok()).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Returns the documents as text.
    pub(crate) fn text(&self) -> String {
        let document = |value: &Value| serde_saphyr::to_string(value).unwrap_or_default();
        let documents = self.0.iter().map(|value| format!("---\n{}\n", document(value).trim_end()));
        documents.fold(HEADER.to_owned(), |text, document| text + &document)
    }

    /// Returns the document of a kind.
    pub(crate) fn of_kind(&mut self, kind: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|document| document["kind"] == kind)
    }
}

/// Converts a serializable value; never fails for the values used here.
pub(crate) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
