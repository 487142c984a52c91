//! The structs of k8s-openapi, read from its sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{Result, clientset::minors::Minors};

/// The types of all minor versions, by their path.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) minors: Vec<u32>,
    pub(super) types: BTreeMap<String, Source>,
}

/// A type.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The minor versions with the type.
    pub(super) minors: BTreeSet<u32>,
    /// API version and kind.
    pub(super) kind: Option<(String, String)>,
    /// The type has a default in all minor versions.
    pub(super) has_default: bool,
    /// The type wraps a JSON value.
    pub(super) is_json: bool,
    /// The fields by their name in JSON.
    pub(super) fields: BTreeMap<String, Member>,
}

/// A field.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) ident: String,
    /// The type in each minor version with the field.
    pub(super) types: BTreeMap<u32, Type>,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) is_option: bool,
    pub(super) shape: Shape,
    /// The path of the type in the list or map, or of the only value.
    pub(super) item: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

impl Sources {
    /// Reads the sources of all minor versions.
    pub(super) fn read(minors: &Minors) -> Result<Self> {
        let mut sources = Self::default();
        // Other versions of k8s-openapi are those of kube-rs.
        let newest = minors.folders().last().and_then(|(_, folder)| folder.parent());
        for (minor, folder) in minors.folders().filter(|(_, folder)| folder.parent() == newest) {
            sources.minors.push(minor);
            let mut open = vec![folder.to_path_buf()];
            while let Some(current) = open.pop() {
                let mut entries: Vec<PathBuf> =
                    fs::read_dir(&current)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
                entries.sort();
                for path in entries {
                    if path.is_dir() {
                        open.push(path);
                    } else if path.extension().is_some_and(|extension| extension == "rs") {
                        let module = module(folder, &current)?;
                        sources.add(minor, &module, &fs::read_to_string(&path)?);
                    }
                }
            }
        }
        Ok(sources)
    }

    /// Adds the type of a file.
    pub(super) fn add(&mut self, minor: u32, module: &str, text: &str) {
        let Some((before, after)) = text.split_once("\npub struct ") else { return };
        let name: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
        let rest = &after[name.len()..];
        let source = self.types.entry(format!("{module}::{name}")).or_default();
        let is_first = source.minors.is_empty();
        source.minors.insert(minor);
        source.has_default = before.contains("Default") && (is_first || source.has_default);
        source.is_json = rest.starts_with("(pub crate::serde_json::Value)");
        let constant = |name: &str| {
            let (_, value) = text.split_once(&format!("const {name}: &'static str = \""))?;
            value.split_once('"').map(|(value, _)| value.to_owned())
        };
        source.kind = constant("API_VERSION").zip(constant("KIND"));
        let Some((body, _)) = rest.strip_prefix(" {\n").and_then(|rest| rest.split_once("\n}")) else { return };
        let keys: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix(',')?.split_once("\" => Field::Key_"))
            .map(|(key, ident)| (ident, key))
            .collect();
        for line in body.lines() {
            let field = line.trim().strip_prefix("pub ").and_then(|line| line.strip_suffix(',')?.split_once(": "));
            let Some((ident, ty)) = field else { continue };
            let Some(key) = keys.get(ident) else { continue };
            let member = source.fields.entry((*key).to_owned());
            let member = member.or_insert_with(|| Member { ident: ident.to_owned(), types: BTreeMap::new() });
            member.types.insert(minor, Type::parse(ty));
        }
    }
}

/// Returns the path of a folder's module.
fn module(root: &Path, folder: &Path) -> Result<String> {
    let parts: Vec<&str> = folder.strip_prefix(root)?.iter().filter_map(|part| part.to_str()).collect();
    Ok(parts.join("::"))
}

impl Type {
    fn parse(text: &str) -> Self {
        fn inner<'t>(text: &'t str, outer: &str) -> Option<&'t str> {
            text.strip_prefix(outer)?.strip_suffix('>')
        }
        let content = inner(text, "Option<");
        let text = content.unwrap_or(text);
        let (shape, item) = if let Some(item) = inner(text, "std::vec::Vec<") {
            (Shape::List, item)
        } else if let Some(item) = inner(text, "std::collections::BTreeMap<std::string::String, ") {
            (Shape::Map, item)
        } else {
            (Shape::One, inner(text, "std::boxed::Box<").unwrap_or(text))
        };
        let item = item.strip_prefix("crate::").unwrap_or(item).to_owned();
        Self { is_option: content.is_some(), shape, item }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_fields_are_parsed() {
        let parsed = |text: &str| {
            let Type { is_option, shape, item } = Type::parse(text);
            (is_option, shape, item)
        };
        assert_eq!(parsed("std::string::String"), (false, Shape::One, "std::string::String".to_owned()));
        let list = parsed("Option<std::vec::Vec<crate::api::core::v1::Container>>");
        assert_eq!(list, (true, Shape::List, "api::core::v1::Container".to_owned()));
        let map = parsed("std::collections::BTreeMap<std::string::String, std::vec::Vec<std::string::String>>");
        assert_eq!(map, (false, Shape::Map, "std::vec::Vec<std::string::String>".to_owned()));
        let boxed = parsed("Option<std::boxed::Box<crate::a::B>>");
        assert_eq!(boxed, (true, Shape::One, "a::B".to_owned()));
    }

    #[test]
    fn pod_is_read_from_the_sources() {
        let sources = Sources::read(&Minors::of_workspace().unwrap()).unwrap();
        let pod = &sources.types["api::core::v1::Pod"];
        assert_eq!(pod.kind, Some(("v1".to_owned(), "Pod".to_owned())));
        assert!(pod.has_default && !pod.is_json && pod.minors.iter().eq(&sources.minors));
        assert_eq!(pod.fields["spec"].types[&36].item, "api::core::v1::PodSpec");
        let spec = &sources.types["api::core::v1::PodSpec"];
        assert_eq!(spec.fields["hostIPC"].ident, "host_ipc");
        assert!(!sources.types["apimachinery::pkg::apis::meta::v1::Condition"].has_default);
        assert!(!sources.types["api::authentication::v1::TokenRequestStatus"].has_default, "not before 1.36");
        assert!(sources.types["apimachinery::pkg::runtime::RawExtension"].is_json);
    }
}
