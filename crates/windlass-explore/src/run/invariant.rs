//! Invariants of the objects of a cluster.

use std::{fmt, path::Path, sync::Arc};

use serde::Deserialize;
use serde_json::Value;
use windlass_cel::{Environment, Expected, LIMIT_PER_CALL, Presence, Program, Schema};

use crate::{
    error::{Error, Result},
    record::ObjectName,
};

/// An invariant: a condition that objects must meet.
///
/// A file contains a list of them:
///
/// ```
/// # use windlass_explore::Invariant;
/// # let text = r#"
/// - message: a website has no more pages than it wants
///   resource: websites.example.dev
///   expression: "!has(object.status) || object.status.pages <= object.spec.pages"
/// - message: there is at most one primary
///   resource: pods
///   namespace: default
///   expression: objects.filter(pod, pod.metadata.?labels.?role.orValue('') == 'primary').size() <= 1
///   when: always
/// # "#
/// # .trim_start();
/// # assert_eq!(Invariant::read(text)?.len(), 2);
/// # Ok::<_, windlass_explore::Error>(())
/// ```
///
/// The CEL expression has the variable `object`, or `objects` for all objects together. `namespace` and `name` select
/// objects; without them, it is about all objects of the resource. Invariants hold when the cluster has settled after a
/// step, or with `when: always`, after each change. An expression that cannot be evaluated is violated.
#[derive(Clone)]
pub struct Invariant {
    spec: Spec,
    program: Arc<Program>,
}

/// An invariant in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    message: String,
    /// The plural name with the group, such as `pods` or `deployments.apps`.
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    expression: String,
    #[serde(default)]
    when: When,
}

/// The time when an invariant must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum When {
    /// After each change.
    Always,
    /// When the cluster has settled after a step.
    #[default]
    Settled,
}

impl Invariant {
    /// Reads the invariants in a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if its content or an expression is invalid.
    pub fn open(path: &Path) -> Result<Vec<Self>> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        parse(&text).map_err(|reason| Error::Invalid { path: path.to_owned(), reason })
    }

    /// Reads a list of invariants from YAML.
    ///
    /// # Errors
    ///
    /// If the YAML or an expression is invalid.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        parse(text).map_err(|reason| Error::Invalid { path: "invariants".into(), reason })
    }

    /// Returns the message of the invariant.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.spec.message
    }

    /// Returns the resource with its group.
    pub(super) fn resource(&self) -> &str {
        &self.spec.resource
    }

    pub(super) fn when(&self) -> When {
        self.spec.when
    }

    /// Returns `true` if the invariant is about an object.
    pub(super) fn selects(&self, object: &ObjectName) -> bool {
        let Spec { resource, namespace, name, .. } = &self.spec;
        object.resource == *resource
            && namespace.as_ref().is_none_or(|namespace| object.namespace == *namespace)
            && name.as_ref().is_none_or(|name| object.name == *name)
    }

    /// Returns `true` if the invariant is about each object, not about all objects together.
    pub(super) fn is_of_each(&self) -> bool {
        !self.program.uses("objects")
    }

    /// Returns `Ok(true)` if an object meets the invariant. The error is that of the evaluation.
    pub(super) fn holds(&self, object: &Value) -> Result<bool, String> {
        self.evaluate(&[("object", Some(object))])
    }

    /// Returns `Ok(true)` if all objects together meet the invariant.
    pub(super) fn holds_together(&self, objects: Vec<Value>) -> Result<bool, String> {
        self.evaluate(&[("objects", Some(&Value::Array(objects)))])
    }

    fn evaluate(&self, values: &[(&str, Option<&Value>)]) -> Result<bool, String> {
        self.program.condition(values, LIMIT_PER_CALL).result.map_err(|error| error.to_string())
    }
}

fn parse(text: &str) -> Result<Vec<Invariant>, String> {
    let specs: Vec<Spec> = serde_saphyr::from_str(text)
        // Further lines quote the file.
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    specs.into_iter().map(Spec::compile).collect()
}

impl Spec {
    fn compile(self) -> Result<Invariant, String> {
        let invalid = |reason: &str| format!("invariant {:?}: {reason}", self.message);
        let any = Schema::any();
        let environment =
            Environment::new().with("object", &any, Presence::Certain).with("objects", &any, Presence::Certain);
        let program = environment
            .compile(&self.expression, Expected::Bool)
            .map_err(|error| invalid(&format!("expression: {error}")))?;
        if program.uses("object") == program.uses("objects") {
            return Err(invalid("the expression uses either object or objects"));
        }
        Ok(Invariant { spec: self, program: Arc::new(program) })
    }
}

impl fmt::Debug for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.spec, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invariant_is_evaluated() {
        let text = "- {message: a, resource: pods, expression: 'object.n < 2'}\n\
                    - {message: b, resource: pods, name: x, expression: 'objects.size() < 2', when: always}\n";
        let invariants = Invariant::read(text).unwrap();
        let [each, together] = &invariants[..] else { panic!("{invariants:?}") };
        assert_eq!((each.message(), each.when(), each.is_of_each()), ("a", When::Settled, true));
        assert_eq!(each.holds(&json!({"n": 1})), Ok(true));
        assert_eq!(each.holds(&json!({"n": 2})), Ok(false));
        assert_eq!(each.holds(&json!({})), Err("no such key: n".to_owned()));
        assert_eq!((together.when(), together.is_of_each()), (When::Always, false));
        assert_eq!(together.holds_together(vec![json!({})]), Ok(true));
        assert_eq!(together.holds_together(vec![json!({}), json!({})]), Ok(false));
        let name = |text: &str| text.parse::<ObjectName>().unwrap();
        assert!(each.selects(&name("pods/default/y")) && !each.selects(&name("pods.metrics.k8s.io/default/y")));
        assert!(together.selects(&name("pods/default/x")) && !together.selects(&name("pods/default/y")));
    }

    #[test]
    fn invalid_invariants_are_rejected() {
        let error = |text: &str| Invariant::read(text).unwrap_err().to_string();
        let start = "- {message: m, resource: pods, expression: ";
        assert!(error(&format!("{start}'object.n <'}}")).starts_with("invariants: invariant \"m\": expression: ERROR"));
        let neither = "invariants: invariant \"m\": the expression uses either object or objects";
        assert_eq!(error(&format!("{start}'true'}}")), neither);
        assert!(error(&format!("{start}'true', then: x}}")).contains("then"));
    }
}
