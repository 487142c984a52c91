//! Records for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use windlass_api::difference::differences;

use crate::{
    plan::{Plan, Point},
    record::{Actor, Change, ChangeVerb, Injection, ObjectName, Outcome, Process, Record, Request, StepRecord},
};

/// Parses the name of an object.
pub(crate) fn object(text: &str) -> ObjectName {
    text.parse().unwrap()
}

/// Returns an empty, completed record with one process and three steps.
pub(crate) fn record() -> Record {
    let step = |number: u64| StepRecord {
        name: format!("step {number}"),
        started: Duration::from_secs(10 * number),
        starting_until: Duration::from_secs(10 * number),
        settled: Some(Duration::from_secs(10 * number + 5)),
        revision: 100 * number,
    };
    Record {
        plan: Plan::default(),
        outcome: Outcome::Completed,
        steps: (0..3).map(step).collect(),
        changes: Vec::new(),
        requests: Vec::new(),
        processes: vec![Process {
            number: 1,
            started: Duration::ZERO,
            ended: None,
            log: Vec::new(),
            dropped_lines: 0,
            panics: Vec::new(),
        }],
        injections: Vec::new(),
        end: BTreeMap::new(),
        took: Duration::from_secs(30),
        watched: BTreeSet::new(),
        violations: Vec::new(),
        fresh: Vec::new(),
    }
}

/// Returns a completed record with these objects at the end.
pub(crate) fn ended_with(objects: impl IntoIterator<Item = (ObjectName, Value)>) -> Record {
    let end = objects.into_iter().map(|(name, object)| (name, Arc::new(object))).collect();
    Record { end, ..record() }
}

/// Builds records change by change.
pub(crate) struct Builder {
    pub(crate) record: Record,
    step: usize,
    /// The UIDs of the existing objects.
    uids: BTreeMap<ObjectName, String>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { record: record(), step: 1, uids: BTreeMap::new() }
    }

    pub(crate) fn step(&mut self, step: usize) -> &mut Self {
        self.step = step;
        self
    }

    /// Adds a list and a watch of the program. `is_stale` adds `resourceVersion=0` to the list.
    pub(crate) fn watches(&mut self, path: &str, is_stale: bool) -> &mut Self {
        let version = if is_stale { "?resourceVersion=0" } else { "" };
        self.request("GET", &format!("{path}{version}"), Some(200));
        self.request("GET", &format!("{path}?watch=true&resourceVersion=1"), Some(200))
    }

    pub(crate) fn request(&mut self, method: &str, target: &str, status: Option<u16>) -> &mut Self {
        let started = self.now();
        self.record.requests.push(Request {
            process: 1,
            started,
            answered: Some(started),
            step: self.step,
            method: method.to_owned(),
            target: target.to_owned(),
            status,
            revision: None,
        });
        self
    }

    /// Adds a change by another client. The text is `VERB RESOURCE/NAMESPACE/NAME`.
    pub(crate) fn other(&mut self, change: &str, after: Option<Value>) -> &mut Self {
        self.change(Actor::Other, change, after)
    }

    /// Adds a change by the program.
    pub(crate) fn program(&mut self, change: &str, after: Option<Value>) -> &mut Self {
        self.change(Actor::Program(1), change, after)
    }

    pub(crate) fn strike(&mut self, description: &str) -> &mut Self {
        let injection = Injection { at: self.now(), step: self.step, description: description.to_owned() };
        self.record.injections.push(injection);
        self
    }

    fn now(&self) -> Duration {
        let number = u64::try_from(self.record.changes.len()).unwrap();
        Duration::from_secs(10 * u64::try_from(self.step).unwrap()) + Duration::from_millis(100 * number)
    }

    fn change(&mut self, actor: Actor, change: &str, after: Option<Value>) -> &mut Self {
        let (verb, name) = change.split_once(' ').unwrap();
        let verb = match verb {
            "create" => ChangeVerb::Create,
            "update" => ChangeVerb::Update,
            _ => ChangeVerb::Delete,
        };
        let object = object(name);
        let before = self.record.end.get(&object).cloned();
        let after = after.map(Arc::new);
        let fields = match (&before, &after) {
            (Some(before), Some(after)) if verb == ChangeVerb::Update => changed_fields(before, after),
            _ => Vec::new(),
        };
        let mut point = Point {
            step: self.step,
            verb,
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            fields,
            occurrence: 1,
        };
        while self.record.changes.iter().any(|change| change.point == point) {
            point.occurrence += 1;
        }
        let (at, revision) = (self.now(), 1 + u64::try_from(self.record.changes.len()).unwrap());
        match &after {
            Some(after) => self.record.end.insert(object.clone(), Arc::clone(after)),
            None => self.record.end.remove(&object),
        };
        if verb == ChangeVerb::Create {
            self.uids.insert(object.clone(), format!("uid {revision}"));
        }
        let uid = self.uids.get(&object).cloned().unwrap_or_default();
        self.record.changes.push(Change {
            revision,
            at,
            step: self.step,
            verb,
            object,
            uid,
            actor,
            point,
            before,
            after,
        });
        self
    }
}

fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut fields: Vec<_> = differences(before, after)
        .into_iter()
        .map(|difference| difference.path.split('/').take(2).collect::<Vec<_>>().join("."))
        .collect();
    fields.dedup();
    fields
}
