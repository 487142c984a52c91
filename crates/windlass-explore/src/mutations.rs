//! Chooses changes of custom resources from their schemas.
//!
//! ```text
//! walk       the fields of an object, with their schemas
//!   └ values    other values for a field, and minimal values
//!       └ texts    other strings, by format and pattern
//! order      one change of each field first
//! screen     a server without the program, which rejects invalid values
//! ```

use std::collections::BTreeMap;

use crate::{
    error::{Error, Result},
    plan::{Mutation, Plan},
    planner::Planned,
    record::{ObjectName, Record},
    run::Scenario,
};

mod order;
mod screen;
mod texts;
mod values;
mod walk;

use order::Candidate;
use screen::{Screen, Verdict};

/// The maximum number of changes. The later ones of the order are left out.
const MOST: usize = 2_000;

/// The mutations of an exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mutations {
    pub(crate) planned: Planned,
    /// The changes that the server rejects, with its error.
    pub(crate) rejected: BTreeMap<String, String>,
}

/// Chooses changes of the custom resources that the steps apply. `clean` is a run without faults. The server rejects some
/// of the values without the program; these are not planned.
pub(crate) async fn choose(scenario: &Scenario, clean: &Record) -> Result<Mutations> {
    let mut mutations = Mutations::default();
    let mut objects = scenario.applied();
    objects.retain(|(name, _)| clean.end.contains_key(name));
    if objects.is_empty() {
        return Err(Error::NothingToMutate);
    }
    let mut candidates = Vec::new();
    for (name, object) in &objects {
        let (Some(schema), Some(live)) = (scenario.schema(object), clean.end.get(name)) else { continue };
        let found = walk::walk(schema, object.manifest(), live);
        if found.changed > 0 {
            mutations.skip("fields that the program or an executable step has changed", found.changed);
        }
        candidates.extend(found.changes.into_iter().map(|change| Candidate { object: name.clone(), change }));
    }
    let candidates = order::by_novelty(candidates);
    if candidates.len() > MOST {
        mutations.skip("further changes", candidates.len() - MOST);
    }
    let mut screen = Screen::start(scenario).await?;
    for (name, object) in &objects {
        if let Some(live) = clean.end.get(name) {
            screen.create(name, object, live).await;
        }
    }
    for Candidate { object, change } in candidates.into_iter().take(MOST) {
        let mutation = mutation(&object, change);
        match screen.check(&object, &mutation).await {
            Verdict::Accepted => mutations.planned.plans.push(Plan::Mutation(mutation)),
            Verdict::NoEffect => mutations.skip("changes that the server does not store", 1),
            Verdict::Rejected(error) => {
                mutations.rejected.insert(mutation.to_string(), error);
            }
        }
    }
    Ok(mutations)
}

impl Mutations {
    fn skip(&mut self, reason: &str, number: usize) {
        *self.planned.skipped.entry(reason.to_owned()).or_default() += number;
    }
}

fn mutation(object: &ObjectName, walk::Change { path, edit, .. }: walk::Change) -> Mutation {
    let ObjectName { resource, namespace, name } = object.clone();
    Mutation { resource, namespace, name, path, edit }
}

#[cfg(test)]
mod tests;
