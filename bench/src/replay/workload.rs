//! The objects that are replayed, and how they change.
//!
//! A workload is a list of templates: encoded objects with marks in the places that differ from object to object and
//! from event to event. An object is its template's bytes with the marks filled in, so that making one costs little more
//! than copying it, and a million of them take no more memory than their templates.

mod manifest;
mod pods;
mod small;
mod strings;
mod template;

use clap::ValueEnum;
use serde_json::Value;
use windlass_api::Entropy;

pub(crate) use self::template::FIRST_VERSION;
use self::template::{Filling, Template};

/// What is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Pods that are alike: two containers, one owner, five labels
    Uniform,
    /// Pods of 150 applications, each with environment, arguments and annotations of its own
    Varied,
    /// Small custom resources
    Custom,
    /// Secrets of mixed size
    Secrets,
    /// ConfigMaps of mixed size
    ConfigMaps,
}

/// Encoded objects of one kind.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    /// List items of custom resources say what they are.
    typed_items: bool,
    nodes: u64,
    templates: Vec<Template>,
}

/// How many pods a node has, on the average; the fullest has twice as many.
const PODS_OF_A_NODE: usize = 55;

// === impl Workload ===

impl Workload {
    /// The same for the same arguments, always.
    pub(crate) fn new(kind: Kind, objects: usize) -> Self {
        let entropy = Entropy::seeded(7);
        let templates = |most: usize, make: &dyn Fn(&Entropy, usize) -> Value| {
            (0..objects.clamp(1, most)).map(|at| Template::new(&make(&entropy, at))).collect()
        };
        let nodes = (objects / PODS_OF_A_NODE).clamp(1, 99_999) as u64;
        let core = |path, kind, templates| Self { path, kind, api_version: "v1", typed_items: false, nodes, templates };
        match kind {
            Kind::Uniform => core("/api/v1/pods", "Pod", templates(50, &pods::uniform)),
            Kind::Varied => core("/api/v1/pods", "Pod", templates(10_000, &pods::varied)),
            Kind::Secrets => core("/api/v1/secrets", "Secret", templates(1_000, &small::secret)),
            Kind::ConfigMaps => core("/api/v1/configmaps", "ConfigMap", templates(1_000, &small::config_map)),
            Kind::Custom => Self {
                path: "/apis/bench.windlass.dev/v1/widgets",
                kind: "Widget",
                api_version: "bench.windlass.dev/v1",
                typed_items: true,
                nodes,
                templates: templates(1_000, &small::widget),
            },
        }
    }

    /// Appends an object as a list has it.
    pub(crate) fn item(&self, out: &mut Vec<u8>, object: usize) {
        self.write(out, object, 0, self.typed_items);
    }

    /// Appends the line of a watch that tells the `change`th change, one of `object`.
    pub(crate) fn event(&self, out: &mut Vec<u8>, object: usize, change: u64) {
        out.extend_from_slice(br#"{"type":"MODIFIED","object":"#);
        self.write(out, object, change, true);
        out.extend_from_slice(b"}\n");
    }

    fn write(&self, out: &mut Vec<u8>, object: usize, change: u64, typed: bool) {
        out.push(b'{');
        if typed {
            out.extend_from_slice(format!(r#""kind":"{}","apiVersion":"{}","#, self.kind, self.api_version).as_bytes());
        }
        let template = &self.templates[object % self.templates.len()];
        template.write(out, Filling { object: object as u64, change, nodes: self.nodes });
    }
}

#[cfg(test)]
mod tests;
