//! Events as events.k8s.io has them: the first of its kind is one event, those that follow are its series. Values only; the
//! caller brings the time.

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

/// A series that nothing was added to for so long is over.
pub(super) const QUIET: Duration = Duration::from_mins(6);
/// How often the number of a series that goes on is written.
pub(super) const REFRESH: Duration = Duration::from_mins(30);

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct SeriesBook {
    told: HashMap<String, Told>,
}

#[derive(Debug)]
struct Told {
    event: Event,
    last: Instant,
    /// Whether the server has its number.
    is_written: bool,
}

impl SeriesBook {
    /// Takes note of an event, and gives back what is to be written: a new event, or the beginning of its series. What
    /// follows is only counted.
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

    /// The series that go on, to be written so that they do not expire.
    pub(super) fn refresh(&mut self) -> Vec<Event> {
        let series = self.told.values_mut().filter(|told| told.event.series.is_some());
        series
            .map(|told| {
                told.is_written = true;
                told.event.clone()
            })
            .collect()
    }

    /// Forgets what was not told again for a while; the series among it are to be written a last time.
    pub(super) fn finish(&mut self, now: Instant) -> Vec<Event> {
        let over = self.told.extract_if(|_, told| now.duration_since(told.last) > QUIET);
        over.map(|(_, told)| told.event).filter(|event| event.series.is_some()).collect()
    }

    /// The series whose numbers the server does not have.
    pub(super) fn unwritten(self) -> Vec<Event> {
        self.told.into_values().filter(|told| !told.is_written).map(|told| told.event).collect()
    }
}

fn in_series_form(event: CoreEvent) -> Event {
    let controller = event.reporting_component.unwrap_or_default();
    let instance = event.reporting_instance.filter(|instance| !instance.is_empty());
    let instance = instance.unwrap_or_else(|| format!("{controller}-{}", crate::host::name()));
    Event {
        // The server wants to know what was done; where nobody says, it is what was seen.
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

/// What all events of a series have in common. Their notes may differ.
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
    fn c_12_10_the_second_of_a_kind_begins_a_series_and_those_that_follow_are_counted() {
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
    fn c_12_10_a_series_that_is_over_is_written_once_more_and_forgotten() {
        let (mut book, now) = (SeriesBook::default(), Instant::now());
        for reason in ["Once", "Often", "Often", "Often"] {
            book.observe(event("a", reason, 1), now);
        }
        assert!(book.finish(now + QUIET).is_empty());
        let over = book.finish(now + QUIET + Duration::from_secs(1));
        assert_eq!(over.iter().map(count).collect::<Vec<_>>(), [Some(3)], "what came once is forgotten silently");
        assert_eq!(count(&book.observe(event("b", "Often", 2), now).unwrap()), None, "it begins anew");
    }

    #[test]
    fn c_12_10_what_the_server_has_not_been_told_is_left_at_the_end() {
        let (mut book, now) = (SeriesBook::default(), Instant::now());
        for reason in ["Once", "Twice", "Twice", "Often", "Often", "Often"] {
            book.observe(event("a", reason, 1), now);
        }
        let left = book.unwritten();
        assert_eq!(left.iter().map(count).collect::<Vec<_>>(), [Some(3)]);
    }
}
