//! Attributes of kube-derive and schemars as attributes of Windlass.

use quote::ToTokens as _;
use syn::{
    Attribute, Expr, ExprLit, Field, GenericArgument, Lit, LitStr, Meta, PathArguments, Token, Type,
    meta::ParseNestedMeta, punctuated::Punctuated,
};

/// The arguments of `#[kube(…)]` on a spec.
#[derive(Debug, Default)]
pub(super) struct Kube {
    /// The name of the struct for the whole object.
    pub(super) root: Option<String>,
    pub(super) kind: String,
    pub(super) status: Option<String>,
    /// The derives of that struct.
    pub(super) derives: Vec<String>,
    pub(super) doc: Option<String>,
    /// The arguments of `#[resource(…)]`.
    arguments: Vec<String>,
    /// An argument without a counterpart.
    pub(super) unsupported: Option<String>,
}

impl Kube {
    /// Reads all `#[kube(…)]` of a struct.
    pub(super) fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut kube = Self::default();
        let mut namespaced = false;
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("kube")) {
            attribute.parse_nested_meta(|meta| kube.take(&meta, &mut namespaced))?;
        }
        if !namespaced {
            kube.arguments.push("scope = \"Cluster\"".to_owned());
        }
        if kube.status.is_some() {
            kube.arguments.push("status".to_owned());
        }
        Ok(kube)
    }

    /// Returns the arguments of `#[resource(…)]`.
    pub(super) fn arguments(&self) -> String {
        let root = self.root.as_ref().unwrap_or(&self.kind);
        let kind = (root != &self.kind).then(|| format!("kind = {:?}", self.kind));
        self.arguments.iter().cloned().chain(kind).collect::<Vec<_>>().join(", ")
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, namespaced: &mut bool) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "namespaced" => *namespaced = true,
            "group" | "version" | "plural" | "singular" => {
                let text = text(meta)?;
                self.arguments.push(format!("{name} = {text:?}"));
            }
            "kind" => self.kind = text(meta)?,
            "root" | "struct" => self.root = Some(text(meta)?),
            "status" => self.status = Some(text(meta)?),
            "doc" => self.doc = Some(text(meta)?),
            "derive" => self.derives.push(text(meta)?),
            "shortname" => self.with_text("short_names", meta)?,
            "category" => self.with_text("categories", meta)?,
            "selectable" => self.with_text("selectable", meta)?,
            "storage" | "served" => {
                let value: syn::LitBool = meta.value()?.parse()?;
                self.arguments.push(if value.value { name } else { format!("{name} = false") });
            }
            "deprecated" if !meta.input.peek(Token![=]) => self.arguments.push(name),
            "deprecated" => {
                let text = text(meta)?;
                self.arguments.push(format!("deprecated = {text:?}"));
            }
            "schema" => match text(meta)?.as_str() {
                "derived" => {}
                mode => self.unsupported = Some(format!("#[kube(schema = {mode:?})]")),
            },
            "printcolumn" => self.list("column", COLUMN, meta)?,
            "scale" => self.list("scale", SCALE, meta)?,
            _ => {
                self.unsupported = Some(format!("#[kube({name} …)]"));
                skip(meta)?;
            }
        }
        Ok(())
    }

    fn with_text(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let text = text(meta)?;
        self.arguments.push(format!("{name}({text:?})"));
        Ok(())
    }

    /// Takes a list of fields, such as `printcolumn(name = "…", …)`, or their JSON in a string.
    fn list(&mut self, name: &str, fields: &[(&str, &str, &str)], meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let mut values = Vec::new();
        if meta.input.peek(Token![=]) {
            let json = text(meta)?;
            let Ok(serde_json::Value::Object(parsed)) = serde_json::from_str(&json) else {
                return Err(meta.error("expected a JSON object"));
            };
            for (key, value) in parsed {
                let known = fields.iter().find(|(_, json, _)| *json == key);
                let (_, _, ours) = known.ok_or_else(|| meta.error(format!("unknown field {key}")))?;
                values.push(format!("{ours} = {value}"));
            }
        } else {
            meta.parse_nested_meta(|inner| {
                let known = fields.iter().find(|(theirs, ..)| inner.path.is_ident(theirs));
                let (_, _, ours) = known.ok_or_else(|| inner.error("unknown field"))?;
                let value: Lit = inner.value()?.parse()?;
                values.push(format!("{ours} = {}", value.to_token_stream()));
                Ok(())
            })?;
        }
        self.arguments.push(format!("{name}({})", values.join(", ")));
        Ok(())
    }
}

/// The fields of a printer column: the argument of kube-derive, its name in JSON, and the argument of Windlass.
const COLUMN: &[(&str, &str, &str)] = &[
    ("name", "name", "name"),
    ("type_", "type", "type"),
    ("json_path", "jsonPath", "path"),
    ("format", "format", "format"),
    ("description", "description", "description"),
    ("priority", "priority", "priority"),
];

/// The fields of the scale subresource.
const SCALE: &[(&str, &str, &str)] = &[
    ("spec_replicas_path", "specReplicasPath", "spec"),
    ("status_replicas_path", "statusReplicasPath", "status"),
    ("label_selector_path", "labelSelectorPath", "selector"),
];

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

/// Skips the value of an argument.
fn skip(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    while !meta.input.is_empty() && !meta.input.peek(Token![,]) {
        meta.input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

/// Reports whether an attribute describes the schema for kube-rs.
pub(super) fn is_of_schema(attribute: &Attribute) -> bool {
    ["schemars", "x_kube"].iter().any(|name| attribute.path().is_ident(name)) || is_validation(attribute)
}

/// Reports whether an attribute is one of the crate validator. schemars reads its bounds, and ignores all others.
pub(super) fn is_validation(attribute: &Attribute) -> bool {
    attribute.path().is_ident("validate")
}

/// Returns the arguments of `#[schema(…)]` for an attribute of the schema; `None` if it has no counterpart.
pub(super) fn schema(attribute: &Attribute, field: Option<&Field>) -> Option<String> {
    let arguments = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let shape = field.map_or(Shape::Other, |field| shape(&field.ty));
    let translated = arguments.iter().map(|argument| translate(argument, shape));
    Some(translated.collect::<Option<Vec<_>>>()?.join(", "))
}

fn translate(argument: &Meta, shape: Shape) -> Option<String> {
    let name = argument.path().get_ident()?.to_string();
    match (name.as_str(), argument) {
        ("range", Meta::List(list)) => bounds(list, [("min", "minimum"), ("max", "maximum")]),
        ("length", Meta::List(list)) => bounds(
            list,
            match shape {
                Shape::Text => [("min", "min_length"), ("max", "max_length")],
                Shape::List => [("min", "min_items"), ("max", "max_items")],
                Shape::Map => [("min", "min_properties"), ("max", "max_properties")],
                Shape::Other => return None,
            },
        ),
        ("regex", Meta::List(list)) => {
            let Meta::NameValue(pattern) = list.parse_args::<Meta>().ok()? else { return None };
            (pattern.path.is_ident("pattern"))
                .then(|| string(&pattern.value))
                .flatten()
                .map(|it| format!("pattern = {it}"))
        }
        ("title" | "description", Meta::NameValue(pair)) => string(&pair.value).map(|text| format!("{name} = {text}")),
        ("with", Meta::NameValue(pair)) => {
            let Expr::Lit(ExprLit { lit: Lit::Str(ty), .. }) = &pair.value else { return None };
            Some(format!("as = {}", ty.value()))
        }
        ("skip", Meta::Path(_)) => Some("skip".to_owned()),
        ("validation", Meta::NameValue(pair)) => match &pair.value {
            Expr::Tuple(pair) => {
                let [rule, message] = [pair.elems.first()?, pair.elems.get(1)?].map(string);
                (pair.elems.len() == 2).then_some(())?;
                Some(format!("rule(rule = {}, message = {})", rule?, message?))
            }
            rule => string(rule).map(|rule| format!("rule(rule = {rule})")),
        },
        _ => None,
    }
}

/// Translates `(min = 1, max = 5)`, or `(equal = 3)`.
fn bounds(list: &syn::MetaList, names: [(&str, &str); 2]) -> Option<String> {
    let pairs = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut translated = Vec::new();
    for pair in &pairs {
        let Meta::NameValue(pair) = pair else { return None };
        // A constant has a value only when the program is compiled.
        let value = match &pair.value {
            value @ (Expr::Lit(_) | Expr::Unary(_)) => value.to_token_stream().to_string().replace(' ', ""),
            _ => return None,
        };
        let matching = names.iter().filter(|(theirs, _)| pair.path.is_ident(theirs) || pair.path.is_ident("equal"));
        let before = translated.len();
        translated.extend(matching.map(|(_, ours)| format!("{ours} = {value}")));
        (translated.len() > before).then_some(())?;
    }
    Some(translated.join(", "))
}

/// Returns a string literal as written.
fn string(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit { lit: lit @ Lit::Str(_), .. }) => Some(lit.to_token_stream().to_string()),
        _ => None,
    }
}

/// The shape of a field, which decides the meaning of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    List,
    Map,
    Other,
}

fn shape(ty: &Type) -> Shape {
    let Type::Path(path) = ty else { return Shape::Other };
    let Some(last) = path.path.segments.last() else { return Shape::Other };
    match last.ident.to_string().as_str() {
        "String" => Shape::Text,
        "Vec" | "BTreeSet" | "HashSet" => Shape::List,
        "BTreeMap" | "HashMap" => Shape::Map,
        "Option" | "Box" => match &last.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(GenericArgument::Type(inner)) => shape(inner),
                _ => Shape::Other,
            },
            _ => Shape::Other,
        },
        _ => Shape::Other,
    }
}
