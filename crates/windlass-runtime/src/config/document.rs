//! Parsing and printing of [`ManagerConfiguration`].

use std::{fs, path::Path};

use serde_json::Value;

use super::{ConfigurationError, ManagerConfiguration, Place};

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
        let said = parse::<Self>(text)?;
        // The mask contains only the fields that the text sets; `said` also contains defaults.
        let mask = parse::<Value>(text)?;
        let mut document = self.to_value();
        overlay(&mut document, said.to_value(), &mask);
        let merged: Self = serde_json::from_value(document)
            .map_err(|error| ConfigurationError::Document { place: Place::default(), reason: error.to_string() })?;
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

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ConfigurationError> {
    let mut field = String::new();
    // In YAML 1.2, `yes` is a string. Snippets of the file are for its author and do not belong in the log.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    parsed.map_err(|error| {
        if matches!(&*field, "." | "?") {
            field.clear();
        }
        let line_and_column = error.location().map(|at| (at.line(), at.column()));
        ConfigurationError::Document { place: Place { file: None, line_and_column, field }, reason: reason(&error) }
    })
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
