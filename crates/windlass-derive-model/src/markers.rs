//! `#[schema(…)]`: schema attributes beyond the type. A table lists the keywords.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{
    Attribute, Error, Lit, LitStr, Path, Result, Token, Type, meta::ParseNestedMeta, parenthesized, parse::ParseStream,
    punctuated::Punctuated,
};

use crate::serde_attributes::until_comma;

/// The argument of a keyword.
enum Form {
    /// `= 1.5`
    Number,
    /// `= 1.5`; the variant's field is the schema field that excludes the bound itself.
    Bound(&'static str),
    /// A non-negative `= 3`.
    Count,
    /// `= "text"`
    Text,
    /// `= "text"` with one of these values.
    Choice(&'static [&'static str]),
    /// `("text", …)`
    Texts,
    /// `= json`
    Json,
    /// `= json`, with a schema.
    Schema,
    /// `(json, …)`, with schemas.
    Schemas,
    /// No argument.
    Flag,
}

/// The keywords that set one field of a schema: the keyword, the field and the argument.
const KEYWORDS: &[(&str, &str, Form)] = &[
    ("minimum", "minimum", Form::Number),
    ("maximum", "maximum", Form::Number),
    ("exclusive_minimum", "minimum", Form::Bound("exclusive_minimum")),
    ("exclusive_maximum", "maximum", Form::Bound("exclusive_maximum")),
    ("multiple_of", "multiple_of", Form::Number),
    ("min_length", "min_length", Form::Count),
    ("max_length", "max_length", Form::Count),
    ("min_items", "min_items", Form::Count),
    ("max_items", "max_items", Form::Count),
    ("min_properties", "min_properties", Form::Count),
    ("max_properties", "max_properties", Form::Count),
    ("pattern", "pattern", Form::Text),
    ("format", "format", Form::Text),
    ("title", "title", Form::Text),
    ("description", "description", Form::Text),
    ("type", "type_", Form::Choice(&["array", "boolean", "integer", "number", "object", "string"])),
    ("list_type", "x_kubernetes_list_type", Form::Choice(&["atomic", "map", "set"])),
    ("map_type", "x_kubernetes_map_type", Form::Choice(&["atomic", "granular"])),
    ("map_keys", "x_kubernetes_list_map_keys", Form::Texts),
    ("all_of", "all_of", Form::Schemas),
    ("any_of", "any_of", Form::Schemas),
    ("one_of", "one_of", Form::Schemas),
    ("not", "not", Form::Schema),
    ("default", "default", Form::Json),
    ("example", "example", Form::Json),
    ("nullable", "nullable", Form::Flag),
    ("preserve_unknown_fields", "x_kubernetes_preserve_unknown_fields", Form::Flag),
];

/// The keywords with individual implementations.
const OTHERS: &[&str] = &[
    "enum",
    "unique_items",
    "int_or_string",
    "embedded_resource",
    "schemaless",
    "immutable",
    "external_docs",
    "raw",
    "rule",
    "items",
    "values",
    "at_most_one_of",
    "exactly_one_of",
    "at_least_one_of",
    "optional",
    "required",
    "skip",
    "as",
    "crate",
];

/// Pairs of bounds that must not contradict each other.
const PAIRS: [(&str, &str); 4] = [
    ("minimum", "maximum"),
    ("min_length", "max_length"),
    ("min_items", "max_items"),
    ("min_properties", "max_properties"),
];

/// The place of the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Type,
    Field,
    /// In `items(…)` or `values(…)`.
    Part,
}

/// The attribute `optional` or `required` of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Optional,
    Required,
}

/// The attributes of one type or field.
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
#[derive(Default)]
pub(crate) struct Markers {
    /// Statements that change `schema`, a `&mut JSONSchemaProps`. `__derived` is the module `derived`.
    pub(crate) changes: Vec<TokenStream>,
    pub(crate) presence: Option<Presence>,
    pub(crate) has_default: bool,
    pub(crate) has_description: bool,
    pub(crate) is_skipped: bool,
    /// `true` if the attributes contain the whole schema, so that the type's is not used.
    pub(crate) is_whole: bool,
    /// The type whose schema is used instead.
    pub(crate) stand_in: Option<Type>,
    /// The path of `windlass_api`.
    pub(crate) api: Option<Path>,
    /// The fields in rules, which must exist.
    pub(crate) named: Vec<LitStr>,
    /// The keywords so far, with their numbers.
    given: Vec<(String, Option<f64>, Span)>,
}

impl Markers {
    pub(crate) fn read(attributes: &[Attribute], place: Place) -> Result<Self> {
        let mut markers = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("schema")) {
            attribute.parse_nested_meta(|meta| markers.take(&meta, place))?;
        }
        markers.checked()
    }

    /// Checks for contradictions.
    fn checked(self) -> Result<Self> {
        let given = |name: &str| self.given.iter().find(|(given, _, _)| given.trim_start_matches("exclusive_") == name);
        for (least, most) in PAIRS {
            if let (Some((_, Some(low), _)), Some((name, Some(high), span))) = (given(least), given(most))
                && low > high
            {
                return Err(Error::new(*span, format!("{name} is less than {least}: no value satisfies both")));
            }
        }
        let said = |name: &str| self.given.iter().find(|(given, _, _)| given == name);
        if let Some((_, _, span)) = said("list_type=map")
            && said("map_keys").is_none()
        {
            return Err(Error::new(*span, "a list of type \"map\" needs keys: map_keys(\"name\")"));
        }
        if let Some((_, _, span)) = said("map_keys")
            && said("list_type=map").is_none()
        {
            return Err(Error::new(*span, "map_keys requires list_type = \"map\""));
        }
        if let (Some(_), Some((_, _, span))) = (said("optional"), said("required")) {
            return Err(Error::new(*span, "a field is optional or required, not both"));
        }
        Ok(self)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        let ident = meta.path.get_ident().ok_or_else(|| meta.error(expected()))?;
        let name = ident.to_string();
        let is_repeated = matches!(name.as_str(), "rule" | "at_most_one_of" | "exactly_one_of" | "at_least_one_of");
        if !is_repeated && self.given.iter().any(|(given, _, _)| *given == name) {
            return Err(meta.error("given twice"));
        }
        self.given.push((name.clone(), None, ident.span()));
        if let Some((_, field, form)) = KEYWORDS.iter().find(|(keyword, _, _)| *keyword == name) {
            return self.keyword(&name, field, form, meta);
        }
        self.other(&name, meta, place)
    }

    fn keyword(&mut self, name: &str, field: &str, form: &Form, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let field: TokenStream = field.parse()?;
        let value = match form {
            Form::Number | Form::Bound(_) => {
                let number = number(meta.value()?)?;
                self.note_number(number);
                quote!(#number)
            }
            Form::Count => {
                let value = meta.value()?;
                let span = value.span();
                let count = number(value)?;
                if count < 0.0 || count.fract() != 0.0 {
                    return Err(Error::new(span, "expected a whole number that is not negative"));
                }
                self.note_number(count);
                quote!(#count as i64)
            }
            Form::Text => {
                let text: LitStr = meta.value()?.parse()?;
                quote!(::std::string::String::from(#text))
            }
            Form::Choice(choices) => {
                let text: LitStr = meta.value()?.parse()?;
                if !choices.contains(&text.value().as_str()) {
                    return Err(Error::new(text.span(), format!("expected one of {}", quoted(choices))));
                }
                self.given.push((format!("{name}={}", text.value()), None, text.span()));
                quote!(::std::string::String::from(#text))
            }
            Form::Texts => {
                let texts = texts(meta)?;
                quote!(::std::vec![#(::std::string::String::from(#texts)),*])
            }
            Form::Json => {
                let json = until_comma(meta.value()?)?;
                quote!(__derived::JSON(__derived::json!(#json)))
            }
            Form::Schema => {
                let json = until_comma(meta.value()?)?;
                quote!(::std::boxed::Box::new(__derived::read(__derived::json!(#json))))
            }
            Form::Schemas => {
                let schemas = values(meta)?;
                let schemas = schemas.iter().map(|Json(json)| quote!(__derived::read(__derived::json!(#json))));
                quote!(::std::vec![#(#schemas),*])
            }
            Form::Flag => quote!(true),
        };
        self.has_default |= name == "default";
        self.has_description |= name == "description";
        self.is_whole |= name == "type";
        self.changes.push(quote!(schema.#field = ::std::option::Option::Some(#value);));
        if let Form::Bound(exclusive) = form {
            let exclusive: TokenStream = exclusive.parse()?;
            self.changes.push(quote!(schema.#exclusive = ::std::option::Option::Some(true);));
        }
        Ok(())
    }

    fn other(&mut self, name: &str, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        let only = |wanted: Place, words: &str| {
            if place == wanted { Ok(()) } else { Err(meta.error(format!("`{name}` is only valid for {words}"))) }
        };
        match name {
            "enum" => {
                let values = values(meta)?;
                let values = values.iter().map(|Json(json)| quote!(__derived::JSON(__derived::json!(#json))));
                self.changes.push(quote!(schema.enum_ = ::std::option::Option::Some(::std::vec![#(#values),*]);));
            }
            // API servers reject the keyword `uniqueItems`, because it is slow. A set has the same meaning.
            "unique_items" => self.changes.push(quote! {
                schema.x_kubernetes_list_type = ::std::option::Option::Some(::std::string::String::from("set"));
            }),
            "int_or_string" | "schemaless" | "embedded_resource" => {
                self.is_whole |= name != "embedded_resource";
                let function = proc_macro2::Ident::new(name, Span::call_site());
                self.changes.push(quote!(__derived::#function(schema);));
            }
            "immutable" => self.changes.push(quote! {
                __derived::rule(schema, __derived::ValidationRule {
                    rule: ::std::string::String::from("self == oldSelf"),
                    message: ::std::option::Option::Some(::std::string::String::from("field is immutable")),
                    ..::std::default::Default::default()
                });
            }),
            "external_docs" => {
                let (mut url, mut description) = (None::<LitStr>, None::<LitStr>);
                meta.parse_nested_meta(|meta| {
                    let slot = match () {
                        () if meta.path.is_ident("url") => &mut url,
                        () if meta.path.is_ident("description") => &mut description,
                        () => return Err(meta.error("expected url or description")),
                    };
                    *slot = Some(meta.value()?.parse()?);
                    Ok(())
                })?;
                let (url, description) = (text_or_none(url.as_ref()), text_or_none(description.as_ref()));
                self.changes.push(quote! {
                    schema.external_docs = ::std::option::Option::Some(__derived::ExternalDocumentation {
                        url: #url,
                        description: #description,
                    });
                });
            }
            "raw" => {
                let text: LitStr = meta.value()?.parse()?;
                self.is_whole = true;
                self.changes.push(quote!(__derived::raw(schema, #text);));
            }
            "rule" => self.changes.push(rule(meta)?),
            "items" | "values" => {
                let mut inner = Self::default();
                meta.parse_nested_meta(|meta| inner.take(&meta, Place::Part))?;
                let Self { changes, is_whole, .. } = inner.checked()?;
                let anew = is_whole.then(|| quote!(*schema = ::std::default::Default::default();));
                let function = proc_macro2::Ident::new(name, Span::call_site());
                self.changes.push(quote!(__derived::#function(schema, |schema| { #anew #(#changes)* });));
            }
            "at_most_one_of" | "exactly_one_of" | "at_least_one_of" => {
                only(Place::Type, "types: it names their fields")?;
                let fields = texts(meta)?;
                let comparison = match name {
                    "at_most_one_of" => "<=",
                    "exactly_one_of" => "==",
                    _ => ">=",
                };
                let words = name.trim_end_matches("_of").replace('_', " ");
                self.changes.push(quote!(__derived::count_of(schema, #comparison, #words, &[#(#fields),*]);));
                self.named.extend(fields);
            }
            "optional" | "required" => {
                only(Place::Field, "fields")?;
                self.presence = Some(if name == "optional" { Presence::Optional } else { Presence::Required });
            }
            "skip" => {
                only(Place::Field, "fields")?;
                self.is_skipped = true;
            }
            "as" => self.stand_in = Some(meta.value()?.parse()?),
            "crate" => {
                only(Place::Type, "types")?;
                self.api = Some(meta.value()?.call(Path::parse_mod_style)?);
            }
            _ => return Err(meta.error(expected())),
        }
        Ok(())
    }

    /// Records the number of the last keyword.
    fn note_number(&mut self, number: f64) {
        if let Some((_, noted, _)) = self.given.last_mut() {
            *noted = Some(number);
        }
    }
}

/// Parses `rule(rule = "…", message = "…", …)`.
fn rule(meta: &ParseNestedMeta<'_>) -> Result<TokenStream> {
    const TEXTS: [&str; 5] = ["rule", "message", "message_expression", "reason", "field_path"];
    const REASONS: &[&str] = &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let mut texts: [Option<LitStr>; 5] = Default::default();
    let mut optional_old_self = quote!(::std::option::Option::None);
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("optional_old_self") {
            optional_old_self = quote!(::std::option::Option::Some(true));
            return Ok(());
        }
        let Some(index) = TEXTS.iter().position(|name| meta.path.is_ident(name)) else {
            return Err(meta.error(format!("expected one of {}, optional_old_self", TEXTS.join(", "))));
        };
        let text: LitStr = meta.value()?.parse()?;
        if TEXTS[index] == "reason" && !REASONS.contains(&text.value().as_str()) {
            return Err(Error::new(text.span(), format!("expected one of {}", quoted(REASONS))));
        }
        if text.value().trim().is_empty() {
            return Err(Error::new(text.span(), "the text is empty"));
        }
        texts[index] = Some(text);
        Ok(())
    })?;
    let [rule, message, message_expression, reason, field_path] = &texts;
    let Some(rule) = rule else { return Err(meta.error("the rule is missing: rule(rule = \"…\")")) };
    let [message, message_expression, reason, field_path] =
        [message, message_expression, reason, field_path].map(|text| text_or_none(text.as_ref()));
    Ok(quote! {
        __derived::rule(schema, __derived::ValidationRule {
            rule: ::std::string::String::from(#rule),
            message: #message,
            message_expression: #message_expression,
            reason: #reason,
            field_path: #field_path,
            optional_old_self: #optional_old_self,
        });
    })
}

/// A value in a list, as unparsed JSON.
struct Json(TokenStream);

impl syn::parse::Parse for Json {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        until_comma(input).map(Self)
    }
}

/// Parses `(1, {"a": 2})`.
fn values(meta: &ParseNestedMeta<'_>) -> Result<Vec<Json>> {
    let list;
    parenthesized!(list in meta.input);
    let values = Punctuated::<Json, Token![,]>::parse_terminated(&list)?;
    if values.is_empty() {
        return Err(meta.error("expected at least one value"));
    }
    Ok(values.into_iter().collect())
}

fn number(input: ParseStream<'_>) -> Result<f64> {
    let is_negative = input.parse::<Option<Token![-]>>()?.is_some();
    let literal: Lit = input.parse()?;
    let number = match &literal {
        Lit::Int(number) => number.base10_parse::<f64>()?,
        Lit::Float(number) => number.base10_parse::<f64>()?,
        other => return Err(Error::new(other.span(), "expected a number")),
    };
    Ok(if is_negative { -number } else { number })
}

/// Parses `("a", "b")`.
pub(crate) fn texts(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let list;
    parenthesized!(list in meta.input);
    let texts = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?;
    if texts.is_empty() {
        return Err(meta.error("the list is empty"));
    }
    Ok(texts.into_iter().collect())
}

/// Returns an `Option<String>` as an expression.
pub(crate) fn text_or_none(text: Option<&LitStr>) -> TokenStream {
    some_or_none(text.map(|text| quote!(::std::string::String::from(#text))))
}

/// Returns an `Option` as an expression.
pub(crate) fn some_or_none(value: Option<TokenStream>) -> TokenStream {
    value.map_or_else(|| quote!(::std::option::Option::None), |value| quote!(::std::option::Option::Some(#value)))
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("{choice:?}")).collect::<Vec<_>>().join(", ")
}

fn expected() -> String {
    format!("expected one of {}", keywords().join(", "))
}

/// Returns all keywords in alphabetical order.
pub(crate) fn keywords() -> Vec<&'static str> {
    let mut names = KEYWORDS.iter().map(|(name, _, _)| *name).chain(OTHERS.iter().copied()).collect::<Vec<_>>();
    names.sort_unstable();
    names
}
