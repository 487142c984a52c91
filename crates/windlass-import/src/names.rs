//! Conversion of JSON names to unique, valid Rust names.

use std::collections::BTreeSet;

/// The used names of one scope.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeSet<String>);

/// Names that a module imports or the prelude has, so types cannot have them.
const RESERVED: [&str; 24] = [
    "BTreeMap",
    "Box",
    "ByteString",
    "Clone",
    "Copy",
    "CustomResource",
    "Debug",
    "Default",
    "Deserialize",
    "Eq",
    "Err",
    "IntOrString",
    "Map",
    "None",
    "ObjectMeta",
    "Ok",
    "Option",
    "Quantity",
    "Schema",
    "Self",
    "Serialize",
    "Some",
    "String",
    "Time",
];

impl Names {
    /// Creates the scope for the types of a module.
    pub(crate) fn of_types() -> Self {
        let more = ["PartialEq", "Value", "Vec", "Result", "Iterator", "From", "Into", "Drop", "Fn", "Send", "Sync"];
        Self(RESERVED.iter().chain(&more).map(|name| (*name).to_owned()).collect())
    }

    /// Takes the name, or the first free one of `name2`, `name3`, ….
    pub(crate) fn take(&mut self, name: &str, joint: &str) -> String {
        let mut taken = name.to_owned();
        let mut number = 2;
        while !self.0.insert(taken.clone()) {
            taken = format!("{name}{joint}{number}");
            number += 1;
        }
        taken
    }
}

/// Splits a name into words: `HTTPRoute-v2` into `http`, `route`, `v2`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (place, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = place.checked_sub(1).map(|place| letters[place]);
        let next = letters.get(place + 1);
        // `IPs` is one word.
        let is_plural = next == Some(&'s') && !letters.get(place + 2).is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                !before.is_ascii_uppercase() || (next.is_some_and(char::is_ascii_lowercase) && !is_plural)
            });
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns a field name: `http_get` for `httpGet`, `type` for `type`. Not escaped.
pub(crate) fn field(name: &str) -> String {
    let mut field = words(name).join("_");
    if field.is_empty() {
        field = spelled(name).join("_").to_ascii_lowercase();
    }
    if field.starts_with(|first: char| first.is_ascii_digit()) {
        field = format!("field_{field}");
    }
    // These cannot be escaped.
    if matches!(field.as_str(), "self" | "super" | "crate") {
        field.push('_');
    }
    field
}

/// Escapes a field name if it is a keyword.
pub(crate) fn escaped(field: &str) -> String {
    if syn::parse_str::<syn::Ident>(field).is_ok() { field.to_owned() } else { format!("r#{field}") }
}

/// Returns the module name of a kind: `http_route` for `HTTPRoute`.
pub(crate) fn escaped_module(kind: &str) -> String {
    let name = field(kind);
    if syn::parse_str::<syn::Ident>(&name).is_ok() { name } else { format!("{name}_") }
}

/// Returns a type or variant name: `HttpGet` for `http-get` and `httpGet`. A name in capitals becomes a single word.
pub(crate) fn pascal(name: &str) -> String {
    words(name)
        .iter()
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
        })
        .collect()
}

/// Returns a variant name: `Aes256` for `AES-256`, `NotEqual` for `!=`, `Value1` for `1`.
pub(crate) fn variant(value: &str) -> String {
    let mut name = pascal(value);
    if name.is_empty() {
        name = spelled(value).concat();
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name = format!("Value{name}");
    }
    if name == "Self" { "Self_".to_owned() } else { name }
}

/// Spells a name without letters and digits, character by character.
fn spelled(name: &str) -> Vec<&'static str> {
    let sign = |sign: char| match sign {
        '!' => "Not",
        '=' => "Equal",
        '<' => "Less",
        '>' => "Greater",
        '+' => "Plus",
        '-' => "Minus",
        '*' => "Star",
        '/' => "Slash",
        '.' => "Dot",
        '_' => "Underscore",
        '~' => "Tilde",
        '$' => "Dollar",
        '@' => "At",
        '#' => "Hash",
        '%' => "Percent",
        '&' => "And",
        '|' => "Or",
        ' ' => "Space",
        _ => "Other",
    };
    if name.is_empty() { vec!["Empty"] } else { name.chars().map(sign).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_json_key_becomes_a_field_name() {
        for (json, name) in [
            ("httpGet", "http_get"),
            ("HTTPRoute", "http_route"),
            ("clusterIPs", "cluster_ips"),
            ("type", "type"),
            ("self", "self_"),
            ("x-foo.bar/baz", "x_foo_bar_baz"),
            ("$ref", "ref"),
            ("1st", "field_1st"),
            ("", "empty"),
            ("***", "star_star_star"),
            ("größe", "gr_e"),
        ] {
            assert_eq!(field(json), name);
            assert!(syn::parse_str::<syn::Ident>(&escaped(&field(json)).replace("r#", "a")).is_ok(), "{json}");
            assert!(syn::parse_str::<syn::Expr>(&escaped(&field(json))).is_ok(), "{json}");
        }
        assert_eq!(escaped("type"), "r#type");
    }

    #[test]
    fn any_enum_value_becomes_a_variant() {
        for (value, name) in [
            ("AES-256", "Aes256"),
            ("!=", "NotEqual"),
            ("", "Empty"),
            ("1.2", "Value12"),
            ("Self", "Self_"),
            ("é", "Other"),
        ] {
            assert_eq!(variant(value), name);
            assert!(syn::parse_str::<syn::Ident>(&variant(value)).is_ok(), "{value}");
        }
    }

    #[test]
    fn equal_type_names_are_made_unique() {
        let mut names = Names::of_types();
        assert_eq!([names.take("Site", ""), names.take("Site", ""), names.take("Vec", "")], ["Site", "Site2", "Vec2"]);
    }
}
