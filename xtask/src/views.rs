//! `cargo xtask views`: generates the views of the built-in kinds from the recorded schemas and the recorded discovery.
//!
//! The output is a table in Rust: a macro call per type, with a line per field. The macros are in windlass-views. The table
//! contains the kinds that can be patched, and their parts. Types that older or newer minor versions of k8s-openapi do not
//! have are gated by its `k8s_if_…` macros.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use crate::{
    Result,
    apply_configurations::{Path, gated, ident, kinds},
    clientset::{
        self,
        minors::{Minors, Span},
    },
    generated::{self, Mode},
    required::{self, Schemas},
    upstream,
};

/// The views of all groups, and those of the group `meta`, which do not need a feature.
const GROUPS: &str = "crates/windlass-views/src/groups.rs";
const META: &str = "crates/windlass-views/src/meta.rs";

/// The root of the types that are always present.
const METADATA: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The types of the scalars.
const SCALARS: [(&str, &str); 2] = [("IntOrString", "IntOrStringView<'a>"), ("Quantity", "QuantityView<'a>")];

/// Times are always optional, because they have no empty value.
const TIMES: [&str; 2] = ["MicroTime", "Time"];

/// Types of any shape. Those of apimachinery have an implementation in `types`.
const ANY: [&str; 8] = [
    "CustomResourceSubresourceStatus",
    "FieldsV1",
    "JSON",
    "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray",
    "Patch",
    "RawExtension",
];

/// The structs of one version of a group.
#[derive(Debug, Default)]
struct Module<'t> {
    /// The path of the module in k8s-openapi.
    source: String,
    structs: Vec<Struct<'t>>,
    /// The types of any shape.
    any: BTreeSet<&'t str>,
}

#[derive(Debug)]
struct Struct<'t> {
    name: &'t str,
    /// The minor versions of Kubernetes with this type.
    span: Span,
    /// The name in JSON, the name in Rust, and the type of each field.
    fields: Vec<(&'t str, String, String)>,
}

/// The modules, by group and version.
type Modules<'t> = BTreeMap<(&'t str, &'t str), Module<'t>>;

/// Writes the views. With [`Mode::Check`], returns an error if they would change.
pub(crate) fn run(mode: Mode) -> Result {
    let schemas = fs::read_to_string(upstream::root().join(required::SCHEMAS))?;
    let discovery = fs::read_to_string(upstream::root().join(clientset::DISCOVERY))?;
    let schemas = required::parse(&schemas)?;
    let mut modules = modules(&schemas, &kinds(&discovery)?)?;
    let minors = Minors::of_workspace()?;
    for Module { source, structs, .. } in modules.values_mut() {
        for part in structs {
            part.span = minors.span(source, part.name)?;
        }
    }
    let (meta, groups): (Modules<'_>, Modules<'_>) = modules.into_iter().partition(|((group, _), _)| *group == "meta");
    for (file, source) in [(META, render_meta(&meta)), (GROUPS, render(&groups))] {
        generated::write_or_check(&upstream::root().join(file), clientset::formatted(&source)?.as_bytes(), mode)?;
    }
    Ok(())
}

// === reading the tables ===

/// Returns the structs that the kinds consist of.
fn modules<'t>(schemas: &'t Schemas<'_>, kinds: &BTreeSet<(&str, &str, &str)>) -> Result<Modules<'t>> {
    let is_kind = |name: &str| required::kind(schemas, name).is_some_and(|kind| kinds.contains(&kind));
    let mut open: Vec<&str> = schemas.keys().copied().filter(|name| is_kind(name) || *name == METADATA).collect();
    let mut seen: BTreeSet<&str> = open.iter().copied().collect();
    let mut modules = Modules::new();
    while let Some(name) = open.pop() {
        let Path { group, version, source, name: short } = Path::of(name)?;
        if ANY.contains(&short) {
            let module = modules.entry((group, version)).or_default();
            module.any.extend(Some(short).filter(|_| source.starts_with("apiextensions")));
            continue;
        }
        let (is_kind, schema) = (is_kind(name), &schemas[name]);
        let is_required =
            |field: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == field));
        let mut fields = Vec::new();
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            // The types of k8s-openapi don't have them: they are the same for all objects of a kind.
            if is_kind && ["apiVersion", "kind"].contains(&field.as_str()) {
                continue;
            }
            let found = type_of(property, (group, version)).map_err(|error| format!("{name}.{field}: {error}"))?;
            if let Some(part) = found.part {
                let (part, _) = schemas.get_key_value(part).ok_or_else(|| format!("{name}: no schema of {part}"))?;
                open.extend(Some(*part).filter(|part| seen.insert(part)));
            }
            let is_optional = found.is_scalar && !is_required(field);
            let ty = if is_optional { format!("Option<{}>", found.ty) } else { found.ty };
            fields.push((field.as_str(), name_of(field), ty));
        }
        let module = modules.entry((group, version)).or_default();
        module.source = source;
        module.structs.push(Struct { name: short, span: Span::default(), fields });
    }
    modules.retain(|_, module| !module.structs.is_empty());
    for module in modules.values_mut() {
        module.structs.sort_by_key(|part| part.name);
    }
    Ok(modules)
}

/// The type of an accessor.
struct Accessor<'t> {
    ty: String,
    /// `true` if an optional field has an `Option`.
    is_scalar: bool,
    /// The name of the schema that the type contains.
    part: Option<&'t str>,
}

fn type_of<'t>(property: &'t Value, module: (&str, &str)) -> Result<Accessor<'t>> {
    let scalar = |ty: &str| Ok(Accessor { ty: ty.to_owned(), is_scalar: true, part: None });
    if let Some(target) = required::reference(property) {
        let Path { group, version, name, .. } = Path::of(target)?;
        if let Some((_, view)) = SCALARS.iter().find(|(scalar, _)| *scalar == name) {
            return scalar(view);
        }
        if TIMES.contains(&name) {
            return Ok(Accessor { ty: format!("Option<{name}>"), is_scalar: false, part: None });
        }
        if ANY.contains(&name) {
            return Ok(Accessor { ty: "View<'a>".to_owned(), is_scalar: false, part: Some(target) });
        }
        let path = if (group, version) == module { String::new() } else { format!("crate::{group}::{version}::") };
        return Ok(Accessor { ty: format!("{path}{name}View<'a>"), is_scalar: false, part: Some(target) });
    }
    let collection = |name: &str, content: &'t Value| {
        let Accessor { ty, part, .. } = type_of(content, module)?;
        Ok(Accessor { ty: format!("{name}<'a, {ty}>"), is_scalar: false, part })
    };
    match (property["type"].as_str().unwrap_or_default(), property["format"].as_str()) {
        ("array", _) => collection("List", &property["items"]),
        ("object", _) => collection("Map", &property["additionalProperties"]),
        ("boolean", _) => scalar("bool"),
        ("integer", Some("int32")) => scalar("i32"),
        ("integer", Some("int64")) => scalar("i64"),
        ("number", Some("double")) => scalar("f64"),
        ("string", Some("byte")) => scalar("ByteStringView<'a>"),
        ("string", None) => scalar("Cow<'a, str>"),
        (ty, format) => Err(format!("the unknown type {ty:?} with the format {format:?}").into()),
    }
}

/// Returns the name of a field in k8s-openapi.
fn name_of(field: &str) -> String {
    match field {
        "$ref" => "ref_path".to_owned(),
        "$schema" => "schema".to_owned(),
        "continue" | "enum" | "ref" | "final" => format!("{field}_"),
        _ => ident(field).replace('-', "_"),
    }
}

// === writing the source ===

const HEADER: &str = "//! Generated by `cargo xtask views` from the schemas of a real kube-apiserver; do not edit.\n";

fn render_meta(modules: &Modules<'_>) -> String {
    let mut out = format!("{HEADER}//!\n//! The views of the group `meta`: metadata, conditions and selectors.\n");
    for ((_, version), module) in modules {
        out += &format!("\n/// The views of `meta/{version}`.\npub mod {version} {{\n{}}}\n", module.render());
    }
    out
}

fn render(modules: &Modules<'_>) -> String {
    let mut out = HEADER.to_owned();
    let groups: BTreeSet<&str> = modules.keys().map(|(group, _)| *group).collect();
    for group in groups {
        out += &format!("\n/// The views of the group `{group}`.\npub mod {group} {{\n");
        for ((_, version), module) in modules.iter().filter(|((of, _), _)| *of == group) {
            out += &format!("    /// The views of `{group}/{version}`.\n    pub mod {version} {{\n");
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
        for Struct { name, fields, .. } in &self.structs {
            let lines: String =
                fields.iter().map(|(json, ident, ty)| format!("    {ident} {json:?} {ty},\n")).collect();
            out += &gated(Span::default(), &format!("view! {{ 'a {name} {name}View\n{lines}}}\n"));
        }
        let gates: BTreeSet<Span> = self.structs.iter().map(|part| part.span).collect();
        for gate in gates {
            let parts = self.structs.iter().filter(|part| part.span == gate);
            let lines: String = parts.map(|Struct { name, .. }| format!("    {name} {name}View,\n")).collect();
            let module = match gate {
                Span { since: None, until: None } => "sources".to_owned(),
                Span { since: Some(first), until: None } => format!("since_1_{first}"),
                Span { since: None, until: Some(last) } => format!("until_1_{last}"),
                Span { since: Some(first), until: Some(last) } => format!("since_1_{first}_until_1_{last}"),
            };
            let source = &self.source;
            out += &gated(gate, &format!("sources! {{ {module} k8s_openapi::{source} {{\n{lines}}} }}\n"));
        }
        if !self.any.is_empty() {
            let lines: String = self.any.iter().map(|name| format!("    {name},\n")).collect();
            let source = &self.source;
            out += &gated(Span::default(), &format!("sources! {{ any k8s_openapi::{source} any {{\n{lines}}} }}\n"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: &str = "@x.io/v1\nkinds\tKind\tkind\tN\tget,patch\nreviews\tReview\treview\tC\tcreate\n";

    fn schemas() -> String {
        let reference = |name: &str| format!(r##"{{"$ref":"#/components/schemas/io.k8s.{name}"}}"##);
        format!(
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta\t{{\"properties\":{{\"name\":{{\"type\":\"string\"}}}}}}\n\
             io.k8s.api.x.v1.Kind\t{{\"properties\":{{\"kind\":{{\"type\":\"string\"}},\"metadata\":{},\"spec\":{}}},\"x-kubernetes-group-version-kind\":[{{\"group\":\"x.io\",\"version\":\"v1\",\"kind\":\"Kind\"}}]}}\n\
             io.k8s.api.x.v1.Spec\t{{\"required\":[\"name\"],\"properties\":{{\"clusterIPs\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}}}},\"name\":{{\"type\":\"string\"}},\"parts\":{{\"type\":\"object\",\"additionalProperties\":{}}},\"since\":{},\"type\":{{\"type\":\"integer\",\"format\":\"int32\"}}}}}}\n\
             io.k8s.api.x.v1.Part\t{{\"properties\":{{\"size\":{}}}}}\n\
             io.k8s.api.x.v1.Unused\t{{\"properties\":{{}}}}\n",
            reference("apimachinery.pkg.apis.meta.v1.ObjectMeta"),
            reference("api.x.v1.Spec"),
            reference("api.x.v1.Part"),
            reference("apimachinery.pkg.apis.meta.v1.Time"),
            reference("apimachinery.pkg.api.resource.Quantity"),
        )
    }

    #[test]
    fn kinds_and_their_parts_have_views() {
        let text = schemas();
        let schemas = required::parse(&text).unwrap();
        let mut modules = modules(&schemas, &kinds(DISCOVERY).unwrap()).unwrap();
        let parts = &mut modules.get_mut(&("x", "v1")).unwrap().structs;
        parts.iter_mut().find(|part| part.name == "Part").unwrap().span.since = Some(34);
        let source = render(&modules);
        for call in [
            "view! { 'a Kind KindView\n            metadata \"metadata\" crate::meta::v1::ObjectMetaView<'a>,\n            spec \"spec\" SpecView<'a>,",
            "view! { 'a Part PartView\n            size \"size\" Option<QuantityView<'a>>,",
            "cluster_ips \"clusterIPs\" List<'a, Cow<'a, str>>,\n            name \"name\" Cow<'a, str>,\n            parts \"parts\" Map<'a, PartView<'a>>,\n            since \"since\" Option<Time>,\n            type_ \"type\" Option<i32>,",
            "k8s_openapi::k8s_if_ge_1_34! {\n            sources! { since_1_34 k8s_openapi::api::x::v1 {\n                Part PartView,",
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
        assert_eq!(error, "api.x.v1.Spec.type: the unknown type \"integer\" with the format Some(\"int16\")");
    }
}
