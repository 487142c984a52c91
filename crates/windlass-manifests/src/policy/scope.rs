//! The scope of a rule in a schema, as an expression about the whole object.

use k8s_openapi::api::admissionregistration::v1::Validation;
use serde_json::Value;
use windlass_api::RESERVED;

use super::spoken;

/// The expression for a value, and the conditions under which it exists.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The place: `spec.list[].name`.
    place: String,
    /// The expression for the value.
    value: String,
    /// The text in front of a condition on the value: checks for existence and quantifiers.
    before: String,
    /// The text after the condition.
    behind: String,
    /// The expression for the old value.
    old: Option<Old>,
    /// The number of bound variables.
    bound: usize,
}

#[derive(Clone, Debug)]
struct Old {
    value: String,
    /// The conditions under which the old value exists.
    there: Vec<String>,
}

impl Scope {
    /// Returns the scope of the whole object.
    pub(super) fn object() -> Self {
        Self {
            place: String::new(),
            value: "object".to_owned(),
            before: String::new(),
            behind: String::new(),
            old: Some(Old { value: "oldObject".to_owned(), there: vec!["oldObject != null".to_owned()] }),
            bound: 0,
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the scope of a field, which may be absent.
    pub(super) fn property(&self, name: &str, schema: &Value) -> Self {
        let is_nullable = schema["nullable"] == Value::Bool(true);
        let mut scope = self.clone();
        if !scope.place.is_empty() {
            scope.place.push('.');
        }
        scope.place.push_str(name);
        let (has, value) = field(&self.value, name);
        scope.before.push_str(&format!("!{has} || "));
        if is_nullable {
            scope.before.push_str(&format!("{value} == null || "));
        }
        scope.value = value;
        scope.old = self.old.as_ref().map(|old| {
            let (has, value) = field(&old.value, name);
            let not_null = is_nullable.then(|| format!("{value} != null"));
            Old { there: old.there.iter().cloned().chain([has]).chain(not_null).collect(), value }
        });
        scope
    }

    /// Returns the scope of each item of a list.
    pub(super) fn item(&self, list: &Value) -> Self {
        let item = format!("item{}", self.bound + 1);
        let mut scope = self.each(&item, "[]");
        scope.value.clone_from(&item);
        // Items with equal keys are the same item. Without keys, the old value of an item is unknown.
        let keys = list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let other = format!("old{}", self.bound + 1);
        let same = keys.map(|key| format!("{} == {}", field(&other, key).1, field(&item, key).1)).collect::<Vec<_>>();
        scope.old = self.old.as_ref().filter(|_| !same.is_empty()).map(|old| {
            let (list, same) = (&old.value, same.join(" && "));
            let there = format!("{list}.exists({other}, {same})");
            Old {
                there: old.there.iter().cloned().chain([there]).collect(),
                value: format!("{list}.filter({other}, {same})[0]"),
            }
        });
        scope
    }

    /// Returns the scope of each value of a map.
    pub(super) fn entry(&self) -> Self {
        let key = format!("key{}", self.bound + 1);
        let mut scope = self.each(&key, "{}");
        scope.value = format!("{}[{key}]", self.value);
        scope.old = self.old.as_ref().map(|old| {
            let there = format!("{key} in {}", old.value);
            Old { there: old.there.iter().cloned().chain([there]).collect(), value: format!("{}[{key}]", old.value) }
        });
        scope
    }

    fn each(&self, variable: &str, place: &str) -> Self {
        let mut scope = self.clone();
        scope.place.push_str(place);
        scope.before.push_str(&format!("{}.all({variable}, ", self.value));
        scope.behind.push(')');
        scope.bound += 1;
        scope
    }

    /// Returns the validation for a rule about the value. Returns an error with the reason if a policy cannot express
    /// the rule.
    pub(super) fn validation(&self, schema: &Value, rule: &Value) -> Result<Validation, String> {
        let text = |key: &str| rule[key].as_str().filter(|text| !text.is_empty());
        let source = text("rule").unwrap_or_default();
        spoken::alike(source, schema)?;
        let is_optional = rule["optionalOldSelf"] == Value::Bool(true);
        let about_self = format!("[{}].all(self, {source})", self.value);
        let uses_old = spoken::names(source).any(|name| name == "oldSelf");
        let condition = match self.old.as_ref().filter(|_| uses_old) {
            None if uses_old => return Err("a policy cannot determine which of the old items it was".to_owned()),
            None => about_self,
            Some(Old { value, there }) if is_optional => {
                let there = there.join(" && ");
                format!("[{there} ? optional.of({value}) : optional.none()].all(oldSelf, {about_self})")
            }
            Some(Old { value, there }) => {
                format!("!({}) || [{value}].all(oldSelf, {about_self})", there.join(" && "))
            }
        };
        let path = format!("{}{}", self.place, text("fieldPath").unwrap_or_default());
        let path = match path.trim_start_matches('.') {
            "" => String::new(),
            path => format!("{path}: "),
        };
        let said = text("message").map_or_else(|| format!("failed rule: {source}"), str::to_owned);
        // Bound variables are not available in the message.
        let message = text("messageExpression")
            .filter(|message| self.bound == 0 && spoken::names(message).all(|name| name != "oldSelf"))
            .filter(|message| spoken::alike(message, schema).is_ok())
            .map(|message| format!("[{}].map(self, {})[0]", self.value, prefixed(&path, message)));
        Ok(Validation {
            expression: format!("{}{condition}{}", self.before, self.behind),
            message: Some(format!("{path}{said}")),
            message_expression: message,
            reason: None,
        })
    }
}

fn prefixed(path: &str, message: &str) -> String {
    if path.is_empty() { message.to_owned() } else { format!("'{path}' + ({message})") }
}

/// Returns the existence check and the expression of a field. In policies, names that are not identifiers become map
/// keys.
fn field(of: &str, name: &str) -> (String, String) {
    let is_identifier = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !RESERVED.contains(&name);
    if is_identifier {
        (format!("has({of}.{name})"), format!("{of}.{name}"))
    } else {
        let key = name.replace('\\', "\\\\").replace('\'', "\\'");
        (format!("('{key}' in {of})"), format!("{of}['{key}']"))
    }
}
