//! Values at paths of an object.

use serde::{Deserialize as _, de::DeserializeOwned};

use super::{
    Frame, State,
    node::{Node, Slot},
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
    let mut state = State { found: Occurrences::new(input, span), outer: Vec::new(), head: None, minor };
    let mut slot = Slot::root(message);
    for (at, key) in path.iter().enumerate() {
        let next = match state.node(&slot)? {
            Node::Message { message, parts, depth } => state.member(message, parts, depth, key)?,
            Node::Map { message, field, start, end, depth } => {
                let pairs = &state.found.pairs[start..end];
                pairs.iter().find(|pair| pair.key.of(input) == key.as_bytes()).copied().map(|pair| {
                    let base = state.found.entries.len();
                    state.found.entries.extend(pair.value.map(|span| Entry { field: 0, span }));
                    Slot::item(message, field, base..state.found.entries.len(), depth)
                })
            }
            Node::Raw(json) => {
                let error = |error| {
                    let Place { message, field, .. } = state.place(&slot);
                    problem(message, field, json.start as usize, format!("not the expected JSON: {error}"))
                };
                let value: serde_json::Value = serde_json::from_slice(json.of(input)).map_err(error)?;
                let value = path[at..].iter().try_fold(&value, |value, key| value.get(*key));
                let value = value.filter(|value| !value.is_null()).cloned();
                return value.map(serde_json::from_value).transpose().map_err(error);
            }
            _ => None,
        };
        match next {
            Some(next) => slot = next,
            None => return Ok(None),
        }
    }
    let value = Option::<T>::deserialize(Value { state: &mut state, slot: &slot });
    value.map_err(|fault| fault.at(state.place(&slot)).into_error())
}

impl State<'_> {
    /// Returns a member of a message's JSON object.
    fn member(
        &mut self,
        message: &'static Message,
        parts: std::ops::Range<usize>,
        depth: u16,
        key: &str,
    ) -> Result<Option<Slot>, Error> {
        let mut frame = Frame::new(message, depth, self.found.entries.len());
        frame.open(self, parts)?;
        while let Some((index, found)) = frame.next(self) {
            let field = &message.fields[index];
            if let (Form::Embedded, Item::Message(inner)) = (field.form, field.item) {
                let inner = self.member(inner.get(), found, depth + 1, key)?;
                if inner.is_some() {
                    return Ok(inner);
                }
            } else if field.name == key {
                return Ok(Some(Slot::member(message, field, found, depth)));
            }
        }
        Ok(None)
    }
}
