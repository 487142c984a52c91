//! The paths of values in protobuf, which are only needed for errors.

use windlass_protobuf::{Node, Reading};

/// Returns the path of the value that has these bytes; empty if they are not in the input.
pub(crate) fn of(reading: &Reading<'_>, bytes: &[u8]) -> String {
    let mut path = String::new();
    let mut node = reading.root();
    while let Some((step, inner)) = step(reading, node, bytes) {
        if !path.is_empty() && !step.starts_with('[') {
            path.push('.');
        }
        path.push_str(&step);
        node = inner;
    }
    path
}

/// Returns the bytes of a value, if they determine it.
pub(crate) fn bytes_of(node: Node<'_>) -> Option<&[u8]> {
    match node {
        Node::Text(bytes) | Node::Bytes(bytes) | Node::Quantity(bytes) | Node::Json(bytes) => Some(bytes),
        Node::Message(message) => Some(message.bytes()),
        Node::List(list) | Node::Map(list) => Some(list.bytes()),
        Node::Null | Node::Bool(_) | Node::Int(_) | Node::Float(_) | Node::Time(_) => None,
    }
}

/// Returns the part of a value that contains the bytes.
fn step<'r>(reading: &'r Reading<'_>, node: Node<'r>, bytes: &[u8]) -> Option<(String, Node<'r>)> {
    let contains = |node: &Node<'_>| {
        let outer = bytes_of(*node).map(<[u8]>::as_ptr_range);
        let inner = bytes.as_ptr_range();
        !bytes.is_empty() && outer.is_some_and(|outer| outer.start <= inner.start && inner.end <= outer.end)
    };
    if bytes_of(node).is_some_and(|outer| std::ptr::eq(outer, bytes)) {
        return None;
    }
    match node {
        Node::Message(message) => reading.names(message).find_map(|name| {
            let inner = reading.member(node, name).ok().flatten().filter(contains)?;
            Some((name.to_owned(), inner))
        }),
        Node::List(_) => {
            let mut elements = reading.elements(node).ok().flatten()?;
            let mut index = 0;
            while let Some(item) = reading.next_item(&mut elements).ok().flatten() {
                if contains(&item) {
                    return Some((format!("[{index}]"), item));
                }
                index += 1;
            }
            None
        }
        Node::Map(_) => {
            let mut elements = reading.elements(node).ok().flatten()?;
            while let Some((key, value)) = reading.next_entry(&mut elements).ok().flatten() {
                if contains(&value) {
                    return Some((windlass_protobuf::text(key).into_owned(), value));
                }
            }
            None
        }
        _ => None,
    }
}
