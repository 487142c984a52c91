//! `cargo xtask apply-configurations`: generates the apply configurations of the built-in kinds from the recorded schemas
//! and the recorded discovery.
//!
//! The output is a table in Rust: a macro call per type, with a line per field. The macros are in
//! windlass-apply-configurations. The table contains the kinds that can be patched, and the structs of their fields. Types
//! that older or newer minor versions of k8s-openapi do not have are gated by its `k8s_if_…` macros.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use crate::{
    Result,
    clientset::{
        self,
        minors::{Minors, Span},
    },
    generated::{self, Mode},
    required::{self, Schemas},
    upstream,
};

const GROUPS: &str = "crates/windlass-apply-configurations/src/groups.rs";

/// Types of k8s-openapi that configurations contain as they are: their fields are optional, or have one owner.
const WHOLE: [&str; 9] = [
    "CustomResourceSubresourceStatus",
    "IntOrString",
    "JSONSchemaProps",
    "LabelSelector",
    "MicroTime",
    "ObjectMeta",
    "Quantity",
    "RawExtension",
    "Time",
];

/// JSON names whose Rust names in k8s-openapi do not follow the rule for words.
const NAMES: [(&str, &str); 9] = [
    ("clusterIPs", "cluster_ips"),
    ("hostIPs", "host_ips"),
    ("nonResourceURLs", "non_resource_urls"),
    ("openAPIV3Schema", "open_api_v3_schema"),
    ("podCIDRs", "pod_cidrs"),
    ("podIPs", "pod_ips"),
    ("targetWWNs", "target_wwns"),
    ("externalIPs", "external_ips"),
    ("type", "type_"),
];

/// The structs of one version of a group.
#[derive(Debug, Default)]
struct Module<'t> {
    /// The path of the module in k8s-openapi.
    source: String,
    structs: Vec<Struct<'t>>,
}

#[derive(Debug)]
struct Struct<'t> {
    name: &'t str,
    is_kind: bool,
    /// The minor versions of Kubernetes with this type.
    span: Span,
    /// The name in JSON, the name in Rust, and the type of each field.
    fields: Vec<(&'t str, String, String)>,
}

/// The modules, by group and version.
type Modules<'t> = BTreeMap<(&'t str, &'t str), Module<'t>>;

/// Writes the configurations. With [`Mode::Check`], returns an error if they would change.
pub(crate) fn run(mode: Mode) -> Result {
    let schemas = fs::read_to_string(upstream::root().join(required::SCHEMAS))?;
    let discovery = fs::read_to_string(upstream::root().join(clientset::DISCOVERY))?;
    let schemas = required::parse(&schemas)?;
    let mut modules = modules(&schemas, &kinds(&discovery)?)?;
    let minors = Minors::of_workspace()?;
    for Module { source, structs } in modules.values_mut() {
        for part in structs {
            part.span = minors.span(source, part.name)?;
        }
    }
    let source = clientset::formatted(&render(&modules))?;
    generated::write_or_check(&upstream::root().join(GROUPS), source.as_bytes(), mode)
}

// === reading the tables ===

/// Returns group, version and kind of the resources that can be patched.
pub(crate) fn kinds(discovery: &str) -> Result<BTreeSet<(&str, &str, &str)>> {
    let mut kinds = BTreeSet::new();
    let mut group = None;
    for line in discovery.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('@') {
            group = name.split_once('/');
            continue;
        }
        if let [plural, kind, _, _, verbs, ..] = line.split('\t').collect::<Vec<_>>()[..]
            && !plural.is_empty()
            && verbs.split(',').any(|verb| verb == "patch")
        {
            let (group, version) = group.ok_or("a resource before any group")?;
            kinds.insert((group, version, kind));
        }
    }
    Ok(kinds)
}

/// Returns the structs that the kinds consist of.
fn modules<'t>(schemas: &'t Schemas<'_>, kinds: &BTreeSet<(&str, &str, &str)>) -> Result<Modules<'t>> {
    let is_kind = |name: &str| required::kind(schemas, name).is_some_and(|kind| kinds.contains(&kind));
    let mut open: Vec<&str> = schemas.keys().copied().filter(|name| is_kind(name)).collect();
    if open.len() != kinds.len() {
        return Err(format!("{} of {} kinds have a schema", open.len(), kinds.len()).into());
    }
    let mut seen: BTreeSet<&str> = open.iter().copied().collect();
    let mut modules = Modules::new();
    while let Some(name) = open.pop() {
        let Path { group, version, source, name: short } = Path::of(name)?;
        let is_kind = is_kind(name);
        let mut fields = Vec::new();
        for (field, property) in schemas[name]["properties"].as_object().into_iter().flatten() {
            // The client adds the API version and the kind.
            if is_kind && ["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
                continue;
            }
            let (ty, part) = type_of(property, (group, version)).map_err(|error| format!("{name}.{field}: {error}"))?;
            if let Some(part) = part {
                let (part, _) = schemas.get_key_value(part).ok_or_else(|| format!("{name}: no schema of {part}"))?;
                open.extend(Some(*part).filter(|part| seen.insert(part)));
            }
            fields.push((field.as_str(), ident(field), ty));
        }
        let module = modules.entry((group, version)).or_default();
        module.source = source;
        module.structs.push(Struct { name: short, is_kind, span: Span::default(), fields });
    }
    for module in modules.values_mut() {
        module.structs.sort_by_key(|part| (!part.is_kind, part.name));
    }
    Ok(modules)
}

/// The parts of a schema's name.
pub(crate) struct Path<'t> {
    pub(crate) group: &'t str,
    pub(crate) version: &'t str,
    /// The path of the module in k8s-openapi.
    pub(crate) source: String,
    pub(crate) name: &'t str,
}

impl<'t> Path<'t> {
    pub(crate) fn of(schema: &'t str) -> Result<Self> {
        let mut parts = schema.rsplit('.');
        let (Some(name), Some(version), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("{schema}: a name without group and version").into());
        };
        let module = schema.strip_suffix(name).unwrap_or_default().trim_end_matches('.');
        Ok(Self { group, version, source: module.replace('-', "_").replace('.', "::"), name })
    }
}

/// Returns the type of a field, and the name of the schema that it contains.
fn type_of<'t>(property: &'t Value, module: (&str, &str)) -> Result<(String, Option<&'t str>)> {
    if let Some(target) = required::reference(property) {
        let Path { group, version, name, .. } = Path::of(target)?;
        if WHOLE.contains(&name) {
            return Ok((name.to_owned(), None));
        }
        let path = if (group, version) == module { String::new() } else { format!("crate::{group}::{version}::") };
        return Ok((format!("{path}{name}Apply"), Some(target)));
    }
    let plain = |ty: &str| Ok((ty.to_owned(), None));
    match (property["type"].as_str().unwrap_or_default(), property["format"].as_str()) {
        ("array", _) => type_of(&property["items"], module).map(|(ty, part)| (format!("Vec<{ty}>"), part)),
        ("object", _) => type_of(&property["additionalProperties"], module)
            .map(|(ty, part)| (format!("BTreeMap<String, {ty}>"), part)),
        ("boolean", _) => plain("bool"),
        ("integer", Some("int32")) => plain("i32"),
        ("integer", Some("int64")) => plain("i64"),
        ("number", Some("double")) => plain("f64"),
        ("string", Some("byte")) => plain("ByteString"),
        ("string", None) => plain("String"),
        (ty, format) => Err(format!("the unknown type {ty:?} with the format {format:?}").into()),
    }
}

/// Returns the name of a field in k8s-openapi.
pub(crate) fn ident(field: &str) -> String {
    let known = NAMES.iter().find(|(name, _)| *name == field);
    known.map_or_else(|| clientset::words(field).join("_"), |(_, ident)| (*ident).to_owned())
}

// === writing the source ===

fn render(modules: &Modules<'_>) -> String {
    let mut out =
        "//! Generated by `cargo xtask apply-configurations` from the schemas of a real kube-apiserver; do not edit.\n"
            .to_owned();
    let groups: BTreeSet<&str> = modules.keys().map(|(group, _)| *group).collect();
    for group in groups {
        out += &format!("\n/// The configurations of the group `{group}`.\npub mod {group} {{\n");
        for ((_, version), module) in modules.iter().filter(|((of, _), _)| *of == group) {
            out += &format!("    /// The configurations of `{group}/{version}`.\n    pub mod {version} {{\n");
            out += &module.render();
            out += "    }\n";
        }
        out += "}\n";
    }
    out
}

impl Module<'_> {
    fn render(&self) -> String {
        let mut out = "        use crate::prelude::*;\n".to_owned();
        for part in &self.structs {
            let Struct { name, is_kind, span, fields } = part;
            let lines: String =
                fields.iter().map(|(json, ident, ty)| format!("    {ident} {json:?} {ty},\n")).collect();
            let call = if *is_kind { "kind" } else { "part" };
            let span = if *is_kind { *span } else { Span::default() };
            out += &gated(span, &format!("{call}! {{ {name} {name}Apply\n{lines}}}\n"));
        }
        let is_template =
            |part: &&Struct<'_>| part.fields.iter().any(|(name, _, ty)| *name == "metadata" && ty == "ObjectMeta");
        let templates: String =
            self.structs.iter().filter(is_template).map(|Struct { name, .. }| format!(" {name}Apply")).collect();
        if !templates.is_empty() {
            out += &gated(Span::default(), &format!("template! {{{templates} }}\n"));
        }
        let gates: BTreeSet<Span> = self.structs.iter().map(|part| part.span).collect();
        for gate in gates {
            let list = |is_kind| {
                let parts = self.structs.iter().filter(|part| part.span == gate && part.is_kind == is_kind);
                let lines: String = parts.map(|Struct { name, .. }| format!("        {name} {name}Apply,\n")).collect();
                if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{lines}    }}") }
            };
            let module = match gate {
                Span { since: None, until: None } => "sources".to_owned(),
                Span { since: Some(first), until: None } => format!("since_1_{first}"),
                Span { since: None, until: Some(last) } => format!("until_1_{last}"),
                Span { since: Some(first), until: Some(last) } => format!("since_1_{first}_until_1_{last}"),
            };
            let (source, kinds, parts) = (&self.source, list(true), list(false));
            let lists = format!("    kinds {kinds}\n    parts {parts}\n");
            out += &gated(gate, &format!("sources! {{ {module} k8s_openapi::{source}\n{lists}}}\n"));
        }
        out
    }
}

/// Returns code that is compiled with these minor versions only.
pub(crate) fn gated(span: Span, code: &str) -> String {
    let mut code = code.to_owned();
    let last = span.until.map(|minor| ("le", minor));
    let first = span.since.map(|minor| ("ge", minor));
    for (comparison, minor) in last.into_iter().chain(first) {
        let inner: String = code.lines().map(|line| format!("    {line}\n")).collect();
        code = format!("k8s_openapi::k8s_if_{comparison}_1_{minor}! {{\n{inner}}}\n");
    }
    let code: String = code.lines().map(|line| format!("        {line}\n")).collect();
    format!("\n{code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: &str = "@x.io/v1\nkinds\tKind\tkind\tN\tget,patch\n\tstatus\t\tKind\tget,patch\n\
                             reviews\tReview\treview\tC\tcreate\n";

    fn schemas() -> String {
        let reference = |name: &str| format!(r##"{{"$ref":"#/components/schemas/io.k8s.{name}"}}"##);
        format!(
            "io.k8s.api.x.v1.Kind\t{{\"properties\":{{\"kind\":{{\"type\":\"string\"}},\"metadata\":{},\"spec\":{}}},\"x-kubernetes-group-version-kind\":[{{\"group\":\"x.io\",\"version\":\"v1\",\"kind\":\"Kind\"}}]}}\n\
             io.k8s.api.x.v1.Spec\t{{\"properties\":{{\"clusterIPs\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}}}},\"parts\":{{\"type\":\"object\",\"additionalProperties\":{}}},\"template\":{}}}}}\n\
             io.k8s.api.core.v1.Template\t{{\"properties\":{{\"metadata\":{},\"type\":{{\"type\":\"integer\",\"format\":\"int32\"}}}}}}\n\
             io.k8s.api.x.v1.Part\t{{\"properties\":{{\"size\":{}}}}}\n\
             io.k8s.api.x.v1.Unused\t{{\"properties\":{{}}}}\n",
            reference("apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            reference("api.x.v1.Spec"),
            reference("api.x.v1.Part"),
            reference("api.core.v1.Template"),
            reference("apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            reference("apimachinery.pkg.api.resource.Quantity"),
        )
    }

    #[test]
    fn kinds_that_can_be_patched_and_their_parts_are_written() {
        let text = schemas();
        let schemas = required::parse(&text).unwrap();
        let mut modules = modules(&schemas, &kinds(DISCOVERY).unwrap()).unwrap();
        modules.get_mut(&("x", "v1")).unwrap().structs[1].span.since = Some(34);
        let source = render(&modules);
        for call in [
            "kind! { Kind KindApply\n            spec \"spec\" SpecApply,\n        }",
            "part! { Part PartApply\n            size \"size\" Quantity,\n        }",
            "cluster_ips \"clusterIPs\" Vec<String>,\n            parts \"parts\" BTreeMap<String, PartApply>,\n            template \"template\" crate::core::v1::TemplateApply,",
            "metadata \"metadata\" ObjectMeta,\n            type_ \"type\" i32,",
            "template! { TemplateApply }",
            "sources! { sources k8s_openapi::api::x::v1\n            kinds {\n                Kind KindApply,\n            }\n            parts {\n                Spec SpecApply,",
            "k8s_openapi::k8s_if_ge_1_34! {\n            sources! { since_1_34 k8s_openapi::api::x::v1\n                kinds {}\n                parts {\n                    Part PartApply,",
        ] {
            assert!(source.contains(call), "{call}\nin\n{source}");
        }
        assert!(!source.contains("Unused") && !source.contains("Review"), "{source}");
        assert_eq!(clientset::formatted(&source).unwrap(), source);
    }

    #[test]
    fn unknown_type_is_an_error_with_its_field() {
        let text = schemas().replace("int32", "int16");
        let schemas = required::parse(&text).unwrap();
        let error = modules(&schemas, &kinds(DISCOVERY).unwrap()).unwrap_err().to_string();
        assert_eq!(error, "api.core.v1.Template.type: the unknown type \"integer\" with the format Some(\"int16\")");
        let unknown = kinds("@x.io/v1\nothers\tOther\tother\tN\tpatch\n").unwrap();
        assert_eq!(modules(&schemas, &unknown).unwrap_err().to_string(), "0 of 1 kinds have a schema");
    }

    #[test]
    fn field_names_are_those_of_k8s_openapi() {
        for (field, expected) in [
            ("minReadySeconds", "min_ready_seconds"),
            ("hostIPC", "host_ipc"),
            ("podCIDRs", "pod_cidrs"),
            ("openAPIV3Schema", "open_api_v3_schema"),
            ("type", "type_"),
        ] {
            assert_eq!(ident(field), expected);
        }
    }
}
