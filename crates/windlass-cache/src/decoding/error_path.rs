//! The path of the field at which decoding failed, found by the position of the error.
//!
//! A decoder that tracks paths would be compiled for each type in addition to the usual one. The position is enough for
//! one function that serves all types. An error that a type reports itself has no position of its own, so the path may
//! end at the parent of the field.

use std::ops::Range;

use serde_json::Error;

/// The greatest length of a path. Decoders of serde_json do not read deeper.
const MAX_DEPTH: usize = 128;

/// Returns the path of the field at which `error` occurred, such as `spec.containers[0]`. `None` means the whole
/// document.
pub(super) fn of(json: &[u8], error: &Error) -> Option<String> {
    let mut scan = Scan { json, at: 0, containers: Vec::new() };
    scan.run_to(offset_of(json, error)?, error.to_string().starts_with("invalid type"));
    scan.path()
}

/// Returns the number of bytes before the error; `None` if the error has no position.
fn offset_of(json: &[u8], error: &Error) -> Option<usize> {
    let line_start = match error.line() {
        0 => return None,
        1 => 0,
        line => json.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(line - 2)?.0 + 1,
    };
    Some(line_start + error.column())
}

/// An array or object that the scan is in.
#[derive(Debug)]
enum Container {
    Array { index: usize },
    Object { key: Option<Range<usize>> },
}

/// Reads JSON that may be invalid. Does not recurse, because decoders skip unknown fields of any depth.
#[derive(Debug)]
struct Scan<'a> {
    json: &'a [u8],
    /// The position of the next byte.
    at: usize,
    /// Outermost first.
    containers: Vec<Container>,
}

// === impl Scan ===

impl Scan<'_> {
    /// Reads up to the value with the error at `offset`. The containers then lead to that value.
    ///
    /// An array or object of the wrong type has its error at its start. All other errors are behind a value.
    fn run_to(&mut self, offset: usize, is_type_error: bool) {
        while self.at <= offset {
            let Some(&byte) = self.json.get(self.at) else { return };
            let start = self.at;
            self.at += 1;
            let awaits_key = matches!(self.containers.last(), Some(Container::Object { key: None }));
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b':' => {}
                b',' => match self.containers.last_mut() {
                    Some(Container::Array { index }) => *index += 1,
                    Some(Container::Object { key }) => *key = None,
                    None => return,
                },
                b'}' | b']' => {
                    self.containers.pop();
                    if self.at >= offset {
                        return;
                    }
                }
                b'"' if awaits_key => {
                    self.skip_text();
                    if self.at >= offset {
                        self.containers.pop();
                        return;
                    }
                    if let Some(Container::Object { key }) = self.containers.last_mut() {
                        *key = Some(start..self.at);
                    }
                }
                _ if start == offset => {
                    if let Some(Container::Array { index }) = self.containers.last_mut()
                        && !is_type_error
                    {
                        *index = index.saturating_sub(1); // The decoder has read the comma behind the value.
                    }
                    return;
                }
                b'{' => self.containers.push(Container::Object { key: None }),
                b'[' => self.containers.push(Container::Array { index: 0 }),
                b'"' => {
                    self.skip_text();
                    if self.at >= offset {
                        return;
                    }
                }
                _ => {
                    let rest = &self.json[self.at..];
                    self.at += rest.iter().take_while(|byte| !b",]}: \t\r\n".contains(byte)).count();
                    if self.at >= offset {
                        return;
                    }
                }
            }
        }
    }

    /// Skips the rest of a string, up to its closing quote.
    fn skip_text(&mut self) {
        while let Some(byte) = self.json.get(self.at) {
            self.at += match byte {
                b'"' => break,
                b'\\' => 2,
                _ => 1,
            };
        }
        self.at = (self.at + 1).min(self.json.len());
    }

    /// Returns the path through the containers.
    fn path(&self) -> Option<String> {
        let mut path = String::new();
        for container in self.containers.iter().take(MAX_DEPTH) {
            match container {
                Container::Array { index } => path.push_str(&format!("[{index}]")),
                Container::Object { key: Some(key) } => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    let quoted = &self.json[key.clone()];
                    match serde_json::from_slice::<String>(quoted) {
                        Ok(name) => path.push_str(&name),
                        Err(_) => path.push_str(&String::from_utf8_lossy(quoted)),
                    }
                }
                Container::Object { key: None } => {}
            }
        }
        Some(path).filter(|path| !path.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::{
        api::core::v1::{Pod, Service},
        apimachinery::pkg::apis::meta::v1::Condition,
    };
    use serde::de::DeserializeOwned;

    use super::*;

    fn path<T: DeserializeOwned>(json: &str) -> Option<String> {
        of(json.as_bytes(), &serde_json::from_str::<T>(json).err().expect("decoding fails"))
    }

    #[test]
    fn path_of_a_wrong_type_leads_to_the_value() {
        assert_eq!(path::<Pod>("{\"spec\": {\n \"containers\": [{}, [],\n {}]}}").unwrap(), "spec.containers[1]");
        assert_eq!(path::<Vec<Vec<u8>>>("[[1], [2], {}]").unwrap(), "[2]");
        assert_eq!(path::<Vec<Vec<u8>>>("[[1], {}, [2]]").unwrap(), "[1]");
        assert_eq!(path::<Vec<Vec<u8>>>("[[1], [2, \"a\\\"b\"], [2]]").unwrap(), "[1][1]");
        let port = r#"{"a": [{"spec": {"ports": [{"port": 80}, {"port": "x"}]}}]}"#;
        assert_eq!(path::<BTreeMap<String, Vec<Service>>>(port).unwrap(), "a[0].spec.ports[1].port");
    }

    #[test]
    fn path_of_a_missing_field_leads_to_its_object() {
        let conditions = r#"[{"type": "A", "status": "True", "reason": "a", "message": ""}, {}]"#;
        assert_eq!(path::<Vec<Condition>>(conditions).unwrap(), "[0]");
        assert_eq!(path::<Condition>("{}"), None);
    }

    #[test]
    fn path_of_a_refused_text_leads_to_the_value() {
        let time = r#"{"metadata": {"creationTimestamp": "noon", "name": "a"}}"#;
        assert_eq!(path::<Pod>(time).unwrap(), "metadata.creationTimestamp");
    }

    #[test]
    fn path_of_a_refused_element_is_not_the_next_one() {
        #[derive(Debug)]
        struct Refused;
        impl<'de> serde::Deserialize<'de> for Refused {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(deserializer)?;
                Err(serde::de::Error::custom("no"))
            }
        }
        assert_eq!(path::<BTreeMap<String, Vec<Refused>>>(r#"{"a": [{}, {}]}"#).unwrap(), "a[0]");
        assert_eq!(path::<BTreeMap<String, Option<Refused>>>(r#"{"a\"": [], "b": 1}"#).unwrap(), "a\"");
        assert_eq!(path::<BTreeMap<String, Vec<Refused>>>(r#"{"a": [{}]}"#).unwrap(), "a");
    }

    #[test]
    fn path_of_invalid_json_leads_to_the_value() {
        assert_eq!(path::<Pod>(r#"{"spec": {"nodeName": "a" 7}}"#).unwrap(), "spec.nodeName");
        assert_eq!(path::<Pod>(r#"{"spec": {"nodeName": "a"#).unwrap(), "spec.nodeName");
        assert_eq!(path::<BTreeMap<u8, u8>>(r#"{"a": 1}"#), None);
        assert_eq!(path::<Pod>("}"), None);
    }

    #[test]
    fn scan_of_deep_unknown_fields_does_not_recurse() {
        let (open, close) = ("[".repeat(1 << 20), "]".repeat(1 << 20));
        let json = format!(r#"{{"unknown": {open}{close}, "spec": 7}}"#);
        assert_eq!(path::<Pod>(&json).unwrap(), "spec");
    }
}
