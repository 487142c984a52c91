//! Workloads: the file format, and the built-in workloads.

mod document;

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde::Serialize;

use crate::{
    error::{Error, Result},
    expression::{Expression, Variables},
    number::{float, seconds, whole},
    template::Template,
};
use document::{Document, PhaseDocument, ReadDocument, SetDocument};
pub(crate) use document::{Order, ReadScope, ReadVerb, Wait};

/// The built-in workloads with their texts.
const BUILT_IN: [(&str, &str); 2] =
    [("load", include_str!("workload/load.yaml")), ("density", include_str!("workload/density.yaml"))];

/// The maximum length of the name of a set, so that the names of its objects are valid as labels.
const NAME: usize = 40;

/// The maximum number of namespaces, and of objects of one phase.
const MOST: usize = 10_000_000;

/// A workload, as read from its file.
#[derive(Clone, Debug)]
pub struct Workload {
    file: String,
    document: Document,
}

/// The size of a run. Values that are not set are those of the workload.
#[derive(Clone, Debug, Default)]
pub struct Size {
    /// The number of nodes of the cluster.
    pub nodes: usize,
    /// The number of pods for each node.
    pub pods_per_node: Option<f64>,
    /// The rate, in pods or requests per second, as the workload defines it.
    pub rate: Option<f64>,
    /// The number of namespaces.
    pub namespaces: Option<usize>,
    /// The rate of the churn, in requests per second. 0 for none.
    pub churn: f64,
    /// The duration of the churn.
    pub duration: Duration,
    /// Parameters of the workload to replace.
    pub parameters: BTreeMap<String, f64>,
}

/// The limits of the service level objectives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The latency of requests that write one object, in seconds.
    pub write: f64,
    /// The latency of requests that read one object, in seconds.
    pub get: f64,
    /// The latency of lists of one namespace, in seconds.
    pub list_namespace: f64,
    /// The latency of lists of the whole cluster, in seconds.
    pub list_cluster: f64,
    /// The time from the creation of a pod until a watch reports that its containers have started, in seconds.
    pub pod_startup: f64,
}

/// A workload with its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Scaled {
    pub(crate) name: String,
    pub(crate) variables: Variables,
    pub(crate) namespaces: usize,
    pub(crate) sets: Vec<Set>,
    pub(crate) reads: Vec<Read>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) limits: Limits,
}

/// Objects of one template.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) template: Template,
    /// The number of objects in each namespace, or of all objects together.
    pub(crate) count: Count,
    pub(crate) replicas: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    PerNamespace(usize),
    Total(usize),
}

/// Reads beside the writes of the phases.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) verb: ReadVerb,
    pub(crate) scope: ReadScope,
    /// The set whose resource is read. `None` for pods.
    pub(crate) of: Option<usize>,
    /// The number of reads for each write.
    pub(crate) share: f64,
    /// The page size of a list. `None` for a list without pages.
    pub(crate) limit: Option<u32>,
    /// Accepts any state that the server has in memory (resource version 0).
    pub(crate) cached: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) action: Action,
    /// The indices of the sets.
    pub(crate) sets: Vec<usize>,
    /// The part of the objects that the phase changes.
    pub(crate) share: f64,
    pub(crate) pace: Pace,
    pub(crate) order: Order,
    pub(crate) wait: Wait,
    /// The maximum time to wait. `None` for that of the run.
    pub(crate) timeout: Option<Duration>,
    pub(crate) reads: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Create,
    /// Changes the replicas to a factor of the set's, between the two.
    Scale {
        min: f64,
        max: f64,
    },
    Update(Template),
    Delete,
    /// Deletes an object and creates another, in turn.
    Churn,
    /// Sends only reads.
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// Requests per second, for all objects.
    Rate(f64),
    /// Seconds for all objects.
    Duration(f64),
    /// Requests per second, for this number of seconds.
    Limited { rate: f64, duration: f64 },
}

impl Action {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Scale { .. } => "scale",
            Self::Update(_) => "update",
            Self::Delete => "delete",
            Self::Churn => "churn",
            Self::Read => "read",
        }
    }
}

impl Workload {
    /// Returns a built-in workload.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let text = Self::text(name)?;
        Some(Self::parse(name, text).expect("the built-in workloads are valid, as a test checks"))
    }

    /// Returns the file of a built-in workload.
    #[must_use]
    pub fn text(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Returns the names of the built-in workloads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in workload of this name, or reads a file.
    pub fn open(name: &str) -> Result<Self> {
        if let Some(workload) = Self::built_in(name) {
            return Ok(workload);
        }
        let path = Path::new(name);
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(name, &text),
            Err(source) => Err(Error::Read { file: path.to_owned(), source }),
        }
    }

    /// Parses a workload. `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let document: Document = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| Error::Workload { file: file.to_owned(), message: error.to_string() })?;
        let workload = Self { file: file.to_owned(), document };
        // Numbers that depend on the size can be anything, but their expressions have to be valid.
        workload.scale(&Size { nodes: 100, ..Size::default() })?;
        Ok(workload)
    }

    /// Returns the name of the workload.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.document.name
    }

    /// Returns an error that names the file.
    pub(crate) fn invalid(&self, message: String) -> Error {
        Error::Workload { file: self.file.clone(), message }
    }

    /// Computes the numbers of a run.
    pub(crate) fn scale(&self, size: &Size) -> Result<Scaled> {
        self.scaled(size).map_err(|message| self.invalid(message))
    }

    fn scaled(&self, size: &Size) -> Result<Scaled, String> {
        let (variables, namespaces) = self.variables(size)?;
        let numbers = Numbers { document: &self.document, variables: &variables };
        let sets = self.document.objects.0.iter().map(|(name, set)| numbers.set(name, set, namespaces));
        let sets = sets.collect::<Result<_, _>>()?;
        let reads = self.document.reads.iter().enumerate();
        let reads =
            reads.map(|(index, read)| numbers.read(&format!("reads[{index}]"), read)).collect::<Result<_, _>>()?;
        let phases = self.document.phases.iter().enumerate();
        let phases = phases.map(|(index, phase)| numbers.phase(&format!("phases[{index}]"), phase));
        let phases = phases.collect::<Result<_, _>>()?;
        let limits = self.document.slos.limits().map_err(|error| format!("slos: {error}"))?;
        Ok(Scaled { name: self.document.name.clone(), variables, namespaces, sets, reads, phases, limits })
    }

    /// Computes the variables, and the number of namespaces.
    fn variables(&self, size: &Size) -> Result<(Variables, usize), String> {
        let Document { rate, pods_per_node, namespaces, parameters, .. } = &self.document;
        let mut variables = Variables::new();
        for (name, value) in
            [("nodes", float(size.nodes)), ("churn", size.churn), ("churnSeconds", size.duration.as_secs_f64())]
        {
            variables.insert(name.to_owned(), value);
        }
        for (name, field, given, default) in [
            ("podsPerNode", pods_per_node, size.pods_per_node, 30.0),
            ("rate", rate, size.rate, 10.0),
            ("namespaces", namespaces, size.namespaces.map(float), 1.0),
        ] {
            let value = match (given, field) {
                (Some(given), _) => given,
                (None, Some(field)) => field.evaluate(&variables).map_err(|error| format!("{name}: {error}"))?,
                (None, None) => default,
            };
            if value < 0.0 || (value == 0.0 && name != "podsPerNode") {
                return Err(format!("{name} is {value}; it has to be positive"));
            }
            variables.insert(name.to_owned(), value);
        }
        let namespaces = whole(variables["namespaces"]).max(1);
        if namespaces > MOST {
            return Err(format!("namespaces is {namespaces}, more than {MOST}"));
        }
        let pods = variables["nodes"] * variables["podsPerNode"];
        variables.insert("namespaces".to_owned(), float(namespaces));
        variables.insert("pods".to_owned(), pods);
        variables.insert("podsPerNamespace".to_owned(), pods / float(namespaces));
        let is_unknown = |name: &&String| !parameters.0.iter().any(|(known, _)| known == *name);
        if let Some(unknown) = size.parameters.keys().find(is_unknown) {
            let known: Vec<&str> = parameters.0.iter().map(|(name, _)| name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("unknown parameter {unknown:?}; the parameters are {known}"));
        }
        for (name, expression) in &parameters.0 {
            let value = match size.parameters.get(name) {
                Some(given) => *given,
                None => expression.evaluate(&variables).map_err(|error| format!("parameters.{name}: {error}"))?,
            };
            if variables.insert(name.clone(), value).is_some() {
                return Err(format!("parameters.{name}: the name is that of a variable"));
            }
        }
        Ok((variables, namespaces))
    }
}

/// Computes the numbers of a document. Errors begin with the place.
struct Numbers<'d> {
    document: &'d Document,
    variables: &'d Variables,
}

impl Numbers<'_> {
    fn set(&self, name: &str, set: &SetDocument, namespaces: usize) -> Result<Set, String> {
        let place = format!("objects.{name}");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.len() > NAME || !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) {
            return Err(format!("{place}: a name consists of at most {NAME} of a-z, 0-9 and -, and begins with a-z"));
        }
        let count = match (&set.count, &set.total) {
            (Some(count), None) => Count::PerNamespace(whole(self.number(&place, "count", count)?)),
            (None, Some(total)) => Count::Total(whole(self.number(&place, "total", total)?)),
            _ => return Err(format!("{place}: needs either count or total")),
        };
        let all = match count {
            Count::PerNamespace(count) => count.saturating_mul(namespaces),
            Count::Total(total) => total,
        };
        if all > MOST {
            return Err(format!("{place}: {all} objects are more than {MOST}"));
        }
        let replicas = self.optional(&place, "replicas", set.replicas.as_ref())?;
        let field = |field: &str| {
            let text = set.template.get(field).and_then(serde_json::Value::as_str);
            text.map(str::to_owned).ok_or_else(|| format!("{place}.template: {field} is missing"))
        };
        let template = Template::parse(&set.template).map_err(|error| {
            let is_nested = error.starts_with(['.', '[']);
            if is_nested { format!("{place}.template{error}") } else { format!("{place}.template: {error}") }
        })?;
        Ok(Set {
            name: name.to_owned(),
            api_version: field("apiVersion")?,
            kind: field("kind")?,
            template,
            count,
            replicas,
        })
    }

    fn read(&self, place: &str, read: &ReadDocument) -> Result<Read, String> {
        let of = match read.of.as_deref() {
            None | Some("pods") => None,
            Some(set) => Some(self.index(&format!("{place}.of"), set)?),
        };
        if read.verb == ReadVerb::Get && (read.limit.is_some() || read.scope.is_some()) {
            return Err(format!("{place}: get has neither scope nor limit"));
        }
        let share = self.number(place, "share", &read.share)?;
        let scope = read.scope.unwrap_or(ReadScope::Namespace);
        Ok(Read { verb: read.verb, scope, of, share, limit: read.limit, cached: read.cached })
    }

    fn phase(&self, place: &str, phase: &PhaseDocument) -> Result<Phase, String> {
        let (action, names) = phase.action().map_err(|error| format!("{place}: {error}"))?;
        let sets: Result<Vec<usize>, String> = names.iter().map(|name| self.index(place, name)).collect();
        let rate = self.optional(place, "rate", phase.rate.as_ref())?;
        let pace = match (rate, self.optional(place, "duration", phase.duration.as_ref())?) {
            (Some(rate), Some(duration)) => Pace::Limited { rate, duration },
            _ if matches!(action, Action::Churn | Action::Read) => {
                return Err(format!("{place}: {} needs rate and duration", action.name()));
            }
            (Some(rate), None) => Pace::Rate(rate),
            (None, Some(duration)) => Pace::Duration(duration),
            (None, None) => Pace::Rate(self.variables["rate"]),
        };
        let action = match (action, &phase.factor) {
            (Action::Scale { .. }, None) => return Err(format!("{place}: scale needs factor")),
            (Action::Scale { .. }, Some(factor)) => {
                let (min, max) =
                    (self.number(place, "factor.min", &factor.min)?, self.number(place, "factor.max", &factor.max)?);
                if min > max {
                    return Err(format!("{place}.factor: {min} is more than {max}"));
                }
                Action::Scale { min, max }
            }
            (action, _) => action,
        };
        let timeout = phase.timeout.as_deref().map(duration_of).transpose();
        Ok(Phase {
            name: phase.name.clone(),
            action,
            sets: sets?,
            share: self.optional(place, "share", phase.share.as_ref())?.unwrap_or(1.0).min(1.0),
            pace,
            order: phase.order,
            wait: phase.wait,
            timeout: timeout.map_err(|error| format!("{place}.timeout: {error}"))?,
            reads: phase.reads,
        })
    }

    /// Returns the index of a set.
    fn index(&self, place: &str, wanted: &str) -> Result<usize, String> {
        let sets = &self.document.objects.0;
        sets.iter().position(|(name, _)| name == wanted).ok_or_else(|| {
            let known: Vec<&str> = sets.iter().map(|(name, _)| name.as_str()).collect();
            format!("{place}: unknown objects {wanted:?}; the objects are {}", known.join(", "))
        })
    }

    fn optional(&self, place: &str, field: &str, of: Option<&Expression>) -> Result<Option<f64>, String> {
        of.map(|of| self.number(place, field, of)).transpose()
    }

    /// Returns the value of a field, which must not be negative.
    fn number(&self, place: &str, field: &str, expression: &Expression) -> Result<f64, String> {
        let value = expression.evaluate(self.variables).map_err(|error| format!("{place}.{field}: {error}"))?;
        if value < 0.0 {
            return Err(format!("{place}.{field}: {expression} is {value}, which is negative"));
        }
        Ok(value)
    }
}

impl Scaled {
    /// Returns the value of a variable.
    pub(crate) fn variable(&self, name: &str) -> f64 {
        self.variables.get(name).copied().unwrap_or_default()
    }
}

impl Phase {
    /// Reports whether the phase has nothing to do, because its rate or its duration is 0.
    pub(crate) fn is_skipped(&self) -> bool {
        match self.pace {
            Pace::Rate(rate) => rate == 0.0,
            Pace::Duration(_) => false,
            Pace::Limited { rate, duration } => rate == 0.0 || duration == 0.0,
        }
    }

    /// Returns the number of writes for this number of objects, and the time between two.
    pub(crate) fn spread(&self, objects: usize) -> (usize, Duration) {
        match self.pace {
            Pace::Rate(rate) => (objects, seconds(1.0 / rate)),
            Pace::Duration(duration) => (objects, seconds(duration / float(objects.max(1)))),
            Pace::Limited { rate, duration } => {
                let most = whole((rate * duration).round()).clamp(1, MOST);
                let writes = if matches!(self.action, Action::Churn | Action::Read) { most } else { most.min(objects) };
                (writes, seconds(1.0 / rate))
            }
        }
    }
}

/// Parses a duration that is not negative.
fn duration_of(text: &str) -> Result<Duration, String> {
    let duration = windlass_api::parse_duration(text).map_err(|error| error.to_string())?;
    Duration::try_from(duration).map_err(|_| format!("a duration of {text} is negative"))
}

#[cfg(test)]
mod tests;
