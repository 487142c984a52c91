//! The objects that are replayed, and how they change.
//!
//! A workload is a list of templates: encoded objects with marks in the places that differ from object to object and
//! from event to event. An object is its template's bytes with the marks filled in, so that making one costs little more
//! than copying it, and a million of them take no more memory than their templates.

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
    kind: &'static str,
    api_version: &'static str,
    /// List items of custom resources say what they are.
    typed_items: bool,
    nodes: u64,
    objects: usize,
    /// Objects in JSON.
    templates: Vec<Template>,
    /// The same as messages of protobuf; none when there are no messages of their kind, or nobody asked for them.
    messages: Vec<Template>,
}

/// What an answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// Where an item stands in its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    Later,
}

/// How many pods a node has, on the average; the fullest has twice as many.
const PODS_OF_A_NODE: usize = 55;

/// How many pods a ReplicaSet has.
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

    /// What stands behind the items of a list.
    pub(crate) fn list_tail(self) -> &'static [u8] {
        match self {
            Self::Json => json::LIST_TAIL,
            Self::Protobuf => protobuf::ENVELOPE_TAIL,
        }
    }
}

// === impl Workload ===

impl Workload {
    /// The same for the same arguments, always.
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

    /// Has `program` make messages of the objects: `client-go --encode KIND`.
    pub(crate) fn with_messages(mut self, program: &Path) -> Result<Self, BoxError> {
        let objects = self.templates.iter().map(json::object);
        self.messages = protobuf::templates(program, self.kind, objects.collect())?;
        Ok(self)
    }

    /// Protobuf for those who accept it, if there is any.
    pub(crate) fn encoding(&self, accepted: &str) -> Encoding {
        if !self.messages.is_empty() && accepted.contains(protobuf::MEDIA_TYPE) {
            Encoding::Protobuf
        } else {
            Encoding::Json
        }
    }

    /// Appends what stands before the items of a page of the list, which ends before `page.end`.
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

    /// Appends the event that tells the `change`th change, one of `object`.
    pub(crate) fn event(&self, encoding: Encoding, out: &mut Vec<u8>, object: usize, change: u64) {
        match encoding {
            Encoding::Json => self.json_event(out, object, change),
            Encoding::Protobuf => self.protobuf_event(out, object, change),
        }
    }

    /// Of the objects of one template, [`REPLICAS`] have an owner in common.
    fn filling(&self, object: usize, change: u64) -> Filling {
        let templates = self.templates.len();
        let owner = object % templates + templates * (object / templates / REPLICAS);
        Filling { object: object as u64, owner: owner as u64, change, nodes: self.nodes }
    }
}

#[cfg(test)]
mod tests;
