//! Conversion of a version's schema to types, with the attributes of each node.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{
    keywords::{Inexpressible, attribute_args, text},
    names::{self, Names},
};

/// The types of a version, outer ones first.
#[derive(Debug, Default)]
pub(crate) struct TypeSet {
    pub(crate) types: Vec<Type>,
    /// The imported items of other crates.
    pub(crate) uses: BTreeSet<Use>,
}

/// An item that a module must import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    BTreeMap,
    ByteString,
    IntOrString,
    Map,
    Quantity,
    Schema,
    Time,
    Value,
}

#[derive(Debug)]
pub(crate) enum Type {
    Struct(Struct),
    Enum(Enum),
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    /// For example `.spec.template`.
    pub(crate) place: String,
    pub(crate) description: Option<String>,
    /// The arguments of `#[schema(…)]`.
    pub(crate) args: Vec<String>,
    pub(crate) fields: Vec<Field>,
    /// All fields have defaults in Rust.
    pub(crate) has_default: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The identifier, not escaped.
    pub(crate) ident: String,
    /// The name in JSON. `None` if the type is flattened into its parent.
    pub(crate) name: Option<String>,
    pub(crate) ty: String,
    pub(crate) presence: Presence,
    pub(crate) description: Option<String>,
    pub(crate) args: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) place: String,
    /// The variants, each with its value.
    pub(crate) variants: Vec<(String, String)>,
}

/// The type and the attributes of a schema node where it is used.
struct Part {
    ty: String,
    has_default: bool,
    args: Vec<String>,
    /// The description of the type itself.
    described: Option<String>,
}

/// Keywords that belong to the use of a type, not to the type.
const OF_USE: [&str; 6] = ["description", "default", "example", "externalDocs", "nullable", "title"];

/// The pattern of quantities, as controller-gen writes it.
const AMOUNT: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

struct TypeBuilder {
    set: TypeSet,
    names: Names,
    /// Known structs by their schema, and enums by their values.
    known: BTreeMap<(bool, String), Known>,
}

#[derive(Clone)]
struct Known {
    name: String,
    description: Option<String>,
    has_default: bool,
}

/// The path and the message of an error in a schema.
pub(crate) type Wrong = (String, String);

/// Generates the types of a schema. The first one is the type of the objects, without their metadata.
pub(crate) fn build(kind: &str, schema: &Map<String, Value>) -> Result<TypeSet, Wrong> {
    let mut builder = TypeBuilder { set: TypeSet::default(), names: Names::of_types(), known: BTreeMap::new() };
    let wrong = |why: &str| (String::new(), why.to_owned());
    let mut schema = schema.clone();
    let metadata = own_parts(&mut schema);
    let kept = attribute_args(&schema, &["description", "properties", "required", "type"])
        .map_err(|Inexpressible| wrong("the attributes cannot express the schema of the object"))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(wrong("the schema of a kind must have the type object"));
    }
    let name = builder.names.take(kind, "");
    builder.set.types.push(Type::Struct(Struct {
        name: name.clone(),
        place: String::new(),
        description: description(&schema),
        args: kept,
        fields: Vec::new(),
        has_default: true,
    }));
    let mut idents = Names::default();
    for name in ["metadata", "api_version", "kind"] {
        idents.take(name, "_");
    }
    let mut fields = vec![Field {
        ident: "metadata".to_owned(),
        name: Some("metadata".to_owned()),
        ty: "ObjectMeta".to_owned(),
        presence: Presence::Required,
        description: Some("Standard object metadata.".to_owned()),
        args: metadata.map(|raw| vec![raw, "optional".to_owned()]).unwrap_or_default(),
    }];
    let (more, has_default) = builder.fields(&schema, &name, "", &mut idents)?;
    fields.extend(more);
    if let Some(Type::Struct(root)) = builder.set.types.first_mut() {
        root.fields = fields;
        root.has_default = has_default;
    }
    Ok(builder.set)
}

/// Removes the fields that every object has. `apiVersion` and `kind` are dropped. A schema for `metadata` is returned
/// as an argument if it has more than a type and a description.
fn own_parts(schema: &mut Map<String, Value>) -> Option<String> {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !["apiVersion", "kind", "metadata"].iter().any(|own| name == own));
    }
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    properties.shift_remove("apiVersion");
    properties.shift_remove("kind");
    let metadata = properties.shift_remove("metadata")?;
    let says_more = metadata.as_object()?.keys().any(|key| !matches!(key.as_str(), "type" | "description"));
    says_more.then(|| raw(&metadata))
}

fn raw(schema: &Value) -> String {
    format!("raw = {}", text(&schema.to_string()))
}

fn description(schema: &Map<String, Value>) -> Option<String> {
    schema.get("description").and_then(Value::as_str).map(str::to_owned)
}

fn is_true(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

impl TypeBuilder {
    fn uses(&mut self, what: Use) {
        self.set.uses.insert(what);
    }

    /// Returns the fields of an object, and whether each of them has a default in Rust.
    fn fields(
        &mut self,
        schema: &Map<String, Value>,
        parent: &str,
        place: &str,
        idents: &mut Names,
    ) -> Result<(Vec<Field>, bool), Wrong> {
        let required = required(schema);
        let mut fields = Vec::new();
        let mut all_default = true;
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let at = format!("{place}.{name}");
            let property = property.as_object().ok_or_else(|| (at.clone(), "it is no schema".to_owned()))?;
            let hint = format!("{parent}{}", names::variant(name));
            let Part { mut ty, has_default, mut args, .. } = self.part(property, &hint, &at)?;
            let presence = if required.contains(&name.as_str()) { Presence::Required } else { Presence::Optional };
            let is_nullable = is_true(property, "nullable");
            if presence == Presence::Required && is_nullable {
                args.push("required".to_owned());
            }
            if presence == Presence::Optional || is_nullable {
                ty = format!("Option<{ty}>");
            } else {
                all_default &= has_default;
                // A default makes the field optional, but here it is required.
                if property.contains_key("default") {
                    args.push("required".to_owned());
                }
            }
            fields.push(Field {
                ident: idents.take(&names::field(name), "_"),
                name: Some(name.clone()),
                ty,
                presence,
                description: description(property),
                args,
            });
        }
        Ok((fields, all_default))
    }

    /// Returns the use of a node of any kind.
    fn part(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<Part, Wrong> {
        if let Some(part) = self.typed(schema, hint, place)? {
            return Ok(part);
        }
        let ty = match schema.get("type").and_then(Value::as_str) {
            Some("string") => "String".to_owned(),
            Some("integer") => "i64".to_owned(),
            Some("number") => "f64".to_owned(),
            Some("boolean") => "bool".to_owned(),
            Some("array") => self.list("Value"),
            Some("object") => self.map(),
            _ => self.value(),
        };
        let mut schema = schema.clone();
        schema.shift_remove("description");
        Ok(Part { ty, has_default: true, args: vec![raw(&Value::Object(schema))], described: None })
    }

    fn list(&mut self, item: &str) -> String {
        if item == "Value" {
            self.uses(Use::Value);
        }
        format!("Vec<{item}>")
    }

    fn map(&mut self) -> String {
        self.uses(Use::Map);
        self.uses(Use::Value);
        "Map<String, Value>".to_owned()
    }

    fn value(&mut self) -> String {
        self.uses(Use::Value);
        "Value".to_owned()
    }

    /// Returns the use of a node with a matching type. Returns `None` if the arguments cannot express its schema.
    fn typed(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<Option<Part>, Wrong> {
        let kind = schema.get("type").and_then(Value::as_str);
        let format = schema.get("format").and_then(Value::as_str);
        let simple = |ty: &str, has_default: bool, base: Vec<String>, but: &[&str]| {
            let but = [&["description"], but].concat();
            let Ok(more) = attribute_args(schema, &but) else { return Ok(None) };
            let args = base.into_iter().chain(more).collect();
            Ok(Some(Part { ty: ty.to_owned(), has_default, args, described: None }))
        };
        let whole = |kind: &str| {
            let mut args = vec![format!("type = {kind:?}")];
            args.extend(format.map(|format| format!("format = {}", text(format))));
            args
        };
        if is_true(schema, "x-kubernetes-int-or-string") {
            let expected = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
            if kind.is_some() || format.is_some() || schema.get("anyOf") != Some(&expected) {
                return Ok(None);
            }
            if schema.get("pattern").and_then(Value::as_str) == Some(AMOUNT) {
                self.uses(Use::Quantity);
                return simple("Quantity", true, Vec::new(), &["anyOf", "pattern"]);
            }
            self.uses(Use::IntOrString);
            return simple("IntOrString", true, Vec::new(), &["anyOf"]);
        }
        match (kind, format) {
            (Some("boolean"), None) => simple("bool", true, Vec::new(), &[]),
            (Some("integer"), Some("int32")) => simple("i32", true, Vec::new(), &[]),
            (Some("integer"), Some("int64")) => simple("i64", true, Vec::new(), &[]),
            (Some("integer"), _) => simple("i64", true, whole("integer"), &[]),
            (Some("number"), Some("double")) => simple("f64", true, Vec::new(), &[]),
            (Some("number"), _) => simple("f64", true, whole("number"), &[]),
            (Some("string"), None) if schema.contains_key("enum") => Ok(self.choice(schema, hint, place)),
            (Some("string"), Some("date-time")) => {
                self.uses(Use::Time);
                simple("Time", false, Vec::new(), &[])
            }
            (Some("string"), Some("byte")) => {
                self.uses(Use::ByteString);
                simple("ByteString", true, Vec::new(), &[])
            }
            (Some("string"), Some(format)) => simple("String", true, vec![format!("format = {}", text(format))], &[]),
            (Some("string"), None) => simple("String", true, Vec::new(), &[]),
            (Some("array"), None) => self.array(schema, hint, place),
            (Some("object"), None) => self.object(schema, hint, place),
            (None, None) if is_true(schema, "x-kubernetes-preserve-unknown-fields") => {
                if ["properties", "items", "additionalProperties"].iter().any(|key| schema.contains_key(*key)) {
                    return Ok(None);
                }
                let ty = self.value();
                simple(&ty, true, Vec::new(), &["x-kubernetes-preserve-unknown-fields"])
            }
            _ => Ok(None),
        }
    }

    /// Returns the use of an enum of texts.
    fn choice(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Option<Part> {
        let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts = values.iter().map(Value::as_str).collect::<Option<Vec<_>>>();
        let differ = |texts: &[&str]| texts.iter().collect::<BTreeSet<_>>().len() == texts.len();
        let texts = texts.filter(|texts| !texts.is_empty() && differ(texts));
        let but = if texts.is_some() { vec!["description", "enum"] } else { vec!["description"] };
        let Ok(args) = attribute_args(schema, &but) else { return None };
        let Some(texts) = texts else {
            return Some(Part { ty: "String".to_owned(), has_default: true, args, described: None });
        };
        self.uses(Use::Schema);
        let key = (false, Value::from(texts.clone()).to_string());
        let ty = if let Some(known) = self.known.get(&key) {
            known.name.clone()
        } else {
            let name = self.names.take(hint, "");
            let mut idents = Names::default();
            let variants =
                texts.iter().map(|text| (idents.take(&names::variant(text), ""), (*text).to_owned())).collect();
            self.set.types.push(Type::Enum(Enum { name: name.clone(), place: place.to_owned(), variants }));
            self.known.insert(key, Known { name: name.clone(), description: None, has_default: false });
            name
        };
        Some(Part { ty, has_default: false, args, described: None })
    }

    fn array(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<Option<Part>, Wrong> {
        let Some(item) = schema.get("items").and_then(Value::as_object) else { return Ok(None) };
        let Ok(mut args) = attribute_args(schema, &["description", "items"]) else { return Ok(None) };
        let (ty, inner) = self.inner(item, hint, &format!("{place}[]"))?;
        if !inner.is_empty() {
            args.push(format!("items({})", inner.join(", ")));
        }
        let ty = self.list(&ty);
        Ok(Some(Part { ty, has_default: true, args, described: None }))
    }

    /// Returns the type and the arguments of a list's items or a map's values.
    fn inner(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<(String, Vec<String>), Wrong> {
        let Part { mut ty, mut args, described, .. } = self.part(schema, hint, place)?;
        if let Some(description) = description(schema)
            && described.as_ref() != Some(&description)
        {
            args.push(format!("description = {}", text(&description)));
        }
        if is_true(schema, "nullable") {
            ty = format!("Option<{ty}>");
        }
        Ok((ty, args))
    }

    fn object(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<Option<Part>, Wrong> {
        let has_fields = schema.get("properties").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty());
        let values = schema.get("additionalProperties");
        let keeps = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let names_more = {
            let fields = schema.get("properties").and_then(Value::as_object);
            required(schema).iter().any(|name| !fields.is_some_and(|fields| fields.contains_key(*name)))
        };
        if names_more || (has_fields && values.is_some()) {
            return Ok(None);
        }
        if has_fields {
            return self.record(schema, hint, place);
        }
        let but = ["description", "properties", "required", "additionalProperties"];
        if let Some(values) = values {
            let Some(values) = values.as_object() else { return Ok(None) };
            let Ok(mut args) = attribute_args(schema, &but) else { return Ok(None) };
            let (ty, inner) = self.inner(values, hint, &format!("{place}{{}}"))?;
            if !inner.is_empty() {
                args.push(format!("values({})", inner.join(", ")));
            }
            self.uses(Use::BTreeMap);
            let ty = format!("BTreeMap<String, {ty}>");
            return Ok(Some(Part { ty, has_default: true, args, described: None }));
        }
        let but = [&but[..], &["x-kubernetes-preserve-unknown-fields"]].concat();
        let Ok(more) = attribute_args(schema, &but) else { return Ok(None) };
        let ty = self.map();
        let args = (!keeps).then(|| "type = \"object\"".to_owned()).into_iter().chain(more).collect();
        Ok(Some(Part { ty, has_default: true, args, described: None }))
    }

    /// Returns the use of an object with fields.
    fn record(&mut self, schema: &Map<String, Value>, hint: &str, place: &str) -> Result<Option<Part>, Wrong> {
        let of_type = [&OF_USE[..], &["properties", "required", "x-kubernetes-preserve-unknown-fields"]].concat();
        let of_use: Map<String, Value> = schema
            .iter()
            .filter(|(key, _)| OF_USE.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let (Ok(of_type), Ok(args)) = (attribute_args(schema, &of_type), attribute_args(&of_use, &["description"]))
        else {
            return Ok(None);
        };
        self.uses(Use::Schema);
        let mut bare = schema.clone();
        bare.retain(|key, _| !OF_USE.contains(&key.as_str()));
        let description = description(schema);
        let key = (description.is_some(), Value::Object(bare).to_string());
        if let Some(Known { name, description, has_default }) = self.known.get(&key).cloned() {
            return Ok(Some(Part { ty: name, has_default, args, described: description }));
        }
        let name = self.names.take(hint, "");
        // The type is listed before the types of its fields.
        let index = self.set.types.len();
        self.set.types.push(Type::Struct(Struct {
            name: name.clone(),
            place: place.to_owned(),
            description: description.clone(),
            args: of_type,
            fields: Vec::new(),
            has_default: true,
        }));
        let mut idents = Names::default();
        let (mut fields, has_default) = self.fields(schema, &name, place, &mut idents)?;
        if is_true(schema, "x-kubernetes-preserve-unknown-fields") {
            let ty = self.map();
            let ident = idents.take("other", "_");
            let (description, args) = (Some("Fields that the schema does not declare.".to_owned()), Vec::new());
            fields.push(Field { ident, name: None, ty, presence: Presence::Required, description, args });
        }
        if let Some(Type::Struct(record)) = self.set.types.get_mut(index) {
            record.fields = fields;
            record.has_default = has_default;
        }
        let known = Known { name: name.clone(), description: description.clone(), has_default };
        self.known.insert(key, known);
        Ok(Some(Part { ty: name, has_default, args, described: description }))
    }
}

fn required(schema: &Map<String, Value>) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
