//! An interpreter for the code that the derives generate: calls of `windlass_api::crd::derived`, and a few statements
//! around them.
//!
//! Unknown code is an error and never ignored. So a test fails if the derives generate new code that this module does
//! not support.

use std::{collections::BTreeMap, mem};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use syn::{
    Block, Expr, ExprCall, ExprStruct, Lit, Member, Stmt, Token, Type, parse::Parser as _, punctuated::Punctuated,
};
use windlass_api::crd::derived;

use crate::type_path::is_optional;

/// A value in the code.
#[derive(Clone, Debug)]
enum Interpreted {
    /// Texts, numbers, flags, options, and structs with JSON names.
    Json(Value),
    Schema(Box<JSONSchemaProps>),
    /// Lists and tuples with values other than JSON.
    List(Vec<Self>),
    /// A `Declaration`.
    Struct(BTreeMap<String, Self>),
}

type Outcome<T> = Result<T, String>;

/// The schemas of the types that the code names.
pub(crate) trait Schemas {
    /// Returns the schema of a type.
    fn schema_of(&self, ty: &Type) -> Outcome<JSONSchemaProps>;
}

pub(crate) struct Interpreter<'t> {
    types: &'t dyn Schemas,
    /// The schemas in variables, and the variables' names, the newest last.
    schemas: Vec<JSONSchemaProps>,
    variables: Vec<(String, usize)>,
}

fn unknown<T>(what: &impl ToTokens) -> Outcome<T> {
    let text = what.to_token_stream().to_string();
    Err(format!("unsupported code of the derive: {}", text.chars().take(200).collect::<String>()))
}

impl<'t> Interpreter<'t> {
    pub(crate) const fn new(types: &'t dyn Schemas) -> Self {
        Self { types, schemas: Vec::new(), variables: Vec::new() }
    }

    /// Evaluates the body of `Schema::schema`.
    pub(crate) fn schema(mut self, body: &Block) -> Outcome<JSONSchemaProps> {
        self.block(body)?.schema()
    }

    /// Evaluates the body of `CustomResource::declared` for a type with these names.
    pub(crate) fn definition(
        mut self,
        body: &Block,
        names: &BTreeMap<String, String>,
    ) -> Outcome<CustomResourceDefinition> {
        let Interpreted::Struct(mut fields) = self.block(body)? else {
            return Err("the code has no declaration".to_owned());
        };
        let mut take = |name: &str| fields.remove(name).ok_or_else(|| format!("the declaration has no {name}"));
        let schema = take("schema")?.schema()?;
        let (labels, annotations) = (pairs(take("labels")?)?, pairs(take("annotations")?)?);
        let [short_names, categories, selectable] =
            ["short_names", "categories", "selectable"].map(|name| take(name)?.read::<Vec<String>>());
        let (short_names, categories, selectable) = (short_names?, categories?, selectable?);
        let [singular, list_kind, deprecated] =
            ["singular", "list_kind", "deprecated"].map(|name| take(name)?.read::<Option<String>>());
        let (singular, list_kind, deprecated) = (singular?, list_kind?, deprecated?);
        let name = |name: &str| names.get(name).map(String::as_str).ok_or_else(|| format!("the type has no {name}"));
        let declaration = derived::Declaration {
            singular: singular.as_deref(),
            list_kind: list_kind.as_deref(),
            short_names: &texts(&short_names),
            categories: &texts(&categories),
            labels: &texts_of_pairs(&labels),
            annotations: &texts_of_pairs(&annotations),
            scope: match take("scope")?.read::<String>()?.as_str() {
                "Cluster" => derived::Scope::Cluster,
                _ => derived::Scope::Namespaced,
            },
            served: take("served")?.read()?,
            storage: take("storage")?.read()?,
            deprecated: deprecated.as_deref(),
            status: take("status")?.read()?,
            scale: take("scale")?.read()?,
            columns: take("columns")?.read()?,
            selectable: &texts(&selectable),
            schema,
        };
        Ok(declaration.named(derived::Named {
            group: name("GROUP")?,
            version: name("VERSION")?,
            kind: name("KIND")?,
            plural: name("URL_PATH_SEGMENT")?,
        }))
    }

    // === statements ===

    fn block(&mut self, block: &Block) -> Outcome<Interpreted> {
        let known = self.variables.len();
        let mut last = Interpreted::Json(Value::Null);
        for statement in &block.stmts {
            last = match statement {
                Stmt::Item(syn::Item::Use(_)) => Interpreted::Json(Value::Null),
                Stmt::Local(local) => {
                    let (syn::Pat::Ident(name), Some(init)) = (&local.pat, &local.init) else { return unknown(local) };
                    self.bind(&name.ident.to_string(), &init.expr)?;
                    Interpreted::Json(Value::Null)
                }
                Stmt::Expr(Expr::Assign(assign), _) => {
                    self.assign(&assign.left, &assign.right)?;
                    Interpreted::Json(Value::Null)
                }
                Stmt::Expr(expr, _) => self.value(expr)?,
                other => return unknown(other),
            };
        }
        self.variables.truncate(known);
        Ok(last)
    }

    /// `let name = …` with a schema or a reference to one.
    fn bind(&mut self, name: &str, value: &Expr) -> Outcome<()> {
        let slot = if let Expr::Reference(reference) = value {
            self.slot(&reference.expr)?
        } else {
            let schema = self.value(value)?.schema()?;
            self.schemas.push(schema);
            self.schemas.len() - 1
        };
        self.variables.push((name.to_owned(), slot));
        Ok(())
    }

    /// Returns the index of the schema that a variable holds or refers to.
    fn slot(&self, expr: &Expr) -> Outcome<usize> {
        let expr = if let Expr::Reference(reference) = expr { &*reference.expr } else { expr };
        let Expr::Path(path) = expr else { return unknown(expr) };
        let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let found = self.variables.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, slot)| *slot).ok_or_else(|| format!("the derive did not declare {name}"))
    }

    fn assign(&mut self, place: &Expr, value: &Expr) -> Outcome<()> {
        match place {
            // `*schema = Default::default()`
            Expr::Unary(unary) => {
                let slot = self.slot(&unary.expr)?;
                self.schemas[slot] = self.value(value)?.schema()?;
            }
            Expr::Field(field) => {
                let slot = self.slot(&field.base)?;
                let Member::Named(name) = &field.member else { return unknown(place) };
                let value = self.value(value)?;
                set(&mut self.schemas[slot], &name.to_string(), value)?;
            }
            _ => return unknown(place),
        }
        Ok(())
    }

    // === expressions ===

    fn value(&mut self, expr: &Expr) -> Outcome<Interpreted> {
        match expr {
            Expr::Lit(literal) => literal_value(&literal.lit).map(Interpreted::Json),
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => {
                let number = self.value(&unary.expr)?.read::<f64>()?;
                Ok(Interpreted::Json(Value::from(-number)))
            }
            // A count, which is written as a float.
            Expr::Cast(cast) => {
                let number = self.value(&cast.expr)?.read::<f64>()?;
                #[allow(clippy::cast_possible_truncation, reason = "as the derive converts it")]
                let number = number as i64;
                Ok(Interpreted::Json(Value::from(number)))
            }
            Expr::Block(block) => self.block(&block.block),
            Expr::Group(group) => self.value(&group.expr),
            Expr::Paren(paren) => self.value(&paren.expr),
            Expr::Reference(reference) => self.value(&reference.expr),
            Expr::Array(array) => {
                array.elems.iter().map(|item| self.value(item)).collect::<Outcome<_>>().map(Interpreted::List)
            }
            Expr::Tuple(tuple) => {
                tuple.elems.iter().map(|item| self.value(item)).collect::<Outcome<_>>().map(Interpreted::List)
            }
            Expr::Struct(literal) => self.literal(literal),
            Expr::Macro(call) => {
                let last = call.mac.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                match last.as_str() {
                    "vec" => {
                        let items = Punctuated::<Expr, Token![,]>::parse_terminated
                            .parse2(call.mac.tokens.clone())
                            .map_err(|error| error.to_string())?;
                        items.iter().map(|item| self.value(item)).collect::<Outcome<_>>().map(Interpreted::List)
                    }
                    "json" => json(call.mac.tokens.clone()).map(Interpreted::Json),
                    _ => unknown(expr),
                }
            }
            Expr::MethodCall(call) if call.method == "of" => self.value(&call.receiver),
            Expr::Path(path) => {
                let last = path.path.segments.last().ok_or("a path has no end")?;
                match (last.ident.to_string().as_str(), &path.qself) {
                    ("None", _) => Ok(Interpreted::Json(Value::Null)),
                    ("OPTIONAL", Some(of)) => is_optional(&of.ty).map(|it| Interpreted::Json(it.into())),
                    ("Namespaced" | "Cluster", _) => Ok(Interpreted::Json(Value::from(last.ident.to_string()))),
                    _ => {
                        let slot = self.slot(expr)?;
                        Ok(Interpreted::Schema(Box::new(self.schemas[slot].clone())))
                    }
                }
            }
            Expr::Call(call) => self.call(call),
            _ => unknown(expr),
        }
    }

    /// Evaluates a struct literal, with JSON names.
    fn literal(&mut self, literal: &ExprStruct) -> Outcome<Interpreted> {
        let mut fields = BTreeMap::new();
        for field in &literal.fields {
            let Member::Named(name) = &field.member else { return unknown(literal) };
            fields.insert(name.to_string(), self.value(&field.expr)?);
        }
        let is_declaration = literal.path.segments.last().is_some_and(|last| last.ident == "Declaration");
        if is_declaration {
            return Ok(Interpreted::Struct(fields));
        }
        let mut json = Map::new();
        for (name, value) in fields {
            json.insert(json_name(&name), value.json()?);
        }
        Ok(Interpreted::Json(Value::Object(json)))
    }

    fn call(&mut self, call: &ExprCall) -> Outcome<Interpreted> {
        let Expr::Path(path) = &*call.func else { return unknown(call) };
        let last = path.path.segments.last().ok_or("a path has no end")?;
        let name = last.ident.to_string();
        let argument = |index: usize| call.args.get(index).ok_or_else(|| format!("{name} has too few arguments"));
        let whole = |schema: JSONSchemaProps| Ok(Interpreted::Schema(Box::new(schema)));
        match name.as_str() {
            // `String::from`, `Some`, `JSON`, `Box::new`: the value is the same in JSON.
            "from" | "Some" | "JSON" | "new" => self.value(argument(0)?),
            "default" => whole(JSONSchemaProps::default()),
            "schema_of" => {
                let syn::PathArguments::AngleBracketed(list) = &last.arguments else { return unknown(call) };
                let Some(syn::GenericArgument::Type(ty)) = list.args.first() else { return unknown(call) };
                self.schema_of(ty)
            }
            "object" => whole(derived::object()),
            "finished" => whole(derived::finished(self.value(argument(0)?)?.schema()?)),
            "or_null" => {
                let (schema, may_be) = (self.value(argument(0)?)?.schema()?, self.value(argument(1)?)?.read()?);
                whole(derived::or_null(schema, may_be))
            }
            "texts" => {
                let names = self.value(argument(0)?)?.read::<Vec<String>>()?;
                whole(derived::texts(&texts(&names)))
            }
            "keyed" => {
                let variants = self.variants(argument(0)?)?;
                let variants = variants.iter().map(|(name, data)| (name.as_str(), data.clone().unwrap_or_default()));
                whole(derived::keyed(variants.collect()))
            }
            "tagged" => {
                let (tag, variants) = (self.value(argument(0)?)?.read::<String>()?, self.variants(argument(1)?)?);
                whole(derived::tagged(
                    &tag,
                    variants.iter().map(|(name, data)| (name.as_str(), data.clone())).collect(),
                ))
            }
            "tagged_beside" => {
                let (tag, content) =
                    (self.value(argument(0)?)?.read::<String>()?, self.value(argument(1)?)?.read::<String>()?);
                let variants = self.variants(argument(2)?)?;
                let variants = variants.iter().map(|(name, data)| (name.as_str(), data.clone())).collect();
                whole(derived::tagged_beside(&tag, &content, variants))
            }
            "either" => {
                let Interpreted::List(variants) = self.value(argument(0)?)? else { return unknown(call) };
                whole(derived::either(variants.into_iter().map(Interpreted::schema).collect::<Outcome<_>>()?))
            }
            "read" => whole(derived::read(self.value(argument(0)?)?.json()?)),
            _ => self.change(&name, call),
        }
    }

    fn schema_of(&self, ty: &Type) -> Outcome<Interpreted> {
        self.types.schema_of(ty).map(|schema| Interpreted::Schema(Box::new(schema)))
    }

    /// Evaluates a call that changes the schema in a variable.
    fn change(&mut self, name: &str, call: &ExprCall) -> Outcome<Interpreted> {
        let argument = |index: usize| call.args.get(index).ok_or_else(|| format!("{name} has too few arguments"));
        let slot = self.slot(argument(0)?)?;
        let mut schema = mem::take(&mut self.schemas[slot]);
        match name {
            "field" | "flatten" => {
                // The name, if any, is the second argument.
                let named = usize::from(name == "field");
                let part = self.value(argument(1 + named)?)?.schema()?;
                let is_optional = self.value(argument(2 + named)?)?.read()?;
                if name == "field" {
                    let name = self.value(argument(1)?)?.read::<String>()?;
                    derived::field(&mut schema, &name, part, is_optional);
                } else {
                    derived::flatten(&mut schema, part, is_optional);
                }
            }
            "items" | "values" => {
                let Expr::Closure(closure) = argument(1)? else { return unknown(call) };
                let mut outcome = Ok(());
                let change = |inner: &mut JSONSchemaProps| {
                    self.schemas.push(mem::take(inner));
                    let slot = self.schemas.len() - 1;
                    self.variables.push(("schema".to_owned(), slot));
                    outcome = self.value(&closure.body).map(drop);
                    self.variables.pop();
                    *inner = mem::take(&mut self.schemas[slot]);
                };
                if name == "items" {
                    derived::items(&mut schema, change);
                } else {
                    derived::values(&mut schema, change);
                }
                outcome?;
            }
            "int_or_string" => derived::int_or_string(&mut schema),
            "schemaless" => derived::schemaless(&mut schema),
            "embedded_resource" => derived::embedded_resource(&mut schema),
            "raw" => derived::raw(&mut schema, &self.value(argument(1)?)?.read::<String>()?),
            "rule" => derived::rule(&mut schema, self.value(argument(1)?)?.read()?),
            "count_of" => {
                let [comparison, words] = [1, 2].map(|index| self.value(argument(index)?)?.read::<String>());
                let fields = self.value(argument(3)?)?.read::<Vec<String>>()?;
                derived::count_of(&mut schema, &comparison?, &words?, &texts(&fields));
            }
            _ => return unknown(call),
        }
        self.schemas[slot] = schema;
        Ok(Interpreted::Json(Value::Null))
    }

    /// Returns the variants of an enum: names, and the schemas of their data.
    fn variants(&mut self, list: &Expr) -> Outcome<Vec<(String, Option<JSONSchemaProps>)>> {
        let Interpreted::List(variants) = self.value(list)? else { return unknown(list) };
        let pair = |variant: Interpreted| {
            let Interpreted::List(pair) = variant else { return unknown(list) };
            let [name, data] = <[Interpreted; 2]>::try_from(pair).map_err(|_| "a variant is no pair".to_owned())?;
            let data = match data {
                Interpreted::Json(Value::Null) => None,
                data => Some(data.schema()?),
            };
            Ok((name.read()?, data))
        };
        variants.into_iter().map(pair).collect()
    }
}

impl Interpreted {
    fn schema(self) -> Outcome<JSONSchemaProps> {
        match self {
            Self::Schema(schema) => Ok(*schema),
            other => Err(format!("expected a schema, not {other:?}")),
        }
    }

    fn json(self) -> Outcome<Value> {
        Ok(match self {
            Self::Json(value) => value,
            Self::Schema(schema) => serde_json::to_value(schema).map_err(|error| error.to_string())?,
            Self::List(items) => Value::Array(items.into_iter().map(Self::json).collect::<Outcome<_>>()?),
            Self::Struct(_) => return Err("a declaration is not a value".to_owned()),
        })
    }

    fn read<T: DeserializeOwned>(self) -> Outcome<T> {
        serde_json::from_value(self.json()?).map_err(|error| error.to_string())
    }
}

fn pairs(list: Interpreted) -> Outcome<Vec<(String, String)>> {
    list.read()
}

fn texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn texts_of_pairs(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Returns the JSON name of a Rust field: `jsonPath` for `json_path`, `type` for `type_`.
fn json_name(field: &str) -> String {
    windlass_derive_model::Case::Camel.of_field(field.trim_end_matches('_'))
}

/// `schema.field = value`
fn set(schema: &mut JSONSchemaProps, field: &str, value: Interpreted) -> Outcome<()> {
    macro_rules! fields {
        ($($name:ident),*) => {
            match field {
                $(stringify!($name) => schema.$name = value.read()?,)*
                "default" => schema.default = Some(derived::JSON(value.json()?)),
                "example" => schema.example = Some(derived::JSON(value.json()?)),
                _ => return Err(format!("the derive sets the unknown field {field}")),
            }
        };
    }
    fields!(
        all_of,
        any_of,
        description,
        enum_,
        exclusive_maximum,
        exclusive_minimum,
        external_docs,
        format,
        max_items,
        max_length,
        max_properties,
        maximum,
        min_items,
        min_length,
        min_properties,
        minimum,
        multiple_of,
        not,
        nullable,
        one_of,
        pattern,
        title,
        type_,
        x_kubernetes_list_map_keys,
        x_kubernetes_list_type,
        x_kubernetes_map_type,
        x_kubernetes_preserve_unknown_fields
    );
    Ok(())
}

// === literals ===

fn literal_value(literal: &Lit) -> Outcome<Value> {
    Ok(match literal {
        Lit::Str(text) => Value::from(text.value()),
        Lit::Bool(flag) => Value::from(flag.value),
        Lit::Int(number) if matches!(number.suffix(), "f64" | "f32") => {
            Value::from(number.base10_digits().parse::<f64>().map_err(|error| error.to_string())?)
        }
        Lit::Int(number) => serde_json::from_str(number.base10_digits()).map_err(|error| error.to_string())?,
        Lit::Float(number) => Value::from(number.base10_parse::<f64>().map_err(|error| error.to_string())?),
        other => return unknown(other),
    })
}

/// Evaluates the tokens of `json!`.
fn json(tokens: TokenStream) -> Outcome<Value> {
    let mut tokens = tokens.into_iter();
    let value = one_json(&mut tokens)?;
    if let Some(more) = tokens.next() { unknown(&more) } else { Ok(value) }
}

fn one_json(tokens: &mut impl Iterator<Item = TokenTree>) -> Outcome<Value> {
    let first = tokens.next().ok_or("a value is missing")?;
    match &first {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            let mut items = Vec::new();
            let mut inner = group.stream().into_iter().peekable();
            while inner.peek().is_some() {
                items.push(one_json(&mut inner)?);
                // The comma.
                inner.next();
            }
            Ok(Value::Array(items))
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let mut fields = Map::new();
            let mut inner = group.stream().into_iter().peekable();
            while inner.peek().is_some() {
                let Value::String(key) = one_json(&mut inner)? else { return unknown(&first) };
                // The colon.
                inner.next();
                fields.insert(key, one_json(&mut inner)?);
                inner.next();
            }
            Ok(Value::Object(fields))
        }
        // A macro argument is in an invisible group.
        TokenTree::Group(group) => json(group.stream()),
        TokenTree::Punct(sign) if sign.as_char() == '-' => match one_json(tokens)? {
            Value::Number(number) => serde_json::from_str(&format!("-{number}")).map_err(|error| error.to_string()),
            _ => unknown(&first),
        },
        TokenTree::Ident(word) => match word.to_string().as_str() {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => unknown(&first),
        },
        TokenTree::Literal(literal) => literal_value(&Lit::new(literal.clone())),
        TokenTree::Punct(_) => unknown(&first),
    }
}
