//! Label and field selectors: parsing, matching and printing.
//!
//! The error messages are those of the real server, which returns them to clients.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde_json::json;
use thiserror::Error;

use crate::validation;

/// A label selector: requirements on labels, all of which must be met. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values, sorted and without duplicates. Empty for `Exists` and `DoesNotExist`, one number for the
    /// comparisons.
    pub values: Vec<String>,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has the value: `a=b`.
    Equals,
    /// The label has one of the values: `a in (b,c)`.
    In,
    /// The label is absent or has another value: `a!=b`.
    NotEquals,
    /// The label is absent or has none of the values: `a notin (b,c)`.
    NotIn,
    /// The label is present: `a`.
    Exists,
    /// The label is absent: `!a`.
    DoesNotExist,
    /// The label is an integer greater than the value: `a>1`.
    GreaterThan,
    /// The label is an integer less than the value: `a<1`.
    LessThan,
}

/// A field selector: requirements on fields, all of which must be met. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path, for example `metadata.name`.
    pub field: String,
    /// `true` if the field must equal the value, `false` if it must differ.
    pub equal: bool,
    /// The value. Absent fields are treated as empty.
    pub value: String,
}

/// The error of a malformed selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

// === impl LabelSelector ===

impl LabelSelector {
    /// Creates a selector from requirements, which are sorted by key, as the API prints them.
    #[must_use]
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Creates a selector that requires every label of a map with its value.
    pub fn from_labels<'l>(labels: impl IntoIterator<Item = (&'l String, &'l String)>) -> Self {
        let equals = |(key, value): (&String, &String)| Requirement::new(key, Operator::Equals, [value.as_str()]);
        Self::new(labels.into_iter().map(equals).collect())
    }

    /// Returns this selector with an additional requirement.
    #[must_use]
    pub fn and(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        Self::new(self.requirements)
    }

    /// Returns the value that the selector requires of a label, if only one is possible.
    #[must_use]
    pub fn exact(&self, label: &str) -> Option<&str> {
        let is_exact = |requirement: &&Requirement| {
            requirement.key == label
                && matches!(requirement.operator, Operator::Equals | Operator::In)
                && requirement.values.len() == 1
        };
        self.requirements.iter().find(is_exact).map(|requirement| requirement.values[0].as_str())
    }

    /// Returns the requirements, ordered by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Reports whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Reports whether an object matches. `label` returns the value of a label.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Reports whether an object with these labels matches.
    #[must_use]
    pub fn matches_map(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches(|key| labels.get(key).map(String::as_str))
    }
}

#[cfg(feature = "k8s-openapi")]
impl TryFrom<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector> for LabelSelector {
    type Error = SelectorError;

    /// Converts the structured form of workloads: `matchLabels` and `matchExpressions`. If both are empty, the selector
    /// matches everything.
    fn try_from(selector: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector) -> Result<Self, Self::Error> {
        let equals = |(key, value): (&String, &String)| Requirement::checked(key, Operator::Equals, [value.as_str()]);
        let mut requirements =
            selector.match_labels.iter().flatten().map(equals).collect::<Result<Vec<_>, SelectorError>>()?;
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            let values = expression.values.iter().flatten().map(String::as_str);
            requirements.push(Requirement::checked(&expression.key, operator, values)?);
        }
        Ok(Self::new(requirements))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Parser { tokens: tokens(text), position: 0 }.selector().map(Self::new)
    }
}

// === impl Requirement ===

impl Requirement {
    /// Creates a requirement. The values are sorted, and duplicates removed.
    pub fn new<'v>(key: &str, operator: Operator, values: impl IntoIterator<Item = &'v str>) -> Self {
        let mut values: Vec<_> = values.into_iter().map(str::to_owned).collect();
        values.sort();
        values.dedup();
        Self { key: key.to_owned(), operator, values }
    }

    /// Creates a requirement after validating the key, the values and their number. The error messages are Go's.
    pub fn checked<'v>(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<Self, SelectorError> {
        let requirement = Self::new(key, operator, values);
        let values = &requirement.values;
        let mut errors: Vec<String> = validate_key(key, "key").into_iter().collect();
        let rule = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(rule) = rule {
            errors.push(format!("values: Invalid value: {}: {rule}", json!(values)));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            let odd = values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err());
            errors.extend(odd.map(|(index, value)| {
                format!(
                    "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )
            }));
        }
        errors.extend(values.iter().enumerate().filter_map(|(index, value)| validate_value(key, index, value)));
        match errors.as_slice() {
            [] => Ok(requirement),
            [only] => Err(SelectorError(only.clone())),
            several => Err(SelectorError(format!("[{}]", several.join(", ")))),
        }
    }

    /// Reports whether the label's value, or its absence, meets the requirement.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = || label.is_some_and(|label| self.values.iter().any(|value| value == label));
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        let bound = || self.values.first().and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::Equals | Operator::In => listed(),
            Operator::NotEquals | Operator::NotIn => !listed(),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => matches!((number(), bound()), (Some(number), Some(bound)) if number > bound),
            Operator::LessThan => matches!((number(), bound()), (Some(number), Some(bound)) if number < bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let first = values.first().map_or("", String::as_str);
        match operator {
            Operator::Equals => write!(f, "{key}={first}"),
            Operator::NotEquals => write!(f, "{key}!={first}"),
            Operator::In => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{first}"),
            Operator::LessThan => write!(f, "{key}<{first}"),
        }
    }
}

// === Parsing of label selectors ===

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Symbol(&'static str),
}

/// The longest first, so that `==` is not parsed as two symbols.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let token_end = if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),<>".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..end]));
            end
        };
        rest = rest[token_end..].trim_start();
    }
    tokens
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    position: usize,
}

impl<'t> Parser<'t> {
    fn selector(mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                None => return Ok(requirements),
                Some(Token::Symbol(",")) => match self.peek() {
                    Some(Token::Word(_) | Token::Symbol("!")) => {}
                    other => return Err(found(other, "identifier after ','")),
                },
                other => return Err(found(other.as_ref(), "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = match self.peek() {
            Some(Token::Symbol("!")) => true,
            Some(Token::Symbol(_)) => return Err(found(self.peek(), "!, identifier, or 'end of string'")),
            _ => false,
        };
        if negated {
            self.next();
        }
        let key = match self.next() {
            Some(Token::Word(word)) => word,
            other => return Err(unable(&found(other.as_ref(), "identifier"))),
        };
        if let Some(error) = validate_key(key, "<nil>") {
            return Err(unable(&SelectorError(error)));
        }
        if negated {
            return Ok(Requirement::new(key, Operator::DoesNotExist, []));
        }
        let operator = match self.peek() {
            None | Some(Token::Symbol(",")) => return Ok(Requirement::new(key, Operator::Exists, [])),
            Some(Token::Symbol("=" | "==")) => Operator::Equals,
            Some(Token::Symbol("!=")) => Operator::NotEquals,
            Some(Token::Symbol(">")) => Operator::GreaterThan,
            Some(Token::Symbol("<")) => Operator::LessThan,
            Some(Token::Word("in")) => Operator::In,
            Some(Token::Word("notin")) => Operator::NotIn,
            other => return Err(unable(&found(other, "in, notin, =, ==, !=, gt, lt"))),
        };
        self.next();
        let values = match operator {
            Operator::In | Operator::NotIn => self.values().map_err(|reason| unable(&reason))?,
            _ => vec![self.value().map_err(|reason| unable(&reason))?],
        };
        Requirement::checked(key, operator, values).map_err(|reason| unable(&reason))
    }

    /// Parses the value after `=` or a similar operator. A missing value is empty.
    fn value(&mut self) -> Result<&'t str, SelectorError> {
        match self.peek() {
            None | Some(Token::Symbol(",")) => Ok(""),
            Some(&Token::Word(word)) => {
                self.next();
                Ok(word)
            }
            other => Err(found(other, "identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'t str>, SelectorError> {
        match self.next() {
            Some(Token::Symbol("(")) => {}
            // The only message without a comma.
            other => return Err(SelectorError(format!("found '{}' expected: '('", text_of(other.as_ref())))),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Some(Token::Word(word)) => {
                    values.push(word);
                    match self.next() {
                        Some(Token::Symbol(",")) if self.peek() == Some(&Token::Symbol(")")) => values.push(""),
                        Some(Token::Symbol(",")) => {}
                        Some(Token::Symbol(")")) => return Ok(values),
                        other => return Err(found(other.as_ref(), "',' or ')'")),
                    }
                }
                Some(Token::Symbol(",")) => values.push(""),
                Some(Token::Symbol(")")) => {
                    if values.is_empty() {
                        values.push("");
                    }
                    return Ok(values);
                }
                other => return Err(found(other.as_ref(), "',', ')' or identifier")),
            }
        }
    }

    fn peek(&self) -> Option<&Token<'t>> {
        self.tokens.get(self.position)
    }

    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.tokens.get(self.position).cloned();
        self.position += 1;
        token
    }
}

fn found(token: Option<&Token<'_>>, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}', expected: {expected}", text_of(token)))
}

fn text_of<'t>(token: Option<&Token<'t>>) -> &'t str {
    match token {
        None => "",
        Some(Token::Word(word)) => word,
        Some(Token::Symbol(symbol)) => symbol,
    }
}

fn unable(reason: &SelectorError) -> SelectorError {
    SelectorError(format!("unable to parse requirement: {reason}"))
}

fn validate_key(key: &str, path: &str) -> Option<String> {
    let errors = validation::qualified_name(key);
    (!errors.is_empty()).then(|| format!("{path}: Invalid value: {key:?}: {}", errors.join("; ")))
}

fn validate_value(key: &str, index: usize, value: &str) -> Option<String> {
    let errors = validation::label_value(value);
    (!errors.is_empty()).then(|| format!("values[{index}][{key}]: Invalid value: {value:?}: {}", errors.join("; ")))
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Creates a selector for `metadata.name=name`.
    #[must_use]
    pub fn name(name: impl Into<String>) -> Self {
        Self::default().and_equal("metadata.name", name)
    }

    /// Returns this selector with the requirement `field=value`.
    #[must_use]
    pub fn and_equal(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.requirements.push(FieldRequirement { field: field.into(), equal: true, value: value.into() });
        self
    }

    /// Returns this selector with the requirement `field!=value`.
    #[must_use]
    pub fn and_not_equal(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.requirements.push(FieldRequirement { field: field.into(), equal: false, value: value.into() });
        self
    }

    /// Returns the requirements, in their order.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Reports whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Reports whether an object matches. `field` returns the value of a field, or an empty string for absent ones.
    pub fn matches<'f>(&self, field: impl Fn(&str) -> &'f str) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value) == requirement.equal)
    }

    /// Returns the value that the selector requires of `field`, if any.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|requirement| requirement.equal && requirement.field == field).map(|r| &*r.value)
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    /// Parses `a=b,c!=d,e==f`. The characters `\`, `,` and `=` in values are escaped with a backslash.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let operator = term.char_indices().find_map(|(at, _)| {
                ["!=", "==", "="]
                    .into_iter()
                    .find(|operator| term[at..].starts_with(operator))
                    .map(|operator| (at, operator))
            });
            let Some((at, operator)) = operator else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescape(&term[at + operator.len()..])?;
            // As in Go, an empty term is not a requirement.
            if at > 0 || !value.is_empty() {
                requirements.push(FieldRequirement { field: term[..at].to_owned(), equal: operator != "!=", value });
            }
        }
        Ok(Self { requirements })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, FieldRequirement { field, equal, value }) in self.requirements.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}")?;
            for c in value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped with a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => {
                    return Err(SelectorError(format!("invalid field selector: invalid escape sequence: \\{other}")));
                }
                None => {
                    return Err(SelectorError("invalid field selector: invalid escape sequence: \\".to_owned()));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
