//! Values at paths of an object.

use serde::{Deserialize as _, de::DeserializeOwned};

use super::{
    State,
    node::Node,
    value::{Place, Value},
};
use crate::{
    Error,
    occurrences::{Entry, Occurrences, problem},
    table::{Form, Item, Message},
    wire::Span,
};

/// Deserializes the value at a path of nested objects; `None` if it is absent or null.
pub(crate) fn value_at<T: DeserializeOwned>(
    message: &'static Message,
    input: &[u8],
    span: Span,
    path: &[&str],
    minor: u32,
) -> Result<Option<T>, Error> {
    let mut state = State { found: Occurrences::new(input, span), outer: Vec::new(), minor };
    let mut place = Place { message, field: None, offset: span.start };
    let mut node = Node::Message { message, parts: 0..1, depth: 0 };
    for (at, key) in path.iter().enumerate() {
        let next = match node {
            Node::Message { message, parts, depth } => state.member(message, parts, depth, key, &mut place)?,
            Node::Map { message, field, start, end, depth } => {
                let pairs = &state.found.pairs[start..end];
                match pairs.iter().find(|pair| pair.key.of(input) == key.as_bytes()).copied() {
                    Some(pair) => {
                        let base = state.found.entries.len();
                        state.found.entries.extend(pair.value.map(|span| Entry { field: 0, span }));
                        let found = base..state.found.entries.len();
                        Some(state.item(message, field, found, depth)?)
                    }
                    None => None,
                }
            }
            Node::Raw(json) => {
                let error = |error| {
                    let text = format!("not the expected JSON: {error}");
                    problem(place.message, place.field, json.start as usize, text)
                };
                let value: serde_json::Value = serde_json::from_slice(json.of(input)).map_err(error)?;
                let value = path[at..].iter().try_fold(&value, |value, key| value.get(*key));
                let value = value.filter(|value| !value.is_null()).cloned();
                return value.map(serde_json::from_value).transpose().map_err(error);
            }
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => return Ok(None),
        }
    }
    Option::<T>::deserialize(Value { state: &mut state, node, head: &[], place })
        .map_err(|fault| fault.at(place).into_error())
}

impl State<'_> {
    /// Returns a member of a message's JSON object.
    fn member(
        &mut self,
        message: &'static Message,
        parts: std::ops::Range<usize>,
        depth: usize,
        key: &str,
        place: &mut Place,
    ) -> Result<Option<Node>, Error> {
        let mut frame = self.frame(message, parts, depth)?;
        while let Some((index, found)) = frame.next(self) {
            let field = &message.fields[index];
            if let (Form::Embedded, Item::Message(inner)) = (field.form, field.item) {
                let inner = self.member(inner.get(), found, depth + 1, key, place)?;
                if inner.is_some() {
                    return Ok(inner);
                }
            } else if field.name == key {
                let start = self.found.entries.get(found.start).filter(|_| !found.is_empty());
                let offset = start.map_or(0, |entry| entry.span.start);
                *place = Place { message, field: Some(field.name), offset };
                return self.node(message, field, found, depth).map(Some);
            }
        }
        Ok(None)
    }
}
