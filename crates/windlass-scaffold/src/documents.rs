//! Files that `windlass generate` writes: several documents of YAML under a line that says so.

use serde::Serialize;
use serde_json::Value;

/// How such a file begins.
const HEADER: &str = "# Written by `windlass generate`; do not edit.\n";

/// The documents of a file, as values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(pub(crate) Vec<Value>);

impl Documents {
    /// Those of a text; none of what is not there yet. Nothing, where somebody else has written it.
    pub(crate) fn of(text: Option<&str>) -> Option<Self> {
        let Some(text) = text else { return Some(Self::default()) };
        let documents = text.strip_prefix(HEADER)?.split("---\n").filter(|document| !document.trim().is_empty());
        documents.map(|document| serde_saphyr::from_str(document).ok()).collect::<Option<Vec<_>>>().map(Self)
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let document = |value: &Value| serde_saphyr::to_string(value).unwrap_or_default();
        let documents = self.0.iter().map(|value| format!("---\n{}\n", document(value).trim_end()));
        documents.fold(HEADER.to_owned(), |text, document| text + &document)
    }

    /// The document of a kind.
    pub(crate) fn of_kind(&mut self, kind: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|document| document["kind"] == kind)
    }
}

/// What is serialized, as a value; never fails for what is written here.
pub(crate) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
