//! A counter that clients increment by read and write, again after a conflict. Unlike the registers, it is the same one in
//! all rounds.

use std::{ops::AddAssign, time::Duration};

use tokio::{sync::watch, time::sleep};

use crate::{
    Result,
    failover::Failover,
    operation::{Object, Outcome, Request},
};

/// The name of the object.
pub(crate) const COUNTER: &str = "counter";

/// The pause between two increments of a client.
const PAUSE: Duration = Duration::from_millis(15);

/// The increments of some clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Increments {
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
    pub(crate) conflicts: u64,
}

impl AddAssign for Increments {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.conflicts += other.conflicts;
    }
}

/// Returns the value of the counter's object for a number. The writer makes it unique.
pub(crate) fn value(count: u64, writer: &str) -> String {
    format!("{count}-{writer}")
}

/// Reads the number in a value.
pub(crate) fn count(value: &str) -> Result<u64> {
    let number = value.split_once('-').and_then(|(number, _)| number.parse().ok());
    number.ok_or_else(|| format!("the counter has the value {value:?}").into())
}

/// Increments the counter until it is stopped. Returns the longest time without an answer, too.
pub(crate) async fn increment(
    name: String,
    mut servers: Failover,
    stopped: watch::Receiver<bool>,
) -> Result<(Increments, Duration)> {
    let mut increments = Increments::default();
    let mut known: Option<Object> = None;
    for attempt in 0.. {
        if *stopped.borrow() {
            break;
        }
        let request = match known.take() {
            None => Request::Read,
            Some(known) => {
                let next = value(count(&known.value)? + 1, &format!("{name}-{attempt}"));
                Request::Put(known, next)
            }
        };
        let writes = request.written().is_some();
        match servers.send(&request, COUNTER).await? {
            Outcome::Found(object) => {
                known = Some(object);
                increments.acknowledged += u64::from(writes);
                if writes {
                    sleep(PAUSE).await;
                }
            }
            Outcome::Conflict => increments.conflicts += 1,
            Outcome::Unknown(_) => increments.unknown += u64::from(writes),
            Outcome::Rejected => {}
            outcome => return Err(format!("{name}: {request:?} has the outcome {outcome:?}").into()),
        }
    }
    Ok((increments, servers.longest_gap()))
}
