//! The rules of a stage: the objects that it selects, its weight and its delay.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_api::{Entropy, PatchKind, parse_duration};

use super::{StagePlace, jq::Query, template::Template};

/// A stage of a life cycle.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub(super) name: String,
    pub(super) file: Arc<str>,
    pub(super) line: u64,
    pub(super) selector: Selector,
    pub(super) weight: u64,
    pub(super) weight_from: Option<Query>,
    pub(super) delay: Delay,
    pub(super) steps: Vec<Step>,
}

/// Selects objects. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selector {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requirement {
    pub(super) query: Query,
    pub(super) operator: Operator,
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// The time from the match of a stage to its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Delay {
    pub(super) duration: Time,
    /// The end of the interval from which the time is drawn; unset for no jitter.
    pub(super) jitter: Option<Time>,
}

/// A duration: fixed, or from the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Time {
    pub(super) milliseconds: Option<u64>,
    pub(super) from: Option<Query>,
}

/// A change that a stage makes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Event { is_warning: bool, reason: String, message: String },
    Finalizers { add: Vec<String>, remove: Vec<String>, empty: bool },
    Patch(Patch),
    Delete,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Patch {
    pub(super) is_status: bool,
    pub(super) kind: PatchKind,
    /// The field that the rendered value is for.
    pub(super) root: Option<String>,
    pub(super) template: Template,
    /// The number of the line in the file before the first one of the template.
    pub(super) lines_before: u64,
}

impl Stage {
    /// Returns the place of the stage in its file.
    pub(crate) fn place(&self) -> StagePlace {
        StagePlace { file: Arc::clone(&self.file), line: Some(self.line), stage: Some(self.name.clone()) }
    }

    /// Returns the weight, or `None` if the object has an invalid one.
    fn weight(&self, object: &Value) -> Option<u64> {
        let found = self.weight_from.as_ref().and_then(|query| query.select(object).into_iter().next());
        match found.as_deref() {
            Some(Value::String(text)) => text.parse().ok(),
            Some(Value::Number(number)) => number.as_u64(),
            _ => Some(self.weight),
        }
    }

    /// Returns the delay of the stage, which is random if it has jitter.
    pub(super) fn delay(&self, object: &Value, now: Timestamp, entropy: &Entropy) -> Duration {
        let duration = self.delay.duration.of(object, now).unwrap_or_default();
        let jitter = self.delay.jitter.as_ref().and_then(|jitter| jitter.of(object, now));
        let duration = match jitter {
            Some(end) if end > duration => {
                let span = u64::try_from((end - duration).as_nanos()).unwrap_or(u64::MAX);
                duration + SignedDuration::from_nanos(i64::try_from(entropy.below(span)).unwrap_or(i64::MAX))
            }
            // As in kwok, a jitter below the duration replaces it.
            Some(end) => end,
            None => duration,
        };
        Duration::try_from(duration).unwrap_or_default()
    }
}

/// Returns the index of the stage that an object enters: one of those that select it, at random by their weights.
pub(super) fn choose(stages: &[Arc<Stage>], object: &Value, entropy: &Entropy) -> Option<usize> {
    let selects = |(_, stage): &(usize, &Arc<Stage>)| stage.selector.selects(object);
    let matching: Vec<usize> = stages.iter().enumerate().filter(selects).map(|(index, _)| index).collect();
    if matching.len() < 2 {
        return matching.first().copied();
    }
    let weighted: Vec<(usize, Option<u64>)> =
        matching.into_iter().map(|index| (index, stages[index].weight(object))).collect();
    let total = weighted.iter().filter_map(|(_, weight)| *weight).fold(0, u64::saturating_add);
    if total > 0 {
        let mut rest = entropy.below(total);
        for (index, weight) in &weighted {
            let weight = weight.unwrap_or(0);
            if rest < weight {
                return Some(*index);
            }
            rest -= weight;
        }
    }
    // Without weights, all have the same chance. Those with an invalid weight come last.
    let valid: Vec<usize> = weighted.iter().filter(|(_, weight)| weight.is_some()).map(|(index, _)| *index).collect();
    let candidates = if valid.is_empty() { weighted.iter().map(|(index, _)| *index).collect() } else { valid };
    let chosen = usize::try_from(entropy.below(candidates.len() as u64)).unwrap_or(0);
    candidates.get(chosen).copied()
}

impl Selector {
    fn selects(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let has_all = |field: &str, wanted: &BTreeMap<String, String>| {
            wanted.iter().all(|(key, value)| metadata[field][key].as_str() == Some(value))
        };
        has_all("labels", &self.labels)
            && has_all("annotations", &self.annotations)
            && self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let found = self.query.select(object);
        let is_in = || {
            found.iter().any(|value| match &**value {
                Value::String(text) => self.values.contains(text),
                Value::Bool(_) | Value::Number(_) => self.values.contains(&value.to_string()),
                _ => false,
            })
        };
        match self.operator {
            Operator::In => is_in(),
            Operator::NotIn => !is_in(),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

impl Time {
    fn of(&self, object: &Value, now: Timestamp) -> Option<SignedDuration> {
        let fixed = self
            .milliseconds
            .map(|milliseconds| SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX)));
        let Some(query) = &self.from else { return fixed };
        match query.select(object).first().map(|value| &**value) {
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(time) => Some(time.duration_since(now)),
                Err(_) => parse_duration(text).ok().or(fixed),
            },
            _ => fixed,
        }
    }
}
