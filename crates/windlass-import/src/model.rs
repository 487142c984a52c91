//! The CRD of the types in a Rust module. Instead of compiling, it generates the code of the derives and interprets it.

use std::{cell::RefCell, collections::BTreeMap};

use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, MicroTime, ObjectMeta, Time},
        util::intstr::IntOrString,
    },
};
use quote::ToTokens as _;
use serde_json::Value;
use syn::{DeriveInput, ImplItem, Item, ItemImpl, Type};
use windlass_api::{
    Quantity,
    crd::{CrdBuilder, schema_of, unsupported_schema},
};

use crate::{
    error::Error,
    interpreter::{Interpreter, Schemas},
    type_path::named,
};

/// The types of a module.
pub(crate) struct Types {
    types: BTreeMap<String, DeriveInput>,
    /// The schemas of types, as far as they have been needed.
    known: RefCell<BTreeMap<String, JSONSchemaProps>>,
    /// The types whose schemas are being generated.
    open: RefCell<Vec<String>>,
}

/// Returns the CRD of the kind that a module declares, with the single version in it.
///
/// Types of other modules are supported only if they are common and the derives support them: types of the standard
/// library, times, quantities, conditions.
pub fn definition(source: &str) -> Result<CustomResourceDefinition, Error> {
    let wrong = |why: String| Error::Model { what: "the module".to_owned(), why };
    let file = syn::parse_file(source).map_err(|error| {
        let place = error.span().start();
        wrong(format!("line {}: {error}", place.line))
    })?;
    let mut types = BTreeMap::new();
    for item in file.items {
        let item = match item {
            Item::Struct(item) => item.into_token_stream(),
            Item::Enum(item) => item.into_token_stream(),
            _ => continue,
        };
        let input: DeriveInput = syn::parse2(item).map_err(|error| wrong(error.to_string()))?;
        types.insert(input.ident.to_string(), input);
    }
    let types = Types { types, known: RefCell::default(), open: RefCell::default() };
    let kind = types.types.values().find(|input| derives(input, "CustomResource"));
    let kind = kind.ok_or_else(|| wrong("no type in it derives CustomResource".to_owned()))?;
    types.definition(kind).map_err(|why| Error::Model { what: kind.ident.to_string(), why })
}

/// Returns the CRD of a kind, merged from its versions.
pub(crate) fn merged(declared: Vec<CustomResourceDefinition>) -> Result<Value, Error> {
    let name = declared.first().and_then(|first| first.metadata.name.clone()).unwrap_or_default();
    let wrong = |why: String| Error::Model { what: name.clone(), why };
    let definition = CrdBuilder::declared(declared).build().map_err(|error| wrong(error.to_string()))?;
    serde_json::to_value(definition).map_err(|error| wrong(error.to_string()))
}

/// Reports whether a type has the derive.
fn derives(input: &DeriveInput, name: &str) -> bool {
    let mut found = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        // An unreadable attribute derives nothing.
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == name);
            Ok(())
        });
    }
    found
}

impl Types {
    fn definition(&self, kind: &DeriveInput) -> Result<CustomResourceDefinition, String> {
        let code = windlass_derive_model::custom_resource(kind).map_err(|error| error.to_string())?;
        let file: syn::File = syn::parse2(code).map_err(|error| error.to_string())?;
        let mut constants = BTreeMap::new();
        for item in &implementation(&file, "Resource")?.items {
            if let ImplItem::Const(constant) = item
                && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &constant.expr
            {
                constants.insert(constant.ident.to_string(), text.value());
            }
        }
        let body = body(implementation(&file, "CustomResource")?)?;
        Interpreter::new(self).definition(body, &constants)
    }

    fn of_module(&self, name: &str) -> Result<JSONSchemaProps, String> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        if self.open.borrow().iter().any(|open| open == name) {
            return Ok(unsupported_schema(format!("{name} contains itself, and a structural schema ends")));
        }
        let input = self.types.get(name).ok_or_else(|| format!("there is no type {name}"))?;
        self.open.borrow_mut().push(name.to_owned());
        let schema = windlass_derive_model::schema(input)
            .and_then(syn::parse2::<syn::File>)
            .map_err(|error| format!("{name}: {error}"))
            .and_then(|file| Interpreter::new(self).schema(body(implementation(&file, "Schema")?)?));
        self.open.borrow_mut().pop();
        let schema = schema?;
        self.known.borrow_mut().insert(name.to_owned(), schema.clone());
        Ok(schema)
    }
}

impl Schemas for Types {
    fn schema_of(&self, ty: &Type) -> Result<JSONSchemaProps, String> {
        let (name, arguments) = named(ty)?;
        let argument =
            |index: usize| arguments.get(index).copied().ok_or_else(|| format!("{name} has too few parameters"));
        let list = |item: JSONSchemaProps| JSONSchemaProps {
            items: Some(JSONSchemaPropsOrArray::Schema(Box::new(item))),
            ..schema_of::<Vec<bool>>()
        };
        let map = |value: JSONSchemaProps| JSONSchemaProps {
            additional_properties: Some(JSONSchemaPropsOrBool::Schema(Box::new(value))),
            ..schema_of::<BTreeMap<String, bool>>()
        };
        if self.types.contains_key(&name) {
            return self.of_module(&name);
        }
        Ok(match name.as_str() {
            "Option" | "Box" => self.schema_of(argument(0)?)?,
            "Vec" => list(self.schema_of(argument(0)?)?),
            "BTreeMap" => map(self.schema_of(argument(1)?)?),
            "bool" => schema_of::<bool>(),
            "String" => schema_of::<String>(),
            "i32" => schema_of::<i32>(),
            "i64" => schema_of::<i64>(),
            "u32" => schema_of::<u32>(),
            "u64" => schema_of::<u64>(),
            "f64" => schema_of::<f64>(),
            "Value" => schema_of::<Value>(),
            "Map" => schema_of::<serde_json::Map<String, Value>>(),
            "ByteString" => schema_of::<ByteString>(),
            "Condition" => schema_of::<Condition>(),
            "IntOrString" => schema_of::<IntOrString>(),
            "LabelSelector" => schema_of::<LabelSelector>(),
            "MicroTime" => schema_of::<MicroTime>(),
            "ObjectMeta" => schema_of::<ObjectMeta>(),
            "Quantity" => schema_of::<Quantity>(),
            "Time" => schema_of::<Time>(),
            _ => return Err(format!("the schema of {name} is unknown")),
        })
    }
}

/// Returns the impl of a trait.
fn implementation<'f>(file: &'f syn::File, name: &str) -> Result<&'f ItemImpl, String> {
    let mut impls = file.items.iter().filter_map(|item| if let Item::Impl(item) = item { Some(item) } else { None });
    let is_it = |item: &&ItemImpl| {
        let last = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
        last.is_some_and(|last| last.ident == name)
    };
    impls.find(is_it).ok_or_else(|| format!("the derive wrote no impl of {name}"))
}

/// Returns the body of the impl's only function.
fn body(implementation: &ItemImpl) -> Result<&syn::Block, String> {
    let mut functions = implementation
        .items
        .iter()
        .filter_map(|item| if let ImplItem::Fn(function) = item { Some(&function.block) } else { None });
    functions.next().ok_or_else(|| "the derive wrote no function".to_owned())
}
