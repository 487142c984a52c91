//! Kinds and their schemas.
//!
//! kube-derive generates the type of the whole object from its spec. Windlass derives the kind from that type, so it is
//! written out. Only the types that a kind contains get a schema of Windlass: other uses of schemars stay.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens as _;
use syn::{
    Attribute, Fields, Ident, Item, Meta, Path, Token, Visibility,
    punctuated::Punctuated,
    spanned::Spanned as _,
    visit::{self, Visit},
};

use super::{
    Steps,
    attributes::{self, Kube},
    edits::{Edits, whole_lines},
    sources::{Source, arguments},
};

/// A type of the project that derives a schema or a kind.
struct Described<'s> {
    source: usize,
    name: &'s Ident,
    visibility: &'s Visibility,
    attributes: &'s [Attribute],
    /// The fields of a struct, or of all variants.
    fields: Vec<&'s syn::Field>,
    span: proc_macro2::Span,
    /// The names in its fields, which may be types of the project.
    mentions: BTreeSet<String>,
}

pub(super) fn rewrite(sources: &[Source], edits: &mut [Edits], steps: &mut Steps) {
    let mut types = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        Types { index, found: &mut types }.visit_file(&source.file);
    }
    let (mut reachable, mut kinds) = (BTreeSet::new(), Vec::new());
    for (index, ty) in types.iter().enumerate() {
        let source = &sources[ty.source];
        let mut derives = derive_lists(ty.attributes).flat_map(paths_of);
        if !derives.any(|path| source.names.is(&path, "kube::CustomResource")) {
            continue;
        }
        let line = ty.span.start().line;
        let construct = format!("#[derive(CustomResource)] of {}", ty.name);
        match Kube::of(ty.attributes) {
            Ok(kube) if kube.unsupported.is_none() => {
                reachable.extend([ty.name.to_string()]);
                reachable.extend(kube.status.clone());
                kinds.push((index, kube));
            }
            Ok(kube) => {
                let unsupported = kube.unsupported.unwrap_or_default();
                steps.leave(source, line, construct, format!("{unsupported} has no counterpart; the type keeps its derive, and is a resource of Windlass with windlass-kube"));
            }
            Err(error) => steps.leave(source, line, construct, format!("its #[kube(…)] cannot be read: {error}")),
        }
    }
    reach(&types, &mut reachable);
    steps.kinds = kinds.iter().map(|(_, kube)| kube.root.clone().unwrap_or_else(|| kube.kind.clone())).collect();

    let described: Vec<_> = types.iter().filter(|ty| reachable.contains(&ty.name.to_string())).collect();
    let translated: Vec<_> = described.iter().map(|ty| translations(ty)).collect();
    // A type that keeps its schema needs those of its parts.
    steps.keeps_schemars = translated.iter().any(Option::is_none);
    for (ty, translations) in described.iter().zip(translated) {
        schema(ty, translations, &sources[ty.source], &mut edits[ty.source], steps);
    }
    for (index, kube) in &kinds {
        let ty = &types[*index];
        root(ty, kube, &sources[ty.source], &mut edits[ty.source], steps);
    }
    for (source, edits) in sources.iter().zip(edits) {
        Definitions { source, edits, kinds: &steps.kinds }.visit_file(&source.file);
    }
}

/// Adds the types that are part of a reachable type.
fn reach(types: &[Described<'_>], reachable: &mut BTreeSet<String>) {
    loop {
        let parts =
            types.iter().filter(|ty| reachable.contains(&ty.name.to_string())).flat_map(|ty| ty.mentions.iter());
        let more: Vec<_> = parts.filter(|name| !reachable.contains(*name)).cloned().collect();
        if more.is_empty() {
            return;
        }
        reachable.extend(more);
    }
}

/// Returns `#[schema(…)]` for each attribute of the schema, by its place. `None` if one has no counterpart.
fn translations(ty: &Described<'_>) -> Option<BTreeMap<usize, String>> {
    let own = ty.attributes.iter().map(|attribute| (attribute, None));
    let of_fields = ty.fields.iter().flat_map(|field| field.attrs.iter().map(|attribute| (attribute, Some(*field))));
    let all = own.chain(of_fields).filter(|(attribute, _)| attributes::is_of_schema(attribute));
    let translated = all.map(|(attribute, field)| (attribute, attributes::schema(attribute, field)));
    let relevant =
        translated.filter(|(attribute, arguments)| arguments.is_some() || !attributes::is_validation(attribute));
    relevant.map(|(attribute, arguments)| Some((attribute.span().byte_range().start, arguments?))).collect()
}

/// Rewrites the schema of a type.
fn schema(
    ty: &Described<'_>,
    translations: Option<BTreeMap<usize, String>>,
    source: &Source,
    edits: &mut Edits,
    steps: &mut Steps,
) {
    let removed = ["kube::CustomResource", "schemars::JsonSchema", "kube::KubeSchema"];
    let Some(translations) = translations else {
        // The type keeps its schema, which becomes one of Windlass.
        let name = ty.name;
        edits.insert(
            ty.span.byte_range().end,
            format!(
                "\n\nimpl windlass::Schema for {name} {{\n    fn schema() -> windlass::api::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps {{\n        <windlass_kube::Schemars<Self> as windlass::Schema>::schema()\n    }}\n}}"
            ),
        );
        let advice =
            "keeps the schema of schemars: replace its attributes by #[schema(…)], docs/reference/attributes.md";
        steps.leave(source, ty.span.start().line, format!("#[derive(JsonSchema)] of {name}"), advice);
        derive(ty, source, edits, &removed[..1], &[]);
        return;
    };
    for (place, arguments) in translations {
        let attribute = ty.attributes.iter().chain(ty.fields.iter().flat_map(|field| &field.attrs));
        let Some(attribute) = attribute.into_iter().find(|attribute| attribute.span().byte_range().start == place)
        else {
            continue;
        };
        let range = attribute.span().byte_range();
        // The derive of validator needs its attributes.
        let is_kept = attributes::is_validation(attribute)
            && derive_lists(ty.attributes).any(|list| list.to_token_stream().to_string().contains("Validate"));
        if steps.keeps_schemars || is_kept {
            edits.insert(range.end, format!("\n#[schema({arguments})]"));
        } else {
            edits.replace(range, format!("#[schema({arguments})]"));
        }
    }
    derive(ty, source, edits, &removed[..if steps.keeps_schemars { 1 } else { 3 }], &["windlass::Schema"]);
}

/// Removes derives of a type, and adds others to its first list.
fn derive(ty: &Described<'_>, source: &Source, edits: &mut Edits, removed: &[&str], added: &[&str]) {
    let mut added = added;
    for attribute in derive_lists(ty.attributes) {
        let kept = paths_of(attribute).into_iter();
        let kept = kept.filter(|path| !removed.iter().any(|name| source.names.is(path, name)));
        let kept = kept.map(|path| source.text_of(path.span()).to_owned());
        let all: Vec<_> = kept.chain(added.iter().map(|&name| name.to_owned())).collect();
        added = &[];
        let range = attribute.span().byte_range();
        if all.is_empty() {
            edits.replace(whole_lines(&source.text, range), "");
        } else {
            edits.replace(range, format!("#[derive({})]", all.join(", ")));
        }
    }
}

/// Writes out the type of the whole object.
fn root(ty: &Described<'_>, kube: &Kube, source: &Source, edits: &mut Edits, steps: &mut Steps) {
    for attribute in ty.attributes.iter().filter(|attribute| attribute.path().is_ident("kube")) {
        edits.replace(whole_lines(&source.text, attribute.span().byte_range()), "");
    }
    let (root, spec) = (kube.root.as_ref().unwrap_or(&kube.kind), ty.name);
    let visibility = match ty.visibility {
        Visibility::Inherited => String::new(),
        written => format!("{} ", source.text_of(written.span())),
    };
    let doc = kube.doc.clone().unwrap_or_else(|| format!("The kind `{}`.", kube.kind));
    let derives: String = kube.derives.iter().map(|derive| format!(", {derive}")).collect();
    let meta = "windlass::api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta";
    let (status, no_status) = kube.status.as_ref().map_or_else(Default::default, |status| {
        let attribute = "#[serde(default, skip_serializing_if = \"Option::is_none\")]";
        (format!("    {attribute}\n    {visibility}status: Option<{status}>,\n"), ", status: None")
    });
    let text = format!(
        "/// {doc}\n\
         #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, windlass::CustomResource{derives})]\n\
         #[resource({arguments})]\n\
         {visibility}struct {root} {{\n    \
             {visibility}metadata: {meta},\n    \
             {visibility}spec: {spec},\n\
             {status}\
         }}\n\n\
         impl {root} {{\n    \
             /// Creates an object with a name and a spec.\n    \
             {visibility}fn new(name: &str, spec: {spec}) -> Self {{\n        \
                 let metadata = {meta} {{ name: Some(name.to_owned()), ..Default::default() }};\n        \
                 Self {{ metadata, spec{no_status} }}\n    \
             }}\n\
         }}\n\n",
        arguments = kube.arguments(),
    );
    let range = ty.span.byte_range();
    edits.insert(whole_lines(&source.text, range.clone()).start.min(range.start), text);
    steps.leave(
        source,
        ty.span.start().line,
        format!("the kind {}", kube.kind),
        "compare the CustomResourceDefinition before and after: schemars writes the default of #[serde(default)] into the schema, Windlass only with #[schema(default = …)]",
    );
}

fn derive_lists(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive") && matches!(attribute.meta, Meta::List(_)))
}

fn paths_of(list: &Attribute) -> Vec<Path> {
    let paths = list.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
    paths.into_iter().flatten().collect()
}

/// Collects the types that derive a schema.
struct Types<'t, 's> {
    index: usize,
    found: &'t mut Vec<Described<'s>>,
}

impl<'s> Visit<'s> for Types<'_, 's> {
    fn visit_item(&mut self, item: &'s Item) {
        let (name, visibility, attributes, fields) = match item {
            Item::Struct(item) => (&item.ident, &item.vis, &item.attrs, of(&item.fields)),
            Item::Enum(item) => {
                let fields = item.variants.iter().flat_map(|variant| of(&variant.fields)).collect();
                (&item.ident, &item.vis, &item.attrs, fields)
            }
            _ => return visit::visit_item(self, item),
        };
        let is_described = derive_lists(attributes).any(|list| {
            let text = list.to_token_stream().to_string();
            ["JsonSchema", "KubeSchema", "CustomResource"].iter().any(|name| text.contains(name))
        });
        if is_described {
            let mut names = Mentions(BTreeSet::new());
            for field in &fields {
                names.visit_type(&field.ty);
            }
            let (span, mentions) = (item.span(), names.0);
            self.found.push(Described { source: self.index, name, visibility, attributes, fields, span, mentions });
        }
    }
}

fn of(fields: &Fields) -> Vec<&syn::Field> {
    fields.iter().collect()
}

struct Mentions(BTreeSet<String>);

impl Visit<'_> for Mentions {
    fn visit_ident(&mut self, ident: &Ident) {
        self.0.insert(ident.to_string());
    }
}

/// Rewrites `Kind::crd()`.
struct Definitions<'d> {
    source: &'d Source,
    edits: &'d mut Edits,
    kinds: &'d [String],
}

impl Visit<'_> for Definitions<'_> {
    fn visit_macro(&mut self, call: &syn::Macro) {
        for argument in arguments(call) {
            self.visit_expr(&argument);
        }
    }

    fn visit_expr_path(&mut self, path: &syn::ExprPath) {
        let segments: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let [.., kind, function] = segments.as_slice() else { return };
        if function == "crd" && path.qself.is_none() && self.kinds.contains(kind) {
            let span = path.path.span().byte_range();
            let ty = self.source.text[span.clone()].trim_end_matches("crd").trim_end_matches("::");
            self.edits.replace(span, format!("<{ty} as windlass::CustomResource>::definition"));
        }
    }
}
