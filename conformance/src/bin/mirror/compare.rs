//! The comparison of two servers' events.

use std::fmt;

use serde_json::Value;

/// The maximum length of a printed value.
const VALUE_LENGTH: usize = 300;

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// The version of the change.
    pub(crate) version: u64,
    /// The event as the server has sent it: type and object.
    pub(crate) content: Value,
}

/// A difference between the events of two servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The resource, such as `deployments.apps`.
    resource: String,
    /// The namespace and the name of the object.
    object: String,
    /// The version of the event.
    version: u64,
    /// The first place with different values in the event, or an empty path if one server has not sent the event.
    path: String,
    /// The server and the value there of each server. `None` if it has none.
    values: [(String, Option<String>); 2],
}

/// Returns the different events of a resource, in the order of their versions.
pub(crate) fn compare(resource: &str, servers: [&str; 2], events: [&[Event]; 2]) -> Vec<Difference> {
    let [mut first, mut second] = events;
    let mut differences = Vec::new();
    loop {
        // An event that only one server has sent is skipped there, so that the next events are compared with each other.
        let (of_first, of_second) = match (first.first(), second.first()) {
            (None, None) => return differences,
            (Some(a), Some(b)) if a.version < b.version => (Some(a), None),
            (Some(a), Some(b)) if a.version > b.version => (None, Some(b)),
            both => both,
        };
        first = &first[usize::from(of_first.is_some())..];
        second = &second[usize::from(of_second.is_some())..];
        let [a, b] = [of_first, of_second].map(|event| event.map(|event| &event.content));
        let Some((path, a, b)) = first_difference(a, b) else { continue };
        let Some(event) = of_first.or(of_second) else { continue };
        let shown = |server: &str, value: Option<&Value>| (server.to_owned(), value.map(shortened));
        differences.push(Difference {
            resource: resource.to_owned(),
            object: name_of(&event.content["object"]["metadata"]),
            version: event.version,
            path,
            values: [shown(servers[0], a), shown(servers[1], b)],
        });
    }
}

/// Returns the path of the first different values, and both values.
fn first_difference<'a>(
    a: Option<&'a Value>,
    b: Option<&'a Value>,
) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    if a == b {
        return None;
    }
    let under = |name: String, a, b| {
        let (path, a, b) = first_difference(a, b)?;
        Some((format!("{name}{path}"), a, b))
    };
    let inner = match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| under(part(name), a.get(name), b.get(name)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            (0..a.len().max(b.len())).find_map(|index| under(format!("[{index}]"), a.get(index), b.get(index)))
        }
        _ => None,
    };
    Some(inner.unwrap_or((String::new(), a, b)))
}

/// Returns a field as part of a path. Names with dots, such as those of labels, are in brackets.
fn part(name: &str) -> String {
    if name.contains(['.', '[']) { format!("[{name}]") } else { format!(".{name}") }
}

fn name_of(metadata: &Value) -> String {
    let name = metadata["name"].as_str().unwrap_or_default();
    metadata["namespace"].as_str().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= VALUE_LENGTH {
        return text;
    }
    text.chars().take(VALUE_LENGTH).chain(['…']).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, object, version, path, values } = self;
        let path = if path.is_empty() { "the event" } else { path };
        write!(f, "{resource} {object}, version {version}: {path} differs")?;
        for (server, value) in values {
            write!(f, "\n    {server}: {}", value.as_deref().unwrap_or("nothing"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(version: u64, data: &Value) -> Event {
        let metadata = json!({"namespace": "n", "name": "o", "resourceVersion": version.to_string()});
        Event { version, content: json!({"type": "ADDED", "object": {"metadata": metadata, "data": data}}) }
    }

    fn differences(first: &[Event], second: &[Event]) -> Vec<String> {
        compare("configmaps", ["a", "b"], [first, second]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_events_have_no_difference() {
        let events = [event(2, &json!({"x": ["1"]})), event(5, &json!({}))];
        assert!(differences(&events, &events).is_empty());
    }

    #[test]
    fn different_value_is_reported_with_its_path() {
        let first = [event(2, &json!({"x.y/z": [1, {"q": 2}]}))];
        let second = [event(2, &json!({"x.y/z": [1, {"q": "2"}]}))];
        let expected = "configmaps n/o, version 2: .object.data[x.y/z][1].q differs\n    a: 2\n    b: \"2\"";
        assert_eq!(differences(&first, &second), [expected]);
    }

    #[test]
    fn absent_field_differs_from_null() {
        let (first, second) = ([event(2, &json!({"x": null}))], [event(2, &json!({}))]);
        let expected = "configmaps n/o, version 2: .object.data.x differs\n    a: null\n    b: nothing";
        assert_eq!(differences(&first, &second), [expected]);
    }

    #[test]
    fn missing_event_is_reported_once() {
        let all = [event(2, &json!(1)), event(3, &json!(2)), event(4, &json!(3))];
        let without = [all[0].clone(), all[2].clone()];
        for found in [differences(&all, &without), differences(&without, &all)] {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("configmaps n/o, version 3: the event differs"), "{found:?}");
            assert!(found[0].contains(": nothing"), "{found:?}");
        }
        assert_eq!(differences(&all, &all[..2]).len(), 1);
    }
}
