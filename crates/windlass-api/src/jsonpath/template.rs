//! JSONPath templates: `{range .items[*]}{.metadata.name}{"\n"}{end}`.

use std::fmt::Write as _;

use serde_json::Value;

use super::{JsonPath, JsonPathError, Missing};

/// A text with expressions in braces, as in kubectl's `-o jsonpath=`.
///
/// Braces contain a path, a quoted text, or `range` with a path, and later `end`. The part between `range` and `end` is
/// repeated for each value of the path, and paths in it are relative to the value. As in kubectl, a `$` in a range does
/// not refer to the root.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPathTemplate(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Path(JsonPath),
    Range(JsonPath, Vec<Self>),
}

/// The content of a pair of braces.
enum Action {
    Piece(Piece),
    Range(JsonPath),
    End,
}

impl JsonPathTemplate {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        // The pieces of the template and, with its path, of each open range.
        let mut open: Vec<(JsonPath, Vec<Piece>)> = Vec::new();
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let end = closing_brace(after).ok_or_else(|| JsonPathError(format!("unclosed action in {text:?}")))?;
            match action(&after[..end])? {
                Action::Piece(piece) => pieces.push(piece),
                Action::Range(path) => open.push((path, std::mem::take(&mut pieces))),
                Action::End => {
                    let (path, outer) =
                        open.pop().ok_or_else(|| JsonPathError(format!("end without range in {text:?}")))?;
                    let inner = std::mem::replace(&mut pieces, outer);
                    pieces.push(Piece::Range(path, inner));
                }
            }
            rest = &after[end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if !open.is_empty() {
            return Err(JsonPathError(format!("range without end in {text:?}")));
        }
        Ok(Self(pieces))
    }

    /// Renders the template for a value. Several values of one path are separated by spaces. Missing fields render as
    /// nothing.
    #[must_use]
    pub fn render(&self, value: &Value) -> String {
        let mut text = String::new();
        // Missing fields are allowed, so this cannot fail.
        let _ = render(&self.0, value, Missing::Allowed, &mut text);
        text
    }

    /// Renders the template for a value. Returns an error if a path has no value: see [`JsonPath::find_strictly`].
    pub fn render_strictly(&self, value: &Value) -> Result<String, JsonPathError> {
        let mut text = String::new();
        render(&self.0, value, Missing::Refused, &mut text)?;
        Ok(text)
    }
}

fn render(pieces: &[Piece], value: &Value, missing: Missing, text: &mut String) -> Result<(), JsonPathError> {
    for piece in pieces {
        match piece {
            Piece::Text(literal) => text.push_str(literal),
            Piece::Path(path) => {
                for (index, found) in path.follow(value, missing)?.into_iter().enumerate() {
                    if index > 0 {
                        text.push(' ');
                    }
                    push(found, text);
                }
            }
            Piece::Range(path, inner) => {
                for found in path.follow(value, missing)? {
                    render(inner, found, missing, text)?;
                }
            }
        }
    }
    Ok(())
}

/// Renders strings as they are, and everything else as JSON with ordered fields.
fn push(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => text.push_str(string),
        Value::Object(_) | Value::Array(_) => {
            let mut sorted = value.clone();
            sorted.sort_all_objects();
            write!(text, "{sorted}").expect("writing to a String never fails");
        }
        other => write!(text, "{other}").expect("writing to a String never fails"),
    }
}

/// Returns the position of the closing brace, skipping quoted text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (_, '\\') => drop(characters.next()),
            (None, '}') => return Some(at),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if character == open => quote = None,
            _ => {}
        }
    }
    None
}

fn action(text: &str) -> Result<Action, JsonPathError> {
    let text = text.trim();
    if text == "end" {
        return Ok(Action::End);
    }
    if let Some(path) = text.strip_prefix("range").filter(|rest| rest.starts_with([' ', '.', '[', '@', '$'])) {
        return Ok(Action::Range(JsonPath::parse(path)?));
    }
    if text.starts_with(['\'', '"']) {
        return Ok(Action::Piece(Piece::Text(unquote(text)?)));
    }
    Ok(Action::Piece(Piece::Path(JsonPath::parse(text)?)))
}

fn unquote(text: &str) -> Result<String, JsonPathError> {
    let unterminated = || JsonPathError(format!("unterminated text {text}"));
    let quote = text.chars().next().ok_or_else(unterminated)?;
    let inner = text[1..].strip_suffix(quote).ok_or_else(unterminated)?;
    let mut literal = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        literal.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => return Err(unterminated()),
            },
            other => other,
        });
    }
    Ok(literal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_print_the_output_of_kubectl() {
        let value = json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"z": "1", "b": "2"}}, "n": 1, "ports": [80, 81], "ok": true},
            {"metadata": {"name": "b"}, "n": 2.5, "ports": [], "none": null}]});
        for (template, expected) in [
            ("{.kind}", "List"),
            ("{.items[*].metadata.name}", "a b"),
            ("names: {.items[*]['metadata.name','n']}.", "names: 1 2.5."),
            (r#"{range .items[*]}{.metadata.name}{"\t"}{.n}{"\n"}{end}"#, "a\t1\nb\t2.5\n"),
            ("{range .items[*]}[{range .ports[*]}<{@}>{end}]{end}!", "[<80><81>][]!"),
            ("{.items[0].metadata.labels}", r#"{"b":"2","z":"1"}"#),
            ("{.items[0].ok} {.items[1].none}", "true null"),
            ("{.nothing.there}", ""),
            ("{range .nothing[*]}x{end}y", "y"),
            ("{'}'}{\"{\"}", "}{"),
            (r#"{.items[?(@.metadata.name=="b")].n}"#, "2.5"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(JsonPathTemplate::parse(template).unwrap().render(&value), expected, "{template}");
        }
    }

    #[test]
    fn strict_template_rejects_missing_paths() {
        let value = json!({"items": [{"name": "a"}, {}]});
        let strictly = |text: &str| JsonPathTemplate::parse(text).unwrap().render_strictly(&value);
        assert_eq!(strictly("{.items[*].name}").unwrap(), "a");
        assert_eq!(strictly("{range .items[*]}{.name}{end}").unwrap_err().to_string(), "name is not found");
        assert_eq!(strictly("{range .nothing[*]}x{end}").unwrap_err().to_string(), "nothing is not found");
    }

    #[test]
    fn invalid_templates_are_rejected() {
        for template in ["{.a", "{range .a}{.b}", "{end}", r#"{"a}"#, "{.a[}", "{a b}"] {
            assert!(JsonPathTemplate::parse(template).is_err(), "{template}");
        }
    }
}
