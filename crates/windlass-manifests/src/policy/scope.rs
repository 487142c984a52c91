//! Where in an object a rule stands, as an expression about the whole object.

use k8s_openapi::api::admissionregistration::v1::Validation;
use serde_json::Value;
use windlass_api::RESERVED;

use super::spoken;

/// What a value is called, and under which conditions there is one.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// `spec.list[].name`
    place: String,
    /// What calls the value.
    value: String,
    /// What stands before a condition about the value: that there is none, or that it is about each of several.
    before: String,
    /// And behind it.
    behind: String,
    /// What the value was.
    old: Option<Old>,
    /// How many variables are bound so far.
    bound: usize,
}

#[derive(Clone, Debug)]
struct Old {
    value: String,
    /// What is true if there was a value.
    there: Vec<String>,
}

impl Scope {
    /// The whole object.
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

    /// A field, which need not be there.
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

    /// Each item of a list.
    pub(super) fn item(&self, list: &Value) -> Self {
        let item = format!("item{}", self.bound + 1);
        let mut scope = self.each(&item, "[]");
        scope.value.clone_from(&item);
        // Items are the same that have the same keys; of others nobody knows what they were.
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

    /// Each value of a map.
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

    /// A rule about the value, or why a policy cannot say it.
    pub(super) fn validation(&self, schema: &Value, rule: &Value) -> Result<Validation, String> {
        let text = |key: &str| rule[key].as_str().filter(|text| !text.is_empty());
        let source = text("rule").unwrap_or_default();
        spoken::alike(source, schema)?;
        let is_optional = rule["optionalOldSelf"] == Value::Bool(true);
        let about_self = format!("[{}].all(self, {source})", self.value);
        let uses_old = spoken::names(source).any(|name| name == "oldSelf");
        let condition = match self.old.as_ref().filter(|_| uses_old) {
            None if uses_old => return Err("a policy does not know which of the old items it was".to_owned()),
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
        // What is bound is gone when the message is made.
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

/// Whether a field is there, and what calls it: in policies, names that are no identifiers are keys.
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
