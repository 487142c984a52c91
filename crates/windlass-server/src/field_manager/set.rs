//! Sets of fields, and their encoding, fieldsV1.

use serde_json::{Map, Value};

use super::{
    element::{BadElement, Element},
    schema::Type,
};

/// A set of fields: a tree whose nodes may be members. A parent of a member need not be a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Set {
    /// The nodes in order, without duplicates. Each node is a member or has members below it.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// `true` if the field itself is in the set.
    pub(super) member: bool,
    pub(super) below: Set,
}

/// Combines the nodes of two sets for the same element.
type Combine = fn(Option<&Node>, Option<&Node>) -> Option<Node>;

impl Set {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Creates a set of one path.
    pub(super) fn of(path: &[Element]) -> Self {
        let mut set = Self::default();
        set.insert(path);
        set
    }

    /// Creates a set of paths of fields.
    pub(super) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a field, but not its parents.
    pub(super) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element: first.clone(), member: false, below: Self::default() });
                at
            }
        };
        let node = &mut self.nodes[at];
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    /// Appends a node. The caller must call [`Self::finish`] afterwards to restore the order.
    pub(super) fn push(&mut self, element: Element, member: bool, below: Self) {
        if member || !below.is_empty() {
            self.nodes.push(Node { element, member, below });
        }
    }

    /// Restores the order after calls to `push`; no element may have been pushed twice.
    pub(super) fn finish(&mut self) {
        if !self.nodes.is_sorted_by(|a, b| a.element < b.element) {
            self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        }
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    /// Reports whether the field is in the set.
    pub(super) fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) })
    }

    /// Returns the fields that are in either set.
    pub(super) fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node::new(a, a.member || b.member, a.below.union(&b.below)),
            (a, b) => a.or(b).cloned(),
        })
    }

    /// Returns the fields that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node::new(a, a.member && b.member, a.below.intersection(&b.below)),
            _ => None,
        })
    }

    /// Returns the fields that are not in `other`.
    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node::new(a, a.member && !b.member, a.below.difference(&b.below)),
            (a, _) => a.cloned(),
        })
    }

    /// Returns the fields that are neither in `other` nor below one of its members.
    pub(super) fn without(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        self.combine(other, |a, b| match (a, b) {
            (Some(_), Some(b)) if b.member => None,
            (Some(a), Some(b)) => Node::new(a, a.member, a.below.without(&b.below)),
            (a, _) => a.cloned(),
        })
    }

    fn combine(&self, other: &Self, combine: Combine) -> Self {
        let mut nodes = Vec::new();
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let (a, b) = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some(a), Some(b)) => match a.element.cmp(&b.element) {
                    std::cmp::Ordering::Less => (left.next(), None),
                    std::cmp::Ordering::Greater => (None, right.next()),
                    std::cmp::Ordering::Equal => (left.next(), right.next()),
                },
                (Some(_), None) => (left.next(), None),
                (None, Some(_)) => (None, right.next()),
            };
            nodes.extend(combine(a, b));
        }
        Self { nodes }
    }

    /// Returns the set with all declared fields above its members added.
    pub(super) fn with_named_fields(&self, ty: Option<&Type>) -> Self {
        let (map, list) = (ty.and_then(|ty| ty.map.as_ref()), ty.and_then(|ty| ty.list.as_ref()));
        let nodes = self.nodes.iter().map(|node| {
            let (named, below) = match &node.element {
                Element::Field(name) => {
                    let named = map.is_some_and(|map| map.declares(name));
                    (named, map.and_then(|map| map.field(name)))
                }
                Element::Key(_) => (false, list.map(|list| list.element.get())),
                _ => (false, None),
            };
            let member = node.member || (named && !node.below.is_empty());
            Node { element: node.element.clone(), member, below: node.below.with_named_fields(below) }
        });
        Self { nodes: nodes.collect() }
    }

    /// Adjusts a set that was stored under an older type: a value that is atomic now is owned as a whole.
    pub(super) fn reconcile(&mut self, ty: &Type) {
        for node in &mut self.nodes {
            let below = match (&node.element, &ty.map, &ty.list) {
                (Element::Field(name), Some(map), _) => map.field(name),
                (_, Some(map), _) => map.other(),
                (_, None, Some(list)) => Some(list.element.get()),
                _ => None,
            };
            if let Some(below) = below {
                node.reconcile(below);
            }
        }
    }

    /// Returns the paths of all members, in order.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, above: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = above.clone();
            path.push(node.element.clone());
            paths.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            above.push(node.element.clone());
            node.below.collect(above, paths);
            above.pop();
        }
    }

    /// Parses fieldsV1.
    pub(super) fn parse(fields: &Value) -> Result<Self, BadElement> {
        let Value::Object(fields) = fields else {
            return if fields.is_null() { Ok(Self::default()) } else { Err(BadElement) };
        };
        let mut set = Self::default();
        for (text, below) in fields.iter().filter(|(text, _)| *text != ".") {
            let below_set = Self::parse(below)?;
            let Some(element) = Element::parse(text)? else { continue };
            let member = below_set.is_empty() || below.get(".").is_some();
            set.push(element, member, below_set);
        }
        set.finish();
        // A client may write the same element in two ways.
        set.nodes.dedup_by(|second, first| {
            let same = second.element == first.element;
            if same {
                first.member |= second.member;
                first.below = first.below.union(&second.below);
            }
            same
        });
        Ok(set)
    }

    /// Encodes the set as fieldsV1.
    pub(super) fn to_value(&self) -> Value {
        self.write(false)
    }

    fn write(&self, member: bool) -> Value {
        let mut fields = Map::new();
        if member && !self.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for node in &self.nodes {
            fields.insert(node.element.text(), node.below.write(node.member));
        }
        Value::Object(fields)
    }

    /// Reports whether fieldsV1 that the server stored contains any field of this set.
    pub(super) fn intersects(&self, fields: &Value) -> bool {
        self.nodes.iter().any(|node| {
            let Some(found) = fields.get(node.element.text()) else { return false };
            (node.member && is_member(found)) || node.below.intersects(found)
        })
    }

    /// Reports whether fieldsV1 that the server stored contains all fields of this set.
    pub(super) fn is_within(&self, fields: &Value) -> bool {
        self.nodes.iter().all(|node| {
            let Some(found) = fields.get(node.element.text()) else { return false };
            (!node.member || is_member(found)) && node.below.is_within(found)
        })
    }
}

impl Node {
    fn new(like: &Self, member: bool, below: Set) -> Option<Self> {
        (member || !below.is_empty()).then(|| Self { element: like.element.clone(), member, below })
    }

    fn reconcile(&mut self, ty: &Type) {
        if ty.is_deduced_map() {
            return;
        }
        let atomic = match (&ty.map, &ty.scalar, &ty.list) {
            (Some(map), _, _) => map.atomic,
            (None, None, Some(list)) => list.is_atomic(),
            (None, _, _) => return,
        };
        if !atomic {
            self.below.reconcile(ty);
        } else if !self.below.is_empty() {
            self.member = true;
            self.below = Set::default();
        }
    }
}

fn is_member(fields: &Value) -> bool {
    fields.as_object().is_some_and(|fields| fields.is_empty() || fields.contains_key("."))
}
