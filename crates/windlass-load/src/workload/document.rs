//! The file of a workload, as it is written.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

use super::{Action, Limits, duration_of};
use crate::{expression::Expression, template::Template};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) name: String,
    #[serde(rename = "description", default)]
    _description: String,
    pub(super) rate: Option<Expression>,
    pub(super) pods_per_node: Option<Expression>,
    pub(super) namespaces: Option<Expression>,
    #[serde(default)]
    pub(super) parameters: Ordered<Expression>,
    pub(super) objects: Ordered<SetDocument>,
    #[serde(default)]
    pub(super) reads: Vec<ReadDocument>,
    pub(super) phases: Vec<PhaseDocument>,
    #[serde(default)]
    pub(super) slos: SloDocument,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SetDocument {
    pub(super) count: Option<Expression>,
    pub(super) total: Option<Expression>,
    pub(super) replicas: Option<Expression>,
    pub(super) template: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ReadDocument {
    pub(super) verb: ReadVerb,
    pub(super) scope: Option<ReadScope>,
    pub(super) of: Option<String>,
    pub(super) share: Expression,
    pub(super) limit: Option<u32>,
    #[serde(default)]
    pub(super) cached: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PhaseDocument {
    pub(super) name: String,
    create: Option<Vec<String>>,
    scale: Option<Vec<String>>,
    update: Option<Vec<String>>,
    delete: Option<Vec<String>>,
    churn: Option<Vec<String>>,
    read: Option<bool>,
    pub(super) factor: Option<Factor>,
    patch: Option<Value>,
    pub(super) share: Option<Expression>,
    pub(super) rate: Option<Expression>,
    pub(super) duration: Option<Expression>,
    #[serde(default)]
    pub(super) order: Order,
    #[serde(default)]
    pub(super) wait: Wait,
    pub(super) timeout: Option<String>,
    #[serde(default = "yes")]
    pub(super) reads: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Factor {
    pub(super) min: Expression,
    pub(super) max: Expression,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SloDocument {
    write: Option<String>,
    get: Option<String>,
    list_namespace: Option<String>,
    list_cluster: Option<String>,
    pod_startup: Option<String>,
}

/// The order of the requests of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Order {
    #[default]
    Shuffled,
    Listed,
}

/// The state to wait for at the end of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Wait {
    #[default]
    None,
    /// The controllers have done what all objects demand.
    Ready,
    /// Deleted objects and their pods are gone.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReadVerb {
    Get,
    List,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReadScope {
    Namespace,
    Cluster,
}

/// A map in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Ordered<T>(pub(super) Vec<(String, T)>);

const fn yes() -> bool {
    true
}

impl PhaseDocument {
    /// Returns the action with the names of its sets.
    pub(super) fn action(&self) -> Result<(Action, &[String]), String> {
        let Self { create, scale, update, delete, churn, read, .. } = self;
        let update_with = || {
            let patch = self.patch.clone().unwrap_or_else(
                || json!({ "metadata": { "annotations": { "load.windlass.dev/update": "${run}-${sequence}" } } }),
            );
            let nested = |error: String| if error.starts_with(['.', '[']) { error } else { format!(": {error}") };
            Template::parse(&patch).map(Action::Update).map_err(|error| format!("patch{}", nested(error)))
        };
        let actions = [
            create.as_deref().map(|sets| (Action::Create, sets)),
            scale.as_deref().map(|sets| (Action::Scale { min: 1.0, max: 1.0 }, sets)),
            update.as_deref().map(|sets| Ok::<_, String>((update_with()?, sets))).transpose()?,
            delete.as_deref().map(|sets| (Action::Delete, sets)),
            churn.as_deref().map(|sets| (Action::Churn, sets)),
            read.filter(|read| *read).map(|_| (Action::Read, &[][..])),
        ];
        let mut actions = actions.into_iter().flatten();
        let (Some(action), None) = (actions.next(), actions.next()) else {
            return Err("needs exactly one of create, scale, update, delete, churn and read".to_owned());
        };
        if self.factor.is_some() && scale.is_none() {
            return Err("factor belongs to scale".to_owned());
        }
        if self.patch.is_some() && update.is_none() {
            return Err("patch belongs to update".to_owned());
        }
        Ok(action)
    }
}

impl SloDocument {
    pub(super) fn limits(&self) -> Result<Limits, String> {
        let limit = |name: &str, given: &Option<String>, default: f64| match given {
            Some(text) => {
                duration_of(text).map(|duration| duration.as_secs_f64()).map_err(|error| format!("{name}: {error}"))
            }
            None => Ok(default),
        };
        Ok(Limits {
            write: limit("write", &self.write, 1.0)?,
            get: limit("get", &self.get, 1.0)?,
            list_namespace: limit("listNamespace", &self.list_namespace, 30.0)?,
            list_cluster: limit("listCluster", &self.list_cluster, 30.0)?,
            pod_startup: limit("podStartup", &self.pod_startup, 5.0)?,
        })
    }
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}
