//! The type table: the Go types as seen by reflection, parsed on demand.
//!
//! Each Kubernetes version has a table. The text of the default one is in windlass-api, where clients use it too.
//! `tools/fields` writes it, and its comment describes the format. A table is indexed once, by kinds and by the names of
//! structs. A struct's fields are parsed when the struct is first decoded, and then cached.

use std::{collections::HashMap, sync::OnceLock};

use crate::kubernetes::{KubernetesVersion, removed};

/// The kinds of removed versions that differ from those of their successors, and their structs, in the same format.
const REMOVED_TYPES: &str = include_str!("types/removed.tsv");

/// A Go type, as its encodings see it.
#[derive(Debug)]
pub(crate) struct Type {
    /// Go's name of a named type (`v1.PullPolicy`); empty for predeclared and composed types.
    name: &'static str,
    /// `true` if protobuf wraps this slice into a message with the items in field 1.
    pub(super) wrapped: bool,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    String,
    Bool,
    Int32,
    Int64,
    Uint8,
    Float64,
    Bytes,
    Pointer(Box<Type>),
    Slice(Box<Type>),
    Map { key: &'static str, value: Box<Type> },
    Struct(StructRef),
    Special(Special),
}

/// The types with a custom encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    FieldsV1,
    RawExtension,
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStringArray,
}

/// A struct of the table; its fields are parsed on first use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StructRef(&'static StructEntry);

#[derive(Debug)]
struct StructEntry {
    /// The version of the table, in which the types of the fields are looked up.
    kubernetes: KubernetesVersion,
    id: &'static str,
    body: &'static str,
    parsed: OnceLock<Struct>,
}

/// A struct with the fields of its embedded structs inlined, as Go's JSON and protobuf codecs see it.
#[derive(Debug)]
pub(crate) struct Struct {
    /// The Go name without its package, as used in error messages.
    pub(super) name: &'static str,
    /// The fields in Go's order, which is the order of the encoding.
    pub(super) fields: Vec<Field>,
    /// The protobuf fields, in the order of their numbers.
    pub(super) messages: Vec<MessageField>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The Go names of the embedded structs that contain this field, outermost first.
    pub(super) embedded: Vec<&'static str>,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    pub(crate) ty: Type,
    /// The strategy as written in the tag, for example `merge,retainKeys`.
    pub(crate) patch_strategy: &'static str,
    pub(crate) patch_merge_key: &'static str,
}

/// A field of the protobuf message.
#[derive(Debug)]
pub(super) struct MessageField {
    pub(super) number: u32,
    pub(super) target: MessageTarget,
}

#[derive(Debug)]
pub(super) enum MessageTarget {
    /// An index into `Struct::fields`.
    Field(usize),
    /// An embedded struct, which is a separate message; its fields start at index `first`.
    Embedded { first: usize, inner: StructRef },
}

/// The group, version and name of a kind.
type KindKey = (&'static str, &'static str, &'static str);

struct Table {
    kinds: HashMap<KindKey, StructRef>,
    /// The kinds of removed versions that have structs of their own.
    removed: HashMap<KindKey, StructRef>,
    /// Registered kinds that are not served: (group, version) to a comma-separated list.
    unserved: HashMap<(&'static str, &'static str), &'static str>,
    structs: HashMap<&'static str, &'static StructEntry>,
}

fn table(kubernetes: KubernetesVersion) -> &'static Table {
    static PARSED: [OnceLock<Table>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    PARSED[kubernetes.index()].get_or_init(|| {
        let mut unserved = HashMap::new();
        let mut structs = HashMap::with_capacity(640);
        let kinds = read(kubernetes, &kubernetes.tables().types, &mut unserved, &mut structs);
        let removed = read(kubernetes, REMOVED_TYPES, &mut unserved, &mut structs);
        let resolve = |kinds: Vec<(KindKey, &'static str)>| {
            kinds.into_iter().map(|(kind, id)| (kind, StructRef(structs[id]))).collect()
        };
        Table { kinds: resolve(kinds), removed: resolve(removed), unserved, structs }
    })
}

/// Reads a text of the format: adds the unserved kinds and the structs, and returns the kinds with the names of their
/// structs.
fn read(
    kubernetes: KubernetesVersion,
    text: &'static str,
    unserved: &mut HashMap<(&'static str, &'static str), &'static str>,
    structs: &mut HashMap<&'static str, &'static StructEntry>,
) -> Vec<(KindKey, &'static str)> {
    let mut kinds = Vec::new();
    let (head, mut rest) = text.split_at(text.find("\nS\t").map_or(text.len(), |at| at + 1));
    for line in head.lines() {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        match (next(), next(), next(), next()) {
            ("K", group, version, kind) => kinds.push(((group, version, kind), next())),
            (_, group, version, list) => drop(unserved.insert((group, version), list)),
        }
    }
    while let Some(text) = rest.strip_prefix("S\t") {
        let (block, after) = text.split_at(text.find("\nS\t").map_or(text.len(), |at| at + 1));
        let (id, body) = block.split_once('\n').unwrap_or((block, ""));
        let entry: &'static StructEntry =
            Box::leak(Box::new(StructEntry { kubernetes, id, body, parsed: OnceLock::new() }));
        structs.insert(id, entry);
        rest = after;
    }
    kinds
}

/// Returns the struct that a served kind decodes into.
pub(super) fn kind(kubernetes: KubernetesVersion, group: &str, version: &str, kind: &str) -> Option<StructRef> {
    table(kubernetes).kinds.get(&(group, version, kind)).copied()
}

/// Returns the struct that a kind of a removed version decodes into.
pub(super) fn removed_kind(kubernetes: KubernetesVersion, group: &str, version: &str, kind: &str) -> Option<StructRef> {
    let removed = removed::of_kind(group, version, kind)?;
    let own = table(kubernetes).removed.get(&(group, version, kind)).copied();
    own.or_else(|| self::kind(kubernetes, group, removed.successor, kind))
}

/// Reports whether Kubernetes' scheme contains the kind, served or not. The two kinds of `meta/v1` in every group count
/// too.
pub(super) fn is_registered(kubernetes: KubernetesVersion, group: &str, version: &str, kind: &str) -> bool {
    self::kind(kubernetes, group, version, kind).is_some()
        || table(kubernetes)
            .unserved
            .get(&(group, version))
            .is_some_and(|kinds| kinds.split(',').any(|known| known == kind))
}

/// Returns a struct by its id in the table of the default version. For structs that are equal in all versions.
pub(super) fn named(id: &'static str) -> StructRef {
    StructRef(table(KubernetesVersion::default()).structs[id])
}

/// Returns all kinds, for tests of the whole table.
#[cfg(test)]
pub(super) fn all_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    table(KubernetesVersion::default()).kinds.keys().copied()
}

/// Returns the structs that documents of some kind may contain, without structs that are only embedded.
#[cfg(test)]
pub(super) fn all_structs() -> Vec<&'static Struct> {
    let mut ids = std::collections::BTreeMap::new();
    let mut ahead: Vec<StructRef> =
        table(KubernetesVersion::default()).kinds.values().copied().chain([json_schema()]).collect();
    while let Some(next) = ahead.pop() {
        if ids.insert(next.0.id, next).is_none() {
            ahead.extend(next.get().fields.iter().filter_map(|field| field.ty.innermost()));
        }
    }
    ids.into_values().map(StructRef::get).collect()
}

impl StructRef {
    pub(crate) fn get(self) -> &'static Struct {
        self.0.parsed.get_or_init(|| Struct::parse(self.0))
    }

    fn name(self) -> &'static str {
        self.0.id.rsplit_once('.').map_or(self.0.id, |(_, name)| name)
    }

    /// Returns the Go name, such as `v1.PodSpec`: the last element of the path and the name.
    pub(super) fn go_name(self) -> &'static str {
        self.0.id.rsplit_once('/').map_or(self.0.id, |(_, name)| name)
    }
}

impl Struct {
    fn parse(entry: &'static StructEntry) -> Self {
        let (mut fields, mut messages) = (Vec::new(), Vec::new());
        for line in entry.body.lines() {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            let (name, flags, number) = (next(), next(), next());
            let ty = Type::parse(entry.kubernetes, &mut next());
            let number = number.trim_end_matches('p').parse().unwrap_or(0);
            if let (true, Kind::Struct(inner)) = (flags.contains('i'), &ty.kind) {
                if number != 0 {
                    let target = MessageTarget::Embedded { first: fields.len(), inner: *inner };
                    messages.push(MessageField { number, target });
                }
                fields.extend(inner.get().fields.iter().map(|field| field.embed(name)));
                continue;
            }
            if number != 0 {
                messages.push(MessageField { number, target: MessageTarget::Field(fields.len()) });
            }
            fields.push(Field {
                name,
                embedded: Vec::new(),
                omit_empty: flags.contains('o'),
                omit_zero: flags.contains('z'),
                ty,
                patch_strategy: next(),
                patch_merge_key: next(),
            });
        }
        messages.sort_unstable_by_key(|message: &MessageField| message.number);
        Self { name: StructRef(entry).name(), fields, messages }
    }

    /// Returns the index of the field with this JSON name. Keys mostly come in order, so the search starts at `after`.
    pub(super) fn position(&self, name: &str, after: usize) -> Option<usize> {
        let (before, behind) = self.fields.split_at(after.min(self.fields.len()));
        behind
            .iter()
            .position(|field| field.name == name)
            .map(|at| at + before.len())
            .or_else(|| before.iter().position(|field| field.name == name))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the Go name without its package.
    pub(crate) fn go_name(&self) -> &'static str {
        self.name
    }
}

impl Field {
    /// Returns this field as a field of a struct that embeds its owner as `outer`.
    fn embed(&self, outer: &'static str) -> Self {
        let mut embedded = vec![outer];
        embedded.extend_from_slice(&self.embedded);
        Self { name: self.name, embedded, ty: self.ty.copy(), ..*self }
    }
}

impl Type {
    /// Parses one type at the beginning of the text.
    fn parse(kubernetes: KubernetesVersion, text: &mut &'static str) -> Self {
        let wrapped = take(text, '%');
        let name = if take(text, '<') { until(text, '>') } else { "" };
        let mut characters = text.chars();
        let first = characters.next().unwrap_or_default();
        *text = characters.as_str();
        let kind = match first {
            'b' => Kind::Bool,
            'i' => Kind::Int32,
            'l' => Kind::Int64,
            'u' => Kind::Uint8,
            'f' => Kind::Float64,
            'y' => Kind::Bytes,
            '*' => Kind::Pointer(Box::new(Self::parse(kubernetes, text))),
            '[' => Kind::Slice(Box::new(Self::parse(kubernetes, text))),
            '{' => {
                take(text, '<');
                let key = until(text, '>');
                Kind::Map { key, value: Box::new(Self::parse(kubernetes, text)) }
            }
            '@' => Kind::Struct(StructRef(table(kubernetes).structs[std::mem::take(text)])),
            '!' => Kind::Special(Special::parse(std::mem::take(text))),
            // 's'; the tool writes no other letters.
            _ => Kind::String,
        };
        Self { name, wrapped, kind }
    }

    /// Returns the type as Go prints it in an error.
    pub(super) fn go_name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.to_owned();
        }
        match &self.kind {
            Kind::String => "string".into(),
            Kind::Bool => "bool".into(),
            Kind::Int32 => "int32".into(),
            Kind::Int64 => "int64".into(),
            Kind::Uint8 => "uint8".into(),
            Kind::Float64 => "float64".into(),
            Kind::Bytes => "[]uint8".into(),
            Kind::Pointer(inner) => format!("*{}", inner.go_name()),
            Kind::Slice(inner) => format!("[]{}", inner.go_name()),
            Kind::Map { key, value } => {
                format!("map[{}]{}", if key.is_empty() { "string" } else { key }, value.go_name())
            }
            Kind::Struct(inner) => inner.go_name().into(),
            Kind::Special(special) => special.go_name().into(),
        }
    }

    fn copy(&self) -> Self {
        let kind = match &self.kind {
            Kind::String => Kind::String,
            Kind::Bool => Kind::Bool,
            Kind::Int32 => Kind::Int32,
            Kind::Int64 => Kind::Int64,
            Kind::Uint8 => Kind::Uint8,
            Kind::Float64 => Kind::Float64,
            Kind::Bytes => Kind::Bytes,
            Kind::Pointer(inner) => Kind::Pointer(Box::new(inner.copy())),
            Kind::Slice(inner) => Kind::Slice(Box::new(inner.copy())),
            Kind::Map { key, value } => Kind::Map { key, value: Box::new(value.copy()) },
            Kind::Struct(inner) => Kind::Struct(*inner),
            Kind::Special(special) => Kind::Special(*special),
        };
        Self { kind, ..*self }
    }

    /// Returns the element type behind one level of pointers and slices: the type that a patch of this field descends
    /// into.
    pub(crate) fn element(&self) -> Option<&Self> {
        match &self.kind {
            Kind::Pointer(inner) => match &inner.kind {
                Kind::Slice(element) => Some(element),
                _ => Some(inner),
            },
            Kind::Slice(element) => Some(element),
            _ => None,
        }
    }

    /// Returns the struct behind all pointers, slices and maps.
    #[cfg(test)]
    fn innermost(&self) -> Option<StructRef> {
        match &self.kind {
            Kind::Pointer(inner) | Kind::Slice(inner) | Kind::Map { value: inner, .. } => inner.innermost(),
            Kind::Struct(inner) => Some(*inner),
            _ => None,
        }
    }

    /// Returns the struct behind at most one pointer.
    pub(crate) fn as_struct(&self) -> Option<&'static Struct> {
        match &self.kind {
            Kind::Struct(inner) => Some(inner.get()),
            Kind::Pointer(inner) => match &inner.kind {
                Kind::Struct(inner) => Some(inner.get()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns Go's name of the type's kind (`struct`, `map`, `string`), behind one pointer.
    pub(crate) fn go_kind(&self) -> &'static str {
        match &self.kind {
            Kind::String => "string",
            Kind::Bool => "bool",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint8 => "uint8",
            Kind::Float64 => "float64",
            Kind::Bytes | Kind::Slice(_) => "slice",
            Kind::Pointer(inner) => inner.go_kind(),
            Kind::Map { .. } => "map",
            Kind::Struct(_) | Kind::Special(_) => "struct",
        }
    }
}

impl Special {
    fn parse(name: &str) -> Self {
        match name {
            "Quantity" => Self::Quantity,
            "IntOrString" => Self::IntOrString,
            "Time" => Self::Time,
            "MicroTime" => Self::MicroTime,
            "Duration" => Self::Duration,
            "FieldsV1" => Self::FieldsV1,
            "JSON" => Self::Json,
            "SchemaOrBool" => Self::SchemaOrBool,
            "SchemaOrArray" => Self::SchemaOrArray,
            "SchemaOrStringArray" => Self::SchemaOrStringArray,
            _ => Self::RawExtension,
        }
    }

    fn go_name(self) -> &'static str {
        match self {
            Self::Quantity => "resource.Quantity",
            Self::IntOrString => "intstr.IntOrString",
            Self::Time => "v1.Time",
            Self::MicroTime => "v1.MicroTime",
            Self::Duration => "v1.Duration",
            Self::FieldsV1 => "v1.FieldsV1",
            Self::RawExtension => "runtime.RawExtension",
            Self::Json => "v1.JSON",
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
            Self::SchemaOrArray => "v1.JSONSchemaPropsOrArray",
            Self::SchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray",
        }
    }
}

/// Returns the struct that the three schema unions contain.
pub(super) fn json_schema() -> StructRef {
    named("apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps")
}

fn take(text: &mut &'static str, prefix: char) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        *text = rest;
        true
    })
}

fn until(text: &mut &'static str, end: char) -> &'static str {
    let (head, rest) = text.split_once(end).unwrap_or((text, ""));
    *text = rest;
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_struct_and_all_structs_parse() {
        let table = table(KubernetesVersion::default());
        assert!(table.kinds.len() > 150 && table.structs.len() > 600);
        for entry in table.structs.values() {
            let parsed = StructRef(entry).get();
            for field in &parsed.fields {
                assert!(!field.name.is_empty() && !field.ty.go_name().is_empty(), "{}.{}", entry.id, field.name);
            }
        }
    }

    #[test]
    fn embedded_structs_are_flattened_and_keep_their_message() {
        let volume = named("api/core/v1.Volume").get();
        assert_eq!(volume.fields[0].name, "name");
        let host_path = volume.field("hostPath").unwrap();
        assert_eq!(host_path.embedded, ["VolumeSource"]);
        assert_eq!(host_path.ty.go_name(), "*v1.HostPathVolumeSource");
        assert!(matches!(
            volume.messages[1],
            MessageField { number: 2, target: MessageTarget::Embedded { first: 1, .. } }
        ));
    }

    #[test]
    fn named_types_are_formatted_like_go() {
        let container = named("api/core/v1.Container").get();
        assert_eq!(container.field("imagePullPolicy").unwrap().ty.go_name(), "v1.PullPolicy");
        assert_eq!(container.field("ports").unwrap().ty.go_name(), "[]v1.ContainerPort");
        let claim = named("api/core/v1.PersistentVolumeClaimStatus").get();
        let statuses = &claim.field("allocatedResourceStatuses").unwrap().ty;
        assert_eq!(statuses.go_name(), "map[v1.ResourceName]v1.ClaimResourceStatus");
    }

    #[test]
    fn unserved_kinds_are_only_in_the_scheme() {
        let version = KubernetesVersion::default();
        assert!(is_registered(version, "extensions", "v1beta1", "Deployment"));
        assert!(kind(version, "extensions", "v1beta1", "Deployment").is_none());
        assert!(!is_registered(version, "apps", "v1", "Pod"));
    }

    #[test]
    fn structs_used_without_a_version_are_equal_in_all() {
        let shared =
            [("meta.k8s.io", "DeleteOptions"), ("autoscaling", "Scale"), ("policy", "Eviction"), ("", "Binding")];
        let text = |version: KubernetesVersion, start: StructRef| {
            let (mut found, mut open) = (std::collections::BTreeMap::new(), vec![start]);
            while let Some(next) = open.pop() {
                // 1.33 writes a creation time that is not set, as null.
                if found.insert(next.0.id, next.0.body.replace("\toz\t", "\to\t")).is_none() {
                    open.extend(next.get().fields.iter().filter_map(|field| field.ty.innermost()));
                }
            }
            let schema =
                table(version).structs["apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps"].body;
            (found, schema)
        };
        for version in KubernetesVersion::ALL {
            for (group, kind) in shared {
                let of = |version| text(version, self::kind(version, group, "v1", kind).unwrap());
                assert_eq!(of(*version), of(KubernetesVersion::default()), "{kind} in {version}");
            }
        }
    }
}
