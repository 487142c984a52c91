//! Correlation of events: an event is new, repeats an earlier one, joins a group of similar ones, or exceeds the rate
//! limit. Pure values; the caller passes the time.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use windlass_api::k8s_openapi::{
    api::core::v1::{Event, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::recent::Recent;

/// The number of different messages of a group that are recorded individually.
const DISTINCT: usize = 10;
/// The time without a message after which a group records individual messages again.
const QUIET: Duration = Duration::from_mins(10);
/// The message prefix of an event that represents a group.
const COMBINED: &str = "(combined from similar events): ";
/// The burst of events from one source about one object.
const BURST: u32 = 25;
/// The time in which one event is added to the budget.
const EARNED: Duration = Duration::from_mins(5);

/// The recorded events and their groups.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    crowds: Recent<Crowd>,
    told: Recent<Told>,
    budgets: Recent<Budget>,
}

/// Events that differ only in their messages.
#[derive(Debug)]
struct Crowd {
    messages: BTreeSet<String>,
    last: Instant,
}

/// A recorded event.
#[derive(Debug)]
struct Told {
    count: i32,
    name: Option<String>,
    first: Option<Time>,
}

/// The remaining budget of one source for one object.
#[derive(Debug)]
struct Budget {
    /// The time at which the budget is full again. If it is in the past, the budget is full.
    full_at: Instant,
}

// === impl Correlator ===

impl Correlator {
    /// Records an event and returns the event to store: a new event if its count is 1, otherwise the existing event
    /// with an increased count. Returns `None` if the event exceeds the limit.
    pub(super) fn correlate(&mut self, event: Event, now: Instant) -> Option<Event> {
        let source = source_key(&event);
        let (event, key) = self.crowd(event, &source, now);
        let event = self.count(event, &key);
        let kind = joined(&[&source, text(event.type_.as_ref())]);
        let budget = self.budgets.entry(&kind, || Budget { full_at: now });
        budget.spend(now).then_some(event)
    }

    /// Returns the event, or the event of its group, and the key for counting.
    fn crowd(&mut self, mut event: Event, source: &str, now: Instant) -> (Event, String) {
        let kind = joined(&[source, text(event.type_.as_ref()), text(event.reason.as_ref())]);
        let message = event.message.clone().unwrap_or_default();
        let fresh = || Crowd { messages: BTreeSet::new(), last: now };
        let crowd = self.crowds.entry(&kind, fresh);
        if now.duration_since(crowd.last) > QUIET {
            *crowd = fresh();
        }
        crowd.last = now;
        crowd.messages.insert(message.clone());
        if crowd.messages.len() < DISTINCT {
            // Parts of one object are separate until there are too many messages.
            let part = text(event.involved_object.field_path.as_ref()).to_owned();
            return (event, joined(&[&kind, &part, &message]));
        }
        crowd.messages.pop_first();
        event.message = Some(format!("{COMBINED}{message}"));
        event.metadata.annotations = None;
        (event, kind)
    }

    /// Returns the event with its count and its first name.
    fn count(&mut self, mut event: Event, key: &str) -> Event {
        let told = self.told.entry(key, || Told {
            count: 0,
            name: event.metadata.name.clone(),
            first: event.first_timestamp.clone(),
        });
        told.count = told.count.saturating_add(1);
        event.count = Some(told.count);
        event.metadata.name.clone_from(&told.name);
        event.first_timestamp.clone_from(&told.first);
        event
    }
}

// === impl Budget ===

impl Budget {
    /// Spends one event of the budget. Returns `false` if the budget is used up.
    fn spend(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + EARNED;
        let enough = full_at.duration_since(now) <= EARNED * BURST;
        if enough {
            self.full_at = full_at;
        }
        enough
    }
}

/// Returns the key of the source and the object.
fn source_key(event: &Event) -> String {
    let source = event.source.as_ref();
    let ObjectReference { api_version, kind, name, namespace, uid, .. } = &event.involved_object;
    joined(&[
        text(source.and_then(|source| source.component.as_ref())),
        text(source.and_then(|source| source.host.as_ref())),
        text(kind.as_ref()),
        text(namespace.as_ref()),
        text(name.as_ref()),
        text(uid.as_ref()),
        text(api_version.as_ref()),
    ])
}

fn text(value: Option<&String>) -> &str {
    value.map(String::as_str).unwrap_or_default()
}

/// Joins texts, none of which contains a zero byte.
fn joined(parts: &[&str]) -> String {
    parts.join("\0")
}

#[cfg(test)]
mod tests {
    use windlass_api::k8s_openapi::api::core::v1::EventSource;

    use super::*;

    fn event(object: &str, reason: &str, message: &str) -> Event {
        let mut event = Event {
            involved_object: ObjectReference { name: Some(object.to_owned()), ..ObjectReference::default() },
            source: Some(EventSource { component: Some("c".to_owned()), host: None }),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        };
        event.metadata.name = Some(format!("{object}.{reason}.{message}"));
        event
    }

    fn counted(event: Option<Event>) -> (String, i32) {
        let event = event.expect("it is not dropped");
        (event.message.unwrap(), event.count.unwrap())
    }

    #[test]
    fn repeated_event_increments_the_first_event() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let first = event("pod", "Failed", "no image");
        assert_eq!(correlator.correlate(first.clone(), now).unwrap().count, Some(1));
        let mut later = first.clone();
        later.metadata.name = Some("pod.later".to_owned());
        let again = correlator.correlate(later, now).unwrap();
        assert_eq!((again.metadata.name, again.count), (first.metadata.name, Some(2)));
        assert_eq!(counted(correlator.correlate(event("other", "Failed", "no image"), now)).1, 1);
    }

    #[test]
    fn tenth_similar_event_represents_following_ones() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for number in 0..9 {
            let message = number.to_string();
            assert_eq!(counted(correlator.correlate(event("pod", "Failed", &message), now)), (message, 1));
        }
        let tenth = counted(correlator.correlate(event("pod", "Failed", "9"), now));
        assert_eq!(tenth, (format!("{COMBINED}9"), 1));
        let eleventh = counted(correlator.correlate(event("pod", "Failed", "10"), now));
        assert_eq!(eleventh, (format!("{COMBINED}10"), 2));
        assert_eq!(counted(correlator.correlate(event("pod", "Other", "11"), now)), ("11".to_owned(), 1));
        let quiet = now + QUIET + Duration::from_secs(1);
        assert_eq!(counted(correlator.correlate(event("pod", "Failed", "12"), quiet)), ("12".to_owned(), 1));
    }

    #[test]
    fn events_of_object_parts_are_separate_until_combined() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let of_part = |part: usize, message: &str| {
            let mut event = event("pod", "Failed", message);
            event.involved_object.field_path = Some(format!("spec.containers[{part}]"));
            event
        };
        for part in 0..2 {
            assert_eq!(counted(correlator.correlate(of_part(part, "x"), now)), ("x".to_owned(), 1));
        }
        for number in 0..8 {
            counted(correlator.correlate(of_part(number, &number.to_string()), now));
        }
        let tenth = counted(correlator.correlate(of_part(1, "y"), now));
        assert_eq!(tenth, (format!("{COMBINED}y"), 1), "whatever part they are of");
    }

    #[test]
    fn events_of_one_object_are_rate_limited() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for _ in 0..BURST {
            counted(correlator.correlate(event("pod", "Failed", "x"), now));
        }
        assert_eq!(correlator.correlate(event("pod", "Other", "y"), now), None);
        counted(correlator.correlate(event("other", "Failed", "x"), now));
        let mut warning = event("pod", "Failed", "x");
        warning.type_ = Some("Warning".to_owned());
        counted(correlator.correlate(warning, now));
        assert_eq!(correlator.correlate(event("pod", "Failed", "x"), now + EARNED / 2), None);
        counted(correlator.correlate(event("pod", "Failed", "x"), now + EARNED));
        assert_eq!(correlator.correlate(event("pod", "Failed", "x"), now + EARNED), None);
    }
}
