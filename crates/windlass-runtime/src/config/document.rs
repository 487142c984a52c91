//! Parsing and printing of [`ManagerConfiguration`].

use std::{fs, path::Path};

use serde_json::Value;

use super::{ConfigurationError, ManagerConfiguration, Place, position};

impl ManagerConfiguration {
    /// Returns this configuration with overrides from a YAML or JSON file. Returns an error if the file cannot be read
    /// or is invalid.
    pub fn with_file(self, path: impl AsRef<Path>) -> Result<Self, ConfigurationError> {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|source| ConfigurationError::Read { path: path.to_owned(), source })?;
        self.with_text(&text).map_err(|error| error.in_file(path))
    }

    /// Returns this configuration with overrides from a YAML or JSON text. Returns an error if the text is invalid.
    pub fn with_text(self, text: &str) -> Result<Self, ConfigurationError> {
        // The mask contains only the fields that the text sets; `said` also contains defaults.
        let mask = parse(text)?;
        let mut document = self.to_value();
        let mut said = mask.clone();
        drop_empty_sections(&mut said, &document);
        let said = decode(said, Some(text))?;
        overlay(&mut document, said.to_value(), &mask);
        let merged = decode(document, None)?;
        merged.validate()?;
        Ok(merged)
    }

    /// Returns the whole configuration as YAML, as it could be in a file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(&self.to_value()).expect("maps with string keys always encode")
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("maps with string keys always encode")
    }
}

/// Removes sections with a null value: they change nothing.
fn drop_empty_sections(said: &mut Value, all: &Value) {
    if let (Value::Object(said), Value::Object(all)) = (said, all) {
        said.retain(|field, value| !(value.is_null() && all.get(field).is_some_and(Value::is_object)));
        for (field, value) in said {
            drop_empty_sections(value, all.get(field).unwrap_or(&Value::Null));
        }
    }
}

/// Replaces the fields of `under` that are present in `mask` with those of `over`.
fn overlay(under: &mut Value, over: Value, mask: &Value) {
    match (under, over, mask) {
        (Value::Object(under), Value::Object(mut over), Value::Object(mask)) => {
            for (field, mask) in mask {
                match over.shift_remove(field) {
                    Some(over) => overlay(under.entry(field).or_insert(Value::Null), over, mask),
                    // A null value removes the field.
                    None => drop(under.shift_remove(field)),
                }
            }
        }
        // A section with a null value changes nothing.
        (Value::Object(_), Value::Object(_), Value::Null) => {}
        (under, over, _) => *under = over,
    }
}

/// Parses a YAML document. Errors have their position.
fn parse(text: &str) -> Result<Value, ConfigurationError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let line_and_column = error.location().map(|at| (at.line(), at.column()));
        let place = Place { line_and_column, ..Place::default() };
        ConfigurationError::Document { place, reason: reason(&error) }
    })
}

/// Decodes a document. Errors have the field, and its position in `text` if it is from a text.
fn decode(document: Value, text: Option<&str>) -> Result<ManagerConfiguration, ConfigurationError> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let line_and_column = text.and_then(|text| position::of(text, options(), error.path()));
        let mut field = error.path().to_string();
        if matches!(&*field, "." | "?") {
            field.clear();
        }
        let place = Place { file: None, line_and_column, field };
        ConfigurationError::Document { place, reason: error.into_inner().to_string() }
    })
}

fn options() -> serde_saphyr::Options {
    // In YAML 1.2, `yes` is a string. Snippets of the file are for its author and do not belong in the log.
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

/// Returns the error message without the position.
fn reason(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key {key}"),
        serde_saphyr::Error::MultipleDocuments { .. } => "more than one YAML document".to_owned(),
        error => {
            let text = error.to_string();
            let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            place.and_then(|place| text.strip_suffix(&*place).map(str::to_owned)).unwrap_or(text)
        }
    }
}
