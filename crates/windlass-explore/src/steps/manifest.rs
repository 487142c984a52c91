//! The documents of a manifest, with their lines.

use std::fmt;

use serde_json::Value;
use windlass_api::GroupVersionKind;

/// A document that names an object.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The line in its file, starting at 1.
    pub(super) line: usize,
    pub(super) kind: GroupVersionKind,
    /// `None` for the default namespace, or for an object without a namespace.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) content: Value,
}

/// Reads the documents of a manifest. The items of lists are documents; empty documents are skipped.
pub(super) fn read(text: &str) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for (line, part) in parts(text) {
        for value in parse(line, part)? {
            collect(line, value, &mut documents)?;
        }
    }
    Ok(documents)
}

/// Splits a manifest at its document markers. Returns the parts with their first lines.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        // A marker at the start of a line is one even within a block of text.
        if line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            parts.push((first, &text[start..offset]));
            (start, first) = (offset, index + 1);
        }
        offset += line.len();
    }
    parts.push((first, &text[start..]));
    parts
}

/// Parses a part of a manifest. It is usually one document: `...` may end a document, too.
fn parse(line: usize, part: &str) -> Result<Vec<Value>, String> {
    // Empty lines make the lines in errors those of the file.
    let part = format!("{}{part}", "\n".repeat(line - 1));
    let options = serde_saphyr::options! { strict_booleans: true };
    let values: Vec<Value> = serde_saphyr::from_multiple_with_options(&part, options)
        // Further lines quote the file.
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Ok(values.into_iter().filter(|value| !value.is_null()).collect())
}

/// Adds an object, or the items of a list.
fn collect(line: usize, mut content: Value, documents: &mut Vec<Document>) -> Result<(), String> {
    let text = |path: &str| content.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let missing = |field: &str| format!("line {line}: the document has no {field}");
    let api_version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
    let kind = text("/kind").ok_or_else(|| missing("kind"))?;
    let version: windlass_api::GroupVersion = api_version.parse().map_err(|error| format!("line {line}: {error}"))?;
    if kind.ends_with("List") && content["items"].is_array() {
        let Value::Array(items) = content["items"].take() else { return Ok(()) };
        return items.into_iter().try_for_each(|item| collect(line, item, documents));
    }
    let kind = version.with_kind(kind.to_owned());
    let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?.to_owned();
    let namespace = text("/metadata/namespace").map(str::to_owned);
    documents.push(Document { line, kind, namespace, name, content });
    Ok(())
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        match namespace {
            Some(namespace) => write!(f, "{} {namespace}/{name}", kind.kind),
            None => write!(f, "{} {name}", kind.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<String>, String> {
        let line = |document: &Document| format!("{} {document}", document.line);
        Ok(read(text)?.iter().map(line).collect())
    }

    #[test]
    fn documents_have_their_lines() {
        let text = "# first\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # second\n\napiVersion: apps/v1\n\
                    kind: Deployment\nmetadata: {name: b, namespace: n}\n---\n---\n";
        assert_eq!(lines(text).unwrap(), ["1 Pod a", "5 Deployment n/b"]);
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: c}\n";
        assert_eq!(lines(text).unwrap(), ["1 Pod c"]);
        assert_eq!(lines(r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"}}"#).unwrap(), ["1 Pod j"]);
        assert_eq!(lines("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---x: 1\n").unwrap(), ["1 Pod a"]);
    }

    #[test]
    fn errors_name_the_line() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n";
        let error = |more: &str| lines(&format!("{text}{more}")).unwrap_err();
        assert_eq!(error("kind: Pod"), "line 4: the document has no apiVersion");
        assert_eq!(error("apiVersion: v1"), "line 4: the document has no kind");
        assert_eq!(error("apiVersion: v1\nkind: Pod"), "line 4: the document has no metadata.name");
        let wrong = error("apiVersion: v1\nkind: Pod\na: [1\nb: 2\n");
        assert!(wrong.contains("line 8") || wrong.contains("line 7"), "{wrong}");
    }
}
