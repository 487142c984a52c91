//! Event series of events.k8s.io: the first event of its kind is stored, and following ones form its series. Pure
//! values; the caller passes the time.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use windlass_api::k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, ObjectReference},
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};

/// The time without a new event after which a series ends.
pub(super) const QUIET: Duration = Duration::from_mins(6);
/// The interval at which the counts of active series are written.
pub(super) const REFRESH: Duration = Duration::from_mins(30);

/// The recorded events and their series.
#[derive(Debug, Default)]
pub(super) struct SeriesBook {
    told: HashMap<String, Told>,
}

#[derive(Debug)]
struct Told {
    event: Event,
    last: Instant,
    /// Set if the server has the current count.
    is_written: bool,
}

impl SeriesBook {
    /// Records an event and returns the event to write: a new event, or the start of its series. Returns `None` for
    /// later events of the series, which are only counted.
    pub(super) fn observe(&mut self, event: CoreEvent, now: Instant) -> Option<Event> {
        let event = in_series_form(event);
        let key = key(&event);
        let Some(told) = self.told.get_mut(&key) else {
            self.told.insert(key, Told { event: event.clone(), last: now, is_written: true });
            return Some(event);
        };
        told.last = now;
        let last_observed_time = event.event_time.unwrap_or(MicroTime(Timestamp::UNIX_EPOCH));
        let begins = told.event.series.is_none();
        let count = told.event.series.as_ref().map_or(2, |series| series.count.saturating_add(1));
        told.event.series = Some(EventSeries { count, last_observed_time });
        told.is_written = begins;
        begins.then(|| told.event.clone())
    }

    /// Returns the active series. Writing them keeps them from expiring.
    pub(super) fn refresh(&mut self) -> Vec<Event> {
        let series = self.told.values_mut().filter(|told| told.event.series.is_some());
        series
            .map(|told| {
                told.is_written = true;
                told.event.clone()
            })
            .collect()
    }

    /// Removes events without a recent repetition, and returns the series among them for a last write.
    pub(super) fn finish(&mut self, now: Instant) -> Vec<Event> {
        let over = self.told.extract_if(|_, told| now.duration_since(told.last) > QUIET);
        over.map(|(_, told)| told.event).filter(|event| event.series.is_some()).collect()
    }

    /// Returns the series whose current counts the server does not have.
    pub(super) fn unwritten(self) -> Vec<Event> {
        self.told.into_values().filter(|told| !told.is_written).map(|told| told.event).collect()
    }
}

fn in_series_form(event: CoreEvent) -> Event {
    let controller = event.reporting_component.unwrap_or_default();
    let instance = event.reporting_instance.filter(|instance| !instance.is_empty());
    let instance = instance.unwrap_or_else(|| format!("{controller}-{}", crate::host::name()));
    Event {
        // The API requires an action. It defaults to the reason.
        action: event.action.or_else(|| event.reason.clone()),
        event_time: event.last_timestamp.map(|time| MicroTime(time.0)),
        metadata: event.metadata,
        note: event.message,
        reason: event.reason,
        regarding: Some(event.involved_object),
        related: event.related,
        reporting_controller: Some(controller),
        reporting_instance: Some(instance),
        type_: event.type_,
        ..Event::default()
    }
}

/// Returns the attributes that all events of a series share. Their notes may differ.
fn key(event: &Event) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let object = |reference: &Option<ObjectReference>| {
        let ObjectReference { api_version, kind, namespace, name, uid, field_path, resource_version } =
            reference.clone().unwrap_or_default();
        [api_version, kind, namespace, name, uid, field_path, resource_version]
            .map(Option::unwrap_or_default)
            .join("\0")
    };
    [
        text(&event.type_),
        text(&event.action),
        text(&event.reason),
        text(&event.reporting_controller),
        text(&event.reporting_instance),
        object(&event.regarding),
        object(&event.related),
    ]
    .join("\0")
}

#[cfg(test)]
mod tests {
    use windlass_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn event(name: &str, reason: &str, second: i64) -> CoreEvent {
        let mut event = CoreEvent {
            reason: Some(reason.to_owned()),
            message: Some(format!("at {second}")),
            reporting_component: Some("painter".to_owned()),
            last_timestamp: Some(Time(Timestamp::from_second(second).unwrap())),
            ..CoreEvent::default()
        };
        event.metadata.name = Some(name.to_owned());
        event
    }

    fn count(event: &Event) -> Option<i32> {
        event.series.as_ref().map(|series| series.count)
    }

    #[test]
    fn second_equal_event_starts_a_series() {
        let (mut book, now) = (SeriesBook::default(), Instant::now());
        let first = book.observe(event("a", "Painted", 1), now).unwrap();
        assert_eq!((first.action.as_deref(), count(&first)), (Some("Painted"), None));
        assert!(first.reporting_instance.unwrap().starts_with("painter-"));
        let second = book.observe(event("b", "Painted", 2), now).unwrap();
        assert_eq!((second.metadata.name.as_deref(), count(&second)), (Some("a"), Some(2)));
        assert_eq!(second.note.as_deref(), Some("at 1"));
        assert!(book.observe(event("c", "Painted", 3), now).is_none());
        let series = book.refresh().remove(0).series.unwrap();
        assert_eq!((series.count, series.last_observed_time.0.as_second()), (3, 3));
        assert_eq!(count(&book.observe(event("d", "Other", 4), now).unwrap()), None);
    }

    #[test]
    fn finished_series_is_written_once_and_removed() {
        let (mut book, now) = (SeriesBook::default(), Instant::now());
        for reason in ["Once", "Often", "Often", "Often"] {
            book.observe(event("a", reason, 1), now);
        }
        assert!(book.finish(now + QUIET).is_empty());
        let over = book.finish(now + QUIET + Duration::from_secs(1));
        assert_eq!(over.iter().map(count).collect::<Vec<_>>(), [Some(3)], "a single event is removed without a write");
        assert_eq!(count(&book.observe(event("b", "Often", 2), now).unwrap()), None, "a new series starts");
    }

    #[test]
    fn unsent_series_updates_are_dropped_at_the_end() {
        let (mut book, now) = (SeriesBook::default(), Instant::now());
        for reason in ["Once", "Twice", "Twice", "Often", "Often", "Often"] {
            book.observe(event("a", reason, 1), now);
        }
        let left = book.unwritten();
        assert_eq!(left.iter().map(count).collect::<Vec<_>>(), [Some(3)]);
    }
}
