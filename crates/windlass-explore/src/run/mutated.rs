//! The runs of a mutation: one that makes and reverts the change, and those that begin with it.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::{Place, RunSettings, Scenario, run};
use crate::{
    error::{Error, Result},
    plan::{Mutation, Plan},
    record::{ObjectName, Outcome, Record},
    steps::{self, Applied},
};

/// Runs the scenario, makes and reverts the change, and records further runs in which the object has the changed field
/// from the start. There are no further runs if the change is rejected.
///
/// # Errors
///
/// If the cluster or the program cannot be started, or if no step applies the object.
pub(crate) async fn run_mutation(
    scenario: &Scenario,
    mutation: &Mutation,
    settings: &RunSettings,
    stop: &watch::Receiver<bool>,
) -> Result<Record> {
    let plan = Plan::Mutation(mutation.clone());
    let failed = |reason: &str| Error::Cluster(format!("{plan}: {reason}"));
    let object = scenario.applied().into_iter().find(|(name, _)| {
        let Mutation { resource, namespace, name: of, .. } = mutation;
        (&name.resource, &name.namespace, &name.name) == (resource, namespace, of)
    });
    let (_, object) = object.ok_or_else(|| failed("no step applies the object, or a later one deletes it"))?;
    let mut manifest = object.manifest().clone();
    mutation.apply(&mut manifest).map_err(|reason| failed(&reason))?;
    let there_and_back = scenario.steps.iter().cloned().chain(object.mutated(mutation)).collect();
    let there_and_back = scenario.with_steps(there_and_back);
    let fresh = scenario.with_steps(steps::with_manifest(&scenario.steps, &object, &manifest));
    // A run that waits for late changes gives its place back, so it must be the last one. The state after the change is not
    // that after such a wait, so new objects are compared without it.
    let active = RunSettings { linger: Duration::ZERO, place: Place::default(), ..settings.clone() };
    let is_replay = !settings.linger.is_zero();
    let mut records = Vec::new();
    let mut record = None;
    if !is_replay {
        let first = run(&there_and_back, &plan, &active, stop).await?;
        if first.injections.is_empty() || first.outcome == Outcome::Interrupted {
            return Ok(first);
        }
        record = Some(first);
    }
    for _ in 0..settings.fresh {
        let fresh = run(&fresh, &plan, &active, stop).await?;
        if fresh.outcome == Outcome::Interrupted {
            return Ok(fresh);
        }
        records.push(fresh);
    }
    let mut record = match record {
        Some(record) => record,
        None => run(&there_and_back, &plan, settings, stop).await?,
    };
    record.fresh = records;
    Ok(record)
}

impl Scenario {
    fn with_steps(&self, steps: Vec<steps::Step>) -> Self {
        Self { steps, ..self.clone() }
    }

    /// Returns the custom resources that exist after the steps, if their kind is defined by a CRD of the scenario.
    pub(crate) fn applied(&self) -> Vec<(ObjectName, Applied)> {
        let objects = steps::applied(&self.steps, |kind| self.definition(&kind.group, &kind.kind).is_some());
        let named = |object: Applied| {
            let definition = self.definition(&object.kind().group, &object.kind().kind)?;
            let plural = definition["spec"]["names"]["plural"].as_str()?;
            let is_namespaced = definition["spec"]["scope"] != "Cluster";
            let name = ObjectName {
                resource: format!("{plural}.{}", object.kind().group),
                namespace: if is_namespaced { object.namespace().to_owned() } else { String::new() },
                name: object.name().to_owned(),
            };
            Some((name, object))
        };
        objects.into_iter().filter_map(named).collect()
    }

    /// Returns the schema of the version in which an object is applied.
    pub(crate) fn schema(&self, object: &Applied) -> Option<&Value> {
        let kind = object.kind();
        let versions = self.definition(&kind.group, &kind.kind)?["spec"]["versions"].as_array()?;
        let version = versions.iter().find(|version| version["name"].as_str() == Some(&kind.version))?;
        Some(&version["schema"]["openAPIV3Schema"])
    }

    fn definition(&self, group: &str, kind: &str) -> Option<&Value> {
        let is_of = |crd: &&Value| {
            let spec = &crd["spec"];
            spec["group"] == group && spec["names"]["kind"] == kind
        };
        self.crds.iter().find(is_of)
    }
}
