//! Random sequences of requests, each defined by a seed and a number.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    mutate::Mutator,
    schema::{Schemas, schema_of},
};
use crate::{
    matrix::{self, Kind, merge},
    seeded_random::SeededRandom,
};

/// Requests about objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) kind: String,
    pub(super) steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The method in the notation of a case, such as `PATCH/merge`.
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Body,
}

impl Step {
    fn new(method: &'static str, path: String, body: Body) -> Self {
        Self { method, path, query: Vec::new(), headers: Vec::new(), body }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    None,
    Json(Value),
    /// A body that is not JSON, or has duplicate keys.
    Text(String),
}

impl Sequence {
    /// Returns the sequence without the empty lists and strings in its bodies, or `None` if it has none. JSON patches
    /// do not change, because empty values affect their result.
    pub(super) fn without_empties(&self) -> Option<Self> {
        let mut plain = self.clone();
        let mut found = false;
        for step in plain.steps.iter_mut().filter(|step| step.method != "PATCH/json") {
            if let Body::Json(body) = &mut step.body {
                found |= drop_empties(body);
            }
        }
        found.then_some(plain)
    }

    /// Returns the sequence in the format of a file of cases.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let query: Vec<_> = step.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let mark = if query.is_empty() { "" } else { "?" };
            let _ = writeln!(text, "{} {}{mark}{}", step.method, step.path, query.join("&"));
            for (name, value) in &step.headers {
                let _ = writeln!(text, "> {name}: {value}");
            }
            match &step.body {
                Body::None => {}
                Body::Json(value) => {
                    let _ = writeln!(text, "{value}");
                }
                Body::Text(body) => {
                    let _ = writeln!(text, "{body}");
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Removes empty lists and strings from the objects in a value. Reports whether there were any.
fn drop_empties(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let before = fields.len();
            fields.retain(|_, value| *value != json!([]) && *value != json!(""));
            let dropped = fields.len() < before;
            fields.values_mut().map(drop_empties).filter(|found| *found).count() > 0 || dropped
        }
        Value::Array(items) => items.iter_mut().map(drop_empties).filter(|found| *found).count() > 0,
        _ => false,
    }
}

/// A generator of the sequences of a seed.
#[derive(Debug)]
pub(super) struct Maker {
    seed: u64,
    kinds: Vec<Kind>,
    schemas: Schemas,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        let kinds = matrix::kinds().unwrap_or_else(|problem| panic!("{problem}"));
        Self { seed, kinds: kinds.into_iter().filter(Kind::is_steady).collect(), schemas: Schemas::read() }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn sequence(&self, number: u64) -> Sequence {
        let random = SeededRandom::of(self.seed, number);
        let kind = random.pick(&self.kinds);
        let mutator = Mutator { random: &random, schemas: &self.schemas, root: schema_of(kind) };
        let writer = Writer { random: &random, kind, mutator };
        let mut steps = vec![writer.create()];
        for _ in 0..random.below(5) {
            steps.push(writer.step());
        }
        if kind.resource == "services" {
            // Only few addresses are available, so the objects are deleted.
            steps.push(Step::new("DELETE", kind.collection(), Body::None));
        }
        Sequence { kind: kind.label(), steps }
    }
}

const ACCEPTS: [&str; 8] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/html,*/*;q=0.1",
    "application/json;as=Odd;v=v1;g=meta.k8s.io,application/json",
    "application/json;q=0.1,application/yaml;q=0.9",
];
const FIELD_SELECTORS: [&str; 8] = [
    "metadata.name%3Dnone",
    "metadata.name!%3Dnone",
    "metadata.namespace!%3Dnone",
    "spec.nodeName%3Dx",
    "status.phase%3DPending",
    "type%3DOpaque",
    "a",
    "%3D",
];
const LABEL_SELECTORS: [&str; 6] = [
    "case%3D{id},l",
    "case%3D{id},!l",
    "case%20in%20({id},a),l%20notin%20(m)",
    "case%3D{id},a%3E1",
    "case%3D%3D{id}",
    "(,",
];
const VERSIONS: [&str; 6] = ["0", "1", "", "odd", "-1", "99999999999999999999"];
const MATCHES: [&str; 4] = ["Exact", "NotOlderThan", "Odd", ""];

/// A writer of the requests of one sequence.
struct Writer<'a> {
    random: &'a SeededRandom,
    kind: &'a Kind,
    mutator: Mutator<'a>,
}

impl Writer<'_> {
    fn object(&self) -> String {
        format!("{}/{}", self.kind.collection(), self.kind.name())
    }

    /// Returns a write request; a dry run for kinds whose objects affect others.
    fn write(&self, method: &'static str, path: String, body: Body) -> Step {
        let mut step = Step::new(method, path, body);
        if self.kind.is_shared() || self.random.chance(5) {
            step.query.push(("dryRun", "All".to_owned()));
        }
        if self.random.chance(15) {
            step.query.push(("fieldValidation", (*self.random.pick(&["Strict", "Ignore", "Warn", "Odd"])).to_owned()));
        }
        if self.random.chance(10) {
            step.query.push(("fieldManager", (*self.random.pick(&["one", "two", ""])).to_owned()));
        }
        if self.random.chance(2) {
            step.headers.push((
                "Content-Type",
                (*self.random.pick(&["text/plain", "application/yaml", "application/json;charset=utf-8"])).to_owned(),
            ));
        }
        step
    }

    fn create(&self) -> Step {
        let body = if self.random.chance(70) {
            self.mutator.mutated(&self.kind.body)
        } else {
            Body::Json(self.kind.body.clone())
        };
        self.write("POST", self.kind.collection(), body)
    }

    /// Returns the object with a mutation.
    fn changed(&self) -> Value {
        let mut body = self.kind.body.clone();
        merge(&mut body, &self.kind.change);
        body
    }

    fn step(&self) -> Step {
        match self.random.below(20) {
            0..=1 => self.read(self.object()),
            2..=3 => self.list(),
            4..=5 => {
                let body = if self.random.chance(50) { self.changed() } else { self.kind.body.clone() };
                self.write("PUT", self.object(), self.mutator.mutated(&body))
            }
            6..=8 => {
                let patch =
                    if self.random.chance(50) { self.kind.change.clone() } else { self.mutator.part(&self.kind.body) };
                self.write("PATCH/merge", self.object(), self.mutator.mutated(&patch))
            }
            9..=10 => {
                let patch =
                    if self.random.chance(50) { self.kind.change.clone() } else { self.mutator.part(&self.kind.body) };
                self.write("PATCH/strategic", self.object(), self.mutator.mutated(&patch))
            }
            11..=12 => self.write("PATCH/json", self.object(), Body::Json(self.mutator.operations(&self.kind.body))),
            13..=15 => self.apply(self.object()),
            16 => self.status(),
            17 => self.scale(),
            18 => self.delete(),
            _ => self.create(),
        }
    }

    fn read(&self, path: String) -> Step {
        let mut step = Step::new("GET", path, Body::None);
        if self.random.chance(60) {
            step.headers.push(("Accept", (*self.random.pick(&ACCEPTS)).to_owned()));
        }
        if self.random.chance(20) {
            step.query.push(("resourceVersion", (*self.random.pick(&["0", "1", "", "odd"])).to_owned()));
        }
        if self.random.chance(20) {
            step.query.push(("includeObject", (*self.random.pick(&["None", "Object", "Metadata", "Odd"])).to_owned()));
        }
        if self.random.chance(10) {
            step.query.push(("pretty", "true".to_owned()));
        }
        step
    }

    fn list(&self) -> Step {
        let mut step = self.read(self.kind.collection());
        let selector = if self.random.chance(40) { *self.random.pick(&LABEL_SELECTORS) } else { "case%3D{id}" };
        step.query.push(("labelSelector", selector.to_owned()));
        if self.random.chance(40) {
            step.query.push(("fieldSelector", (*self.random.pick(&FIELD_SELECTORS)).to_owned()));
        }
        step.query.retain(|(name, _)| *name != "resourceVersion");
        if self.random.chance(30) {
            step.query.push(("resourceVersion", (*self.random.pick(&VERSIONS)).to_owned()));
        }
        if self.random.chance(30) {
            step.query.push(("resourceVersionMatch", (*self.random.pick(&MATCHES)).to_owned()));
        }
        if self.random.chance(10) {
            step.query.push(("continue", (*self.random.pick(&["odd", "e30", "%25"])).to_owned()));
        }
        step
    }

    fn apply(&self, path: String) -> Step {
        let body = if self.random.chance(50) { self.changed() } else { self.kind.body.clone() };
        let body = if self.random.chance(60) { self.mutator.mutated(&body) } else { Body::Json(body) };
        let mut step = self.write("PATCH/apply", path, body);
        step.query.retain(|(name, _)| *name != "fieldManager");
        if self.random.chance(97) {
            step.query.push(("fieldManager", (*self.random.pick(&["one", "two", "windlass"])).to_owned()));
        }
        if self.random.chance(40) {
            step.query.push(("force", (*self.random.pick(&["true", "false", "", "odd"])).to_owned()));
        }
        step
    }

    fn status(&self) -> Step {
        let path = format!("{}/status", self.object());
        let status = self.mutator.generated(&["status"]);
        let mut body = self.kind.body.clone();
        body["status"] = status.clone();
        match self.random.below(5) {
            0 => self.read(path),
            1 => self.write("PUT", path, self.mutator.mutated(&body)),
            2 => self.apply(path),
            3 => self.write("PATCH/strategic", path, Body::Json(json!({"status": status}))),
            _ => self.write("PATCH/merge", path, Body::Json(json!({"status": status}))),
        }
    }

    fn scale(&self) -> Step {
        let path = format!("{}/scale", self.object());
        let replicas = self
            .random
            .pick(&[json!(0), json!(3), json!(-1), json!("x"), Value::Null, json!(2_147_483_648_u64)])
            .clone();
        match self.random.below(3) {
            0 => self.read(path),
            1 => {
                let body = json!({"metadata": {"name": self.kind.name()}, "spec": {"replicas": replicas}});
                self.write("PUT", path, self.mutator.mutated(&body))
            }
            _ => self.write("PATCH/merge", path, Body::Json(json!({"spec": {"replicas": replicas}}))),
        }
    }

    fn delete(&self) -> Step {
        let options: BTreeMap<&str, Value> = BTreeMap::from([
            ("propagationPolicy", json!(self.random.pick(&["Foreground", "Background", "Orphan", "Odd", ""]))),
            ("gracePeriodSeconds", json!(self.random.pick(&[0_i64, 1, 30, -1]))),
            ("orphanDependents", json!(self.random.chance(50))),
            ("preconditions", json!({"uid": self.random.pick(&["", "x"])})),
            ("dryRun", json!(["All"])),
            ("bogus", json!(1)),
        ]);
        let chosen: serde_json::Map<_, _> = options
            .into_iter()
            .filter(|_| self.random.chance(25))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let body = if chosen.is_empty() { Body::None } else { Body::Json(Value::Object(chosen)) };
        self.write("DELETE", self.object(), body)
    }
}
