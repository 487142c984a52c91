//! Cases for every kind: the templates of `matrix/`, filled in for each kind of `matrix/kinds.tsv`.
//!
//! A template is a case (see [`crate::case`]) with additional placeholders:
//!
//! - `{collection}` is the path of the kind's objects, in the namespace of the case if they are namespaced.
//!   `{everywhere}` is the path over all namespaces, `{object}` the path of the kind's object, and `{root}` their
//!   common prefix.
//! - `{body}` is the object. `{body + change + {"a":1}}` is the object with merge patches applied. `{members}` is the
//!   object without its braces.
//! - `{name}`, `{kind}`, `{apiVersion}`, `{resource}` are names of the kind.
//!
//! `=== a-name` is for kinds whose objects only clients change. `=== a-name for all` also includes kinds whose status
//! the server writes at any time. `for status` and `for scale` are for kinds with that subresource.
//!
//! Recordings contain placeholders for the names of the kind, so kinds with equal responses share a recording.

use std::fs;

use serde_json::{Map, Value, json};

use crate::{
    case::{self, Act, Case, Step, Template},
    play::as_address,
    suite::root,
    words::Words,
};

/// The example object of a built-in kind.
#[derive(Clone, Debug)]
pub struct Example {
    /// The name of the resource, with its group: `deployments.apps`.
    pub label: String,
    /// A small valid object, with name, labels, kind and version. Namespaced objects have a namespace.
    pub object: Value,
}

/// A kind, with an example object.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: String,
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) pace: Pace,
    pub(crate) subresources: Vec<String>,
    /// A small valid object with name, labels, kind and version.
    pub(crate) body: Value,
    /// A merge patch that changes it.
    pub(crate) change: Value,
}

/// The influence of other objects and of the server on a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Only the client writes the objects.
    Steady,
    /// The objects affect other objects: webhook configurations, classes, address ranges.
    Shared,
    /// The server writes their status at any time.
    Moving,
}

/// Parses a file of templates, and returns the cases by kind.
pub(crate) fn cases(text: &str) -> Result<Vec<Case>, String> {
    let templates = case::parse(text)?;
    let kinds = kinds()?;
    let mut cases = Vec::new();
    for template in &templates {
        let (name, scope) = template.name.split_once(" for ").unwrap_or((&template.name, "steady"));
        for kind in kinds.iter().filter(|kind| kind.is_in(scope)) {
            let steps = template.steps.iter().map(|step| kind.step(step)).collect::<Result<_, _>>();
            let steps = steps.map_err(|problem| format!("{name}: {problem}"))?;
            cases.push(Case { name: format!("{name}/{}", kind.label()), steps, words: kind.words() });
        }
    }
    Ok(cases)
}

/// Reads the kinds of `matrix/kinds.tsv` with their recorded discovery.
pub(crate) fn kinds() -> Result<Vec<Kind>, String> {
    let read = |path: &str| fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"));
    let discovery = read("../crates/windlass-server/data/discovery.tsv")?;
    let lines = read("matrix/kinds.tsv")?;
    lines.lines().filter(|line| !line.starts_with('#')).map(|line| Kind::parse(line, &discovery)).collect()
}

/// Returns an example of each built-in kind of `matrix/kinds.tsv`. `id` makes the names unique.
///
/// # Panics
///
/// If the table cannot be read.
#[must_use]
pub fn example_objects(namespace: &str, id: &str) -> Vec<Example> {
    let kinds = kinds().unwrap_or_else(|problem| panic!("{problem}"));
    kinds.iter().map(|kind| Example { label: kind.label(), object: kind.object(namespace, id) }).collect()
}

impl Pace {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "steady" => Ok(Self::Steady),
            "shared" => Ok(Self::Shared),
            "moving" => Ok(Self::Moving),
            other => Err(format!("neither steady nor shared nor moving: {other}")),
        }
    }
}

impl Kind {
    fn parse(line: &str, discovery: &str) -> Result<Self, String> {
        let [api_version, resource, pace, body, change] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("no five columns: {line}"));
        };
        let value = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| format!("{error}: {text}"));
        let group = if api_version.contains('/') { format!("@{api_version}") } else { format!("@/{api_version}") };
        let mut rows =
            discovery.lines().skip_while(|line| *line != group).skip(1).take_while(|line| !line.starts_with('@'));
        let row = rows.find(|row| row.split('\t').next() == Some(resource));
        let row: Vec<_> = row.ok_or_else(|| format!("{api_version} {resource} is not served"))?.split('\t').collect();
        let subresources = rows.map_while(|row| row.strip_prefix('\t')).filter_map(|row| row.split('\t').next());
        let mut kind = Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            kind: row[1].to_owned(),
            namespaced: row[3] == "N",
            pace: Pace::parse(pace)?,
            subresources: subresources.map(str::to_owned).collect(),
            body: json!({"apiVersion": api_version, "kind": row[1], "metadata": {"name": "a-{id}", "labels": {"case": "{id}"}}}),
            change: value(change)?,
        };
        merge(&mut kind.body, &value(body)?);
        Ok(kind)
    }

    /// Returns kubectl's name of the resource, with the version if it is not the first.
    pub(crate) fn label(&self) -> String {
        match self.api_version.split_once('/') {
            None => self.resource.clone(),
            Some((group, "v1")) => format!("{}.{group}", self.resource),
            Some((group, version)) => format!("{}.{version}.{group}", self.resource),
        }
    }

    /// Reports whether only clients write such objects.
    pub(crate) fn is_steady(&self) -> bool {
        self.pace != Pace::Moving
    }

    /// Reports whether its objects affect other objects.
    pub(crate) fn is_shared(&self) -> bool {
        self.pace == Pace::Shared
    }

    fn is_in(&self, scope: &str) -> bool {
        match scope {
            "all" => true,
            "steady" => self.is_steady(),
            subresource => self.is_steady() && self.subresources.iter().any(|name| name == subresource),
        }
    }

    /// Returns `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) fn root(&self) -> String {
        let prefix = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{prefix}/{}", self.api_version)
    }

    pub(crate) fn collection(&self) -> String {
        let namespace = if self.namespaced { "/namespaces/{ns}" } else { "" };
        format!("{}{namespace}/{}", self.root(), self.resource)
    }

    /// Returns the example object with all placeholders filled in.
    fn object(&self, namespace: &str, id: &str) -> Value {
        let text =
            self.body.to_string().replace("{ns}", namespace).replace("{id}", id).replace("{id6}", &as_address(id));
        let mut object: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if self.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    pub(crate) fn name(&self) -> &str {
        self.body["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn step(&self, step: &Step) -> Result<Step, String> {
        let request = |template: &Template| {
            Ok::<_, String>(Template {
                method: template.method.clone(),
                path: self.fill(&template.path)?,
                headers: template.headers.clone(),
                body: self.fill(&template.body)?,
            })
        };
        let act = match &step.act {
            Act::Request(template) => Act::Request(request(template)?),
            Act::Watch { name, request: template } => Act::Watch { name: name.clone(), request: request(template)? },
            Act::Read { name, amount } => Act::Read { name: name.clone(), amount: *amount },
        };
        Ok(Step { act, ..step.clone() })
    }

    /// Returns the text with the kind's placeholders filled in.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        // Bodies first, because their content is not a template.
        while let Some((before, after)) = split_at_sum(rest) {
            let (value, after) = self.sum(after)?;
            filled.push_str(&self.fill_words(before));
            filled.push_str(&value.to_string());
            rest = after;
        }
        filled.push_str(&self.fill_words(rest));
        Ok(filled)
    }

    fn fill_words(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let body = self.body.to_string();
        let everywhere = format!("{}/{}", self.root(), self.resource);
        let object = format!("{}/{}", self.collection(), self.name());
        let members = body.trim_start_matches('{').trim_end_matches('}');
        let words = [
            ("{collection}", &*self.collection()),
            ("{everywhere}", &everywhere),
            ("{object}", &object),
            ("{members}", &body[1..=members.len()]),
            ("{root}", &self.root()),
            ("{name}", self.name()),
            ("{kind}", &self.kind),
            ("{apiVersion}", &self.api_version),
            ("{resource}", &self.resource),
        ];
        words.iter().fold(text.to_owned(), |text, (placeholder, word)| text.replace(placeholder, word))
    }

    /// Parses `body + change + {…}}…`. Returns its value, and the text after the closing brace.
    fn sum<'a>(&self, text: &'a str) -> Result<(Value, &'a str), String> {
        let mut sum = Value::Object(Map::new());
        let mut rest = text;
        loop {
            let term = if let Some(after) = rest.strip_prefix("body") {
                rest = after;
                self.body.clone()
            } else if let Some(after) = rest.strip_prefix("change") {
                rest = after;
                self.change.clone()
            } else {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
                let value = values.next().and_then(Result::ok).ok_or_else(|| format!("no JSON: {rest}"))?;
                rest = &rest[values.byte_offset()..];
                let filled = self.fill_words(&value.to_string());
                serde_json::from_str(&filled).map_err(|error| format!("{error}: {filled}"))?
            };
            merge(&mut sum, &term);
            if let Some(after) = rest.strip_prefix('}') {
                return Ok((sum, after));
            }
            rest = rest.strip_prefix(" + ").ok_or_else(|| format!("neither + nor }}: {rest}"))?;
        }
    }

    /// Returns the words that recordings replace with placeholders.
    fn words(&self) -> Words {
        let mut words = vec![
            (self.resource.clone(), "{resource}"),
            (self.kind.clone(), "{kind}"),
            (format!("{}/{}", self.collection(), self.name()), "{object}"),
            (self.collection(), "{collection}"),
        ];
        // Most names need no placeholder.
        if !self.name().starts_with("a-") {
            words.push((self.name().to_owned(), "a-{id}"));
        }
        // The core version is also that of every `Status`.
        if let Some((group, _)) = self.api_version.split_once('/') {
            words.push((self.api_version.clone(), "{apiVersion}"));
            words.push((format!("{}.{group}", self.resource), "{resource}"));
            words.push((format!("{}.{group}", self.kind), "{kind}"));
            words.push((format!("\"group\":\"{group}\","), ""));
        }
        Words::new(words)
    }
}

/// Splits the text before the first sum of bodies.
fn split_at_sum(text: &str) -> Option<(&str, &str)> {
    let at = ["{body", "{change"].into_iter().filter_map(|start| text.find(start)).min()?;
    Some((&text[..at], &text[at + 1..]))
}

/// Applies a merge patch to a value. A null removes the member, as in RFC 7386.
pub(crate) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (key, patch) in patch {
        if patch.is_null() {
            fields.shift_remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), patch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(label: &str) -> Kind {
        kinds().unwrap().into_iter().find(|kind| kind.label() == label).unwrap()
    }

    #[test]
    fn a_template_is_filled_in_with_paths_and_sums_of_bodies() {
        let kind = kind("roles.rbac.authorization.k8s.io");
        let root = "/apis/rbac.authorization.k8s.io/v1";
        assert_eq!(kind.fill("{object}?a").unwrap(), format!("{root}/namespaces/{{ns}}/roles/a-{{id}}?a"));
        assert_eq!(kind.fill("{everywhere}").unwrap(), format!("{root}/roles"));
        let filled = kind.fill(r#"{body + {"rules":null,"metadata":{"labels":null,"x":"{rv}"}}}"#).unwrap();
        assert_eq!(
            filled,
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a-{id}","x":"{rv}"}}"#
        );
        assert!(kind.fill("{body - 1}").is_err());
    }

    #[test]
    fn kinds_know_their_subresources_and_versions() {
        assert_eq!(kind("deployments.apps").subresources, ["scale", "status"]);
        assert!(kind("horizontalpodautoscalers.v2.autoscaling").is_in("status"));
        assert!(!kind("configmaps").is_in("status"));
        assert!(!kind("flowschemas.flowcontrol.apiserver.k8s.io").is_in("status"), "the server writes it, too");
    }

    #[test]
    fn names_of_a_kind_become_placeholders() {
        let words = kind("jobs.batch").words();
        let text = r#"jobs.batch "j" of kind "Job", {"group":"batch","kind":"jobs"}, "batch/v1", JobStatus, cronjobs"#;
        let written =
            r#"{resource} "j" of kind "{kind}", {"kind":"{resource}"}, "{apiVersion}", {kind}Status, cronjobs"#;
        assert_eq!(words.generic(text), written);
    }
}
