//! The replayed objects and their changes.
//!
//! A workload is a list of templates: encoded objects with marks at positions that differ between objects or events. An
//! object is a copy of its template with the marks filled in. So creating an object costs little more than a copy, and
//! a million objects need no more memory than their templates.

mod json;
mod manifest;
mod pods;
mod protobuf;
mod small;
mod strings;
mod template;

use std::{ops::Range, path::Path};

use clap::ValueEnum;
use serde_json::Value;
use windlass_api::{BoxError, Entropy};

use self::template::{Template, TemplateValues};

/// The kind of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Similar pods: two containers, one owner, five labels
    Uniform,
    /// Pods of 150 applications with different environments, arguments and annotations
    Varied,
    /// Small custom resources
    Custom,
    /// Secrets of mixed size
    Secrets,
    /// ConfigMaps of mixed size
    ConfigMaps,
}

/// The encoded objects of one kind.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) path: &'static str,
    kind: &'static str,
    api_version: &'static str,
    /// Items in lists of custom resources have an apiVersion and a kind.
    typed_items: bool,
    nodes: u64,
    objects: usize,
    /// The objects in JSON.
    templates: Vec<Template>,
    /// The objects in protobuf; empty without messages for the kind, or without a request for them.
    messages: Vec<Template>,
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// The position of an item in its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    Later,
}

/// The mean number of pods per node; the maximum is twice as high.
const PODS_OF_A_NODE: usize = 55;

/// The number of pods per ReplicaSet.
const REPLICAS: usize = 3;

impl Encoding {
    pub(crate) fn list_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    pub(crate) fn watch_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => protobuf::WATCH_TYPE,
        }
    }

    /// Returns the bytes after the items of a list.
    pub(crate) fn list_tail(self) -> &'static [u8] {
        match self {
            Self::Json => json::LIST_TAIL,
            Self::Protobuf => protobuf::ENVELOPE_TAIL,
        }
    }
}

// === impl Workload ===

impl Workload {
    /// Creates a workload. The result only depends on the arguments.
    pub(crate) fn new(kind: Kind, objects: usize) -> Self {
        let entropy = Entropy::seeded(7);
        let core = |path, kind, most: usize, make: &dyn Fn(&Entropy, usize) -> Value| Self {
            path,
            kind,
            api_version: "v1",
            typed_items: false,
            nodes: (objects / PODS_OF_A_NODE).clamp(1, 99_999) as u64,
            objects,
            templates: (0..objects.clamp(1, most)).map(|at| json::template(&make(&entropy, at))).collect(),
            messages: Vec::new(),
        };
        match kind {
            Kind::Uniform => core("/api/v1/pods", "Pod", 50, &pods::uniform),
            Kind::Varied => core("/api/v1/pods", "Pod", 10_000, &pods::varied),
            Kind::Secrets => core("/api/v1/secrets", "Secret", 1_000, &small::secret),
            Kind::ConfigMaps => core("/api/v1/configmaps", "ConfigMap", 1_000, &small::config_map),
            Kind::Custom => Self {
                api_version: "bench.windlass.dev/v1",
                typed_items: true,
                ..core("/apis/bench.windlass.dev/v1/widgets", "Widget", 1_000, &small::widget)
            },
        }
    }

    /// Adds protobuf messages, encoded by `program`: `client-go --encode KIND`.
    pub(crate) fn with_messages(mut self, program: &Path) -> Result<Self, BoxError> {
        let objects = self.templates.iter().map(json::object);
        self.messages = protobuf::templates(program, self.kind, objects.collect())?;
        Ok(self)
    }

    /// Returns protobuf if the client accepts it and messages exist.
    pub(crate) fn encoding(&self, accepted: &str) -> Encoding {
        if !self.messages.is_empty() && accepted.contains(protobuf::MEDIA_TYPE) {
            Encoding::Protobuf
        } else {
            Encoding::Json
        }
    }

    /// The number of namespaces of the objects.
    pub(crate) const NAMESPACES: u64 = template::NAMESPACES;

    /// Returns the name of a namespace.
    pub(crate) fn namespace(number: u64) -> String {
        format!("namespace-{number:02}")
    }

    /// Returns an object in JSON with its kind.
    pub(crate) fn object(&self, object: usize) -> Vec<u8> {
        let mut out = Vec::new();
        self.json_object(&mut out, object, 0, true);
        out
    }

    /// Appends the bytes before the items of a page, which ends before `page.end`.
    pub(crate) fn list_head(&self, encoding: Encoding, out: &mut Vec<u8>, page: Range<usize>) {
        match encoding {
            Encoding::Json => self.json_list_head(out, page),
            Encoding::Protobuf => self.protobuf_list_head(out, page),
        }
    }

    /// Appends an item.
    pub(crate) fn item(&self, encoding: Encoding, out: &mut Vec<u8>, object: usize, place: Place) {
        match encoding {
            Encoding::Json => self.json_item(out, object, place),
            Encoding::Protobuf => self.protobuf_item(out, object),
        }
    }

    /// Appends the event of the `change`th change, for `object`.
    pub(crate) fn event(&self, encoding: Encoding, out: &mut Vec<u8>, object: usize, change: u64) {
        match encoding {
            Encoding::Json => self.json_event(out, object, change),
            Encoding::Protobuf => self.protobuf_event(out, object, change),
        }
    }

    /// [`REPLICAS`] objects of a template share an owner.
    fn filling(&self, object: usize, change: u64) -> TemplateValues {
        let templates = self.templates.len();
        let owner = object % templates + templates * (object / templates / REPLICAS);
        TemplateValues { object: object as u64, owner: owner as u64, change, nodes: self.nodes }
    }
}

#[cfg(test)]
mod tests;
