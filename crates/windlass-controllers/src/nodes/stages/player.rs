//! Chooses the stages of objects, and remembers them until they are over.

use std::{sync::Arc, time::Duration};

use hashbrown::HashMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use windlass_api::{Entropy, ObjectKey};

use super::rules::{Stage, choose};

/// The stages of one kind, and the objects that follow them.
#[derive(Debug, Default)]
pub(crate) struct Player {
    stages: Vec<Arc<Stage>>,
    following: Mutex<HashMap<ObjectKey, Record>>,
}

#[derive(Debug)]
struct Record {
    uid: String,
    /// The version of the object for which the stage was chosen.
    version: String,
    /// The stage, and the time of its steps. `None` if no stage selects this version, or its steps were made.
    stage: Option<(Arc<Stage>, Instant)>,
}

/// The result of looking for a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    /// The object has the default life cycle.
    Default,
    /// The object follows the stages, and waits for a change.
    Rest,
    /// The object is in a stage that is not over.
    Wait(Duration),
    /// The steps of this stage are due.
    Play(Arc<Stage>),
}

/// The identity of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
}

impl Player {
    pub(crate) fn new(stages: Vec<Arc<Stage>>) -> Self {
        Self { stages, following: Mutex::default() }
    }

    /// Returns the turn of an object. Each version of it enters a stage anew, as in kwok.
    pub(crate) fn turn(
        &self,
        subject: Subject<'_>,
        object: impl FnOnce() -> Value,
        now: Timestamp,
        entropy: &Entropy,
    ) -> Turn {
        if self.stages.is_empty() {
            return Turn::Default;
        }
        let mut following = self.following.lock();
        let known = following.get(subject.key).filter(|record| record.uid == subject.uid);
        let is_known = known.is_some();
        if known.is_none_or(|record| record.version != subject.version) {
            let object = object();
            let chosen = choose(&self.stages, &object, entropy).map(|index| &self.stages[index]);
            if chosen.is_none() && !is_known {
                following.remove(subject.key);
                return Turn::Default;
            }
            let stage = chosen
                .map(|stage| (Arc::clone(stage), Instant::now() + stage.delay(&object, now, entropy).min(LONGEST)));
            let record = Record { uid: subject.uid.to_owned(), version: subject.version.to_owned(), stage };
            following.insert(subject.key.clone(), record);
        }
        match following.get(subject.key).and_then(|record| record.stage.as_ref()) {
            None => Turn::Rest,
            Some((stage, due)) => match due.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Turn::Play(Arc::clone(stage)),
                wait => Turn::Wait(wait),
            },
        }
    }

    /// Reports whether one of the stages selects the object.
    pub(crate) fn selects(&self, object: impl FnOnce() -> Value, entropy: &Entropy) -> bool {
        !self.stages.is_empty() && choose(&self.stages, &object(), entropy).is_some()
    }

    /// Reports whether the object follows the stages.
    pub(crate) fn is_following(&self, key: &ObjectKey) -> bool {
        !self.stages.is_empty() && self.following.lock().contains_key(key)
    }

    /// Records that the steps of the stage were made for this version.
    pub(crate) fn finish(&self, subject: Subject<'_>) {
        if let Some(record) = self.following.lock().get_mut(subject.key)
            && record.uid == subject.uid
            && record.version == subject.version
        {
            record.stage = None;
        }
    }

    /// Drops a deleted object.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        if !self.stages.is_empty() {
            self.following.lock().remove(key);
        }
    }
}

/// The longest delay, so that its end is a valid time.
const LONGEST: Duration = Duration::from_hours(24 * 365);

#[cfg(test)]
mod tests;
