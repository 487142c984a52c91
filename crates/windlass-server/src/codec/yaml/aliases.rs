//! The expansion limit for YAML aliases, checked before the document is built.
//!
//! The limits are those of Go's yaml.v2: aliases may make up 99 % of a small document and 10 % of a large one. The size
//! of texts counts as well: Go shares texts, but a JSON document repeats them.

use std::collections::{HashMap, HashSet};

use granit_parser::Event;

use super::{Events, MAX_DEPTH};

/// Up to this number of nodes, aliases may make up 99 %.
const FEW: u32 = 400_000;
/// From this number of nodes on, aliases may make up 10 %.
const MANY: u32 = 4_000_000;
/// The maximum number of text bytes that aliases may add; the same as the limit of a request body.
const MAX_BYTES: usize = 3 << 20;

/// Returns the anchors that aliases refer to; the builder only keeps the nodes of these.
pub(super) fn referenced(text: &str) -> Result<HashSet<usize>, String> {
    Ok(Counter::count_nodes(text)?.referenced)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    nodes: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Counter {
    built: Size,
    aliased: Size,
    /// The sizes of finished anchors.
    anchors: HashMap<usize, Size>,
    /// The open containers: the anchor of each, and the size of the document before it.
    open: Vec<(usize, Size)>,
    referenced: HashSet<usize>,
}

impl Counter {
    fn count_nodes(text: &str) -> Result<Self, String> {
        let mut counter = Self::default();
        let mut events = Events::new(text);
        while let Some((event, _)) = events.next()? {
            match event {
                Event::Scalar(text, _, anchor, _) => {
                    let before = counter.built;
                    counter.built.nodes += 1;
                    counter.built.bytes += text.len();
                    counter.finish(anchor, before);
                }
                Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                    if counter.open.len() > MAX_DEPTH {
                        return Err(super::TOO_DEEP.into());
                    }
                    counter.open.push((anchor, counter.built));
                    counter.built.nodes += 1;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some((anchor, before)) = counter.open.pop() {
                        counter.finish(anchor, before);
                    }
                }
                Event::Alias(anchor) => counter.count_alias(anchor)?,
                Event::DocumentEnd | Event::StreamEnd => break,
                _ => {}
            }
        }
        Ok(counter)
    }

    fn finish(&mut self, anchor: usize, before: Size) {
        if anchor != 0 {
            let size = Size { nodes: self.built.nodes - before.nodes, bytes: self.built.bytes - before.bytes };
            self.anchors.insert(anchor, size);
        }
    }

    fn count_alias(&mut self, anchor: usize) -> Result<(), String> {
        self.referenced.insert(anchor);
        self.built.nodes += 1;
        // The builder rejects an anchor that contains an alias to itself.
        let Some(size) = self.anchors.get(&anchor) else { return Ok(()) };
        for sum in [&mut self.built, &mut self.aliased] {
            sum.nodes += size.nodes;
            sum.bytes += size.bytes;
        }
        let excessive = self.aliased.nodes > 100
            && self.built.nodes > 1_000
            && as_float(self.aliased.nodes) / as_float(self.built.nodes) > allowed_share(self.built.nodes);
        if excessive || self.aliased.bytes > MAX_BYTES {
            return Err("yaml: document contains excessive aliasing".into());
        }
        Ok(())
    }
}

/// Returns the share of a document with this many nodes that may come from aliases.
fn allowed_share(nodes: usize) -> f64 {
    let (few, many) = (f64::from(FEW), f64::from(MANY));
    0.99 - 0.89 * ((as_float(nodes) - few) / (many - few)).clamp(0.0, 1.0)
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(text: &str) -> Size {
        Counter::count_nodes(text).unwrap().built
    }

    #[test]
    fn nodes_are_counted_like_go() {
        // The list and its two texts; the map, its keys, the alias and its expansion.
        assert_eq!(built("a: &a [x, yy]\nb: *a\n"), Size { nodes: 1 + 1 + 3 + 1 + 1 + 3, bytes: 1 + 3 + 1 + 3 });
        assert_eq!(allowed_share(400_000).to_bits(), 0.99_f64.to_bits());
        assert!((allowed_share(4_000_000) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn unreferenced_nested_anchors_are_not_kept() {
        let text = (0..100).map(|level| format!("&a{level} [")).collect::<String>() + "x" + &"]".repeat(100);
        assert!(referenced(&text).unwrap().is_empty());
    }

    #[test]
    fn aliases_of_long_texts_are_limited_by_bytes() {
        let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(50));
        assert_eq!(referenced(&text).unwrap_err(), "yaml: document contains excessive aliasing");
    }
}
