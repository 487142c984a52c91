//! An ordered map of keys that counts values without visiting them. For backends.

use std::{
    mem,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use super::Revision;

#[cfg(test)]
mod tests;

/// An entry of a [`KeyMap`]: a key with its versions.
pub trait KeyEntry {
    /// Returns the key.
    fn key(&self) -> &Arc<str>;

    /// Reports whether the key has a value at the current revision.
    fn is_live(&self) -> bool;

    /// Reports whether the key has a value at a revision that is readable for this key.
    fn is_live_at(&self, revision: Revision) -> bool;
}

/// The keys of a store in byte order, with their versions.
///
/// A B+ tree. Each node has the number of live keys below it, and a revision since which no key below it has gained or
/// lost its value. So a count at the current revision visits two paths of the tree, regardless of the number of keys. A
/// count at an older revision also visits the leaves that have changed since then.
#[derive(Debug)]
pub struct KeyMap<E> {
    root: Node<E>,
    /// No key has gained or lost its value after this revision.
    changed: Revision,
}

/// The result of a count.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyCount {
    /// The number of counted values.
    pub count: u64,
    /// The last visited key if the count is incomplete. It continues after this key.
    pub last: Option<Arc<str>>,
}

#[derive(Debug)]
enum Node<E> {
    /// In key order.
    Leaf(Vec<E>),
    /// Never empty, except for a moment before it is removed.
    Inner(Vec<Child<E>>),
}

/// A child of an inner node.
#[derive(Debug)]
struct Child<E> {
    /// The keys of this child are not less, and those of the child before it are less. The first child of a node may
    /// also have lesser keys.
    first: Arc<str>,
    live: u64,
    /// No key of this child has gained or lost its value after this revision.
    changed: Revision,
    node: Node<E>,
}

/// The second half of a node that was split.
struct Split<E> {
    first: Arc<str>,
    node: Node<E>,
}

/// A count in progress.
struct Counting<'q> {
    prefix: &'q str,
    at: Revision,
    /// The number of entries that may still be visited.
    visits: usize,
    count: u64,
}

/// The maximum number of entries of a leaf, and of children of an inner node.
const CAPACITY: usize = 64;

/// The number of entries by which a leaf grows. Leaves have little spare capacity, because it is most of the overhead.
const GROWTH: usize = 8;

/// A node with fewer entries is merged with a neighbor if both together leave space for further ones.
const FEW: usize = CAPACITY / 4;
const MERGED: usize = CAPACITY / 4 * 3;

// === impl KeyMap ===

impl<E: KeyEntry> KeyMap<E> {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self { root: Node::Leaf(Vec::new()), changed: Revision(0) }
    }

    /// Returns the entry of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&E> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(children, key)].node,
                Node::Leaf(entries) => return entries.get(find(entries, key).ok()?),
            }
        }
    }

    /// Adds an entry. If the key already has one, `merge` is called with it and the new one instead. `revision` is not
    /// less than the revision at which the key gains or loses its value, if it does.
    pub fn put(&mut self, entry: E, revision: Revision, merge: impl FnOnce(&mut E, E)) {
        self.changed = self.changed.max(revision);
        let (_, split) = self.root.put(entry, revision, merge);
        if let Some(Split { first, node }) = split {
            let left = mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            let children = [("".into(), left), (first, node)];
            let changed = self.changed;
            let children = children.map(|(first, node)| Child { first, live: node.live(), changed, node });
            self.root = Node::Inner(children.into());
        }
    }

    /// Changes the entry of a key. Returns `None` if the key has none. `revision` is as for [`put`](Self::put).
    pub fn update<R>(&mut self, key: &str, revision: Revision, change: impl FnOnce(&mut E) -> R) -> Option<R> {
        self.changed = self.changed.max(revision);
        self.root.update(key, revision, change).map(|(_, result)| result)
    }

    /// Removes the entry of a key. `revision` is as for [`put`](Self::put).
    pub fn remove(&mut self, key: &str, revision: Revision) -> Option<E> {
        self.changed = self.changed.max(revision);
        let removed = self.root.remove(key, revision)?;
        while let Node::Inner(children) = &mut self.root
            && children.len() <= 1
        {
            self.root = children.pop().map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        Some(removed)
    }

    /// Calls `receive` with the entries in key order, until it breaks.
    pub fn visit<'a>(&'a self, from: Bound<&str>, mut receive: impl FnMut(&'a E) -> ControlFlow<()>) {
        let _ = self.root.visit(from, &mut receive);
    }

    /// Counts the values at a revision whose keys have a prefix. It ends when it has visited `visits` entries, or a few
    /// more, because keys have changed since that revision. `from` is not less than the prefix.
    #[must_use]
    pub fn count(&self, from: Bound<&str>, prefix: &str, at: Revision, visits: usize) -> KeyCount {
        let mut counting = Counting { prefix, at, visits, count: 0 };
        let last = match self.root.count(from, None, &mut counting) {
            ControlFlow::Break(last) => last,
            ControlFlow::Continue(()) => None,
        };
        KeyCount { count: counting.count, last }
    }

    /// Reports whether no entry has a key with this prefix.
    #[must_use]
    pub fn is_empty_below(&self, prefix: &str) -> bool {
        let mut is_empty = true;
        self.visit(Bound::Included(prefix), |entry| {
            is_empty = !entry.key().starts_with(prefix);
            ControlFlow::Break(())
        });
        is_empty
    }
}

impl<E: KeyEntry> Default for KeyMap<E> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Node ===

impl<E: KeyEntry> Node<E> {
    /// Returns the change of the number of live keys, and the second half if the node was split.
    fn put(&mut self, entry: E, revision: Revision, merge: impl FnOnce(&mut E, E)) -> (i64, Option<Split<E>>) {
        match self {
            Self::Leaf(entries) => match find(entries, entry.key()) {
                Ok(at) => {
                    let before = entries[at].is_live();
                    merge(&mut entries[at], entry);
                    (i64::from(entries[at].is_live()) - i64::from(before), None)
                }
                Err(at) => {
                    let change = i64::from(entry.is_live());
                    let right = insert(entries, at, entry);
                    let split = |right: Vec<E>| Split { first: Arc::clone(right[0].key()), node: Self::Leaf(right) };
                    (change, right.map(split))
                }
            },
            Self::Inner(children) => {
                let at = child_of(children, entry.key());
                let child = &mut children[at];
                let (change, split) = child.node.put(entry, revision, merge);
                child.count_change(change, revision);
                let Some(Split { first, node }) = split else { return (change, None) };
                let sibling = Child { first, live: node.live(), changed: child.changed, node };
                child.live -= sibling.live;
                let right = insert(children, at + 1, sibling);
                let split =
                    |right: Vec<Child<E>>| Split { first: Arc::clone(&right[0].first), node: Self::Inner(right) };
                (change, right.map(split))
            }
        }
    }

    /// Returns the change of the number of live keys, and the result of `change`.
    fn update<R>(&mut self, key: &str, revision: Revision, change: impl FnOnce(&mut E) -> R) -> Option<(i64, R)> {
        match self {
            Self::Leaf(entries) => {
                let at = find(entries, key).ok()?;
                let before = entries[at].is_live();
                let result = change(&mut entries[at]);
                Some((i64::from(entries[at].is_live()) - i64::from(before), result))
            }
            Self::Inner(children) => {
                let at = child_of(children, key);
                let (change, result) = children[at].node.update(key, revision, change)?;
                children[at].count_change(change, revision);
                Some((change, result))
            }
        }
    }

    fn remove(&mut self, key: &str, revision: Revision) -> Option<E> {
        match self {
            Self::Leaf(entries) => {
                let at = find(entries, key).ok()?;
                let removed = entries.remove(at);
                if entries.capacity() > entries.len() + 2 * GROWTH {
                    entries.shrink_to(entries.len() + GROWTH);
                }
                Some(removed)
            }
            Self::Inner(children) => {
                let at = child_of(children, key);
                let removed = children[at].node.remove(key, revision)?;
                children[at].count_change(-i64::from(removed.is_live()), revision);
                if children[at].node.len() < FEW {
                    merge_child(children, at);
                }
                Some(removed)
            }
        }
    }

    fn visit<'a>(&'a self, from: Bound<&str>, receive: &mut impl FnMut(&'a E) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Self::Leaf(entries) => entries[first_from(entries, from)..].iter().try_for_each(receive),
            Self::Inner(children) => {
                let start = child_from(children, from);
                children[start].node.visit(from, receive)?;
                children[start + 1..].iter().try_for_each(|child| child.node.visit(Bound::Unbounded, receive))
            }
        }
    }

    /// Counts until the prefix ends, or until enough entries are visited; then the last of them is returned. All keys
    /// of this node are less than `end`.
    fn count(
        &self,
        from: Bound<&str>,
        end: Option<&str>,
        counting: &mut Counting<'_>,
    ) -> ControlFlow<Option<Arc<str>>> {
        match self {
            Self::Leaf(entries) => {
                let entries = &entries[first_from(entries, from)..];
                for entry in entries {
                    if !entry.key().starts_with(counting.prefix) {
                        return ControlFlow::Break(None);
                    }
                    counting.count += u64::from(entry.is_live_at(counting.at));
                }
                counting.visits = counting.visits.saturating_sub(entries.len());
                match entries.last() {
                    Some(last) if counting.visits == 0 => ControlFlow::Break(Some(Arc::clone(last.key()))),
                    _ => ControlFlow::Continue(()),
                }
            }
            Self::Inner(children) => {
                let start = child_from(children, from);
                for (at, child) in children.iter().enumerate().skip(start) {
                    let from = if at == start { from } else { Bound::Unbounded };
                    let end = children.get(at + 1).map_or(end, |next| Some(&next.first));
                    let is_below_prefix =
                        end.map_or(counting.prefix.is_empty(), |end| end.starts_with(counting.prefix));
                    if from == Bound::Unbounded && is_below_prefix && child.changed <= counting.at {
                        counting.count += child.live;
                    } else {
                        child.node.count(from, end, counting)?;
                    }
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// Returns the number of live keys of a leaf, or of the children.
    fn live(&self) -> u64 {
        match self {
            Self::Leaf(entries) => entries.iter().map(|entry| u64::from(entry.is_live())).sum(),
            Self::Inner(children) => children.iter().map(|child| child.live).sum(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.len(),
        }
    }
}

impl<E> Child<E> {
    fn count_change(&mut self, change: i64, revision: Revision) {
        if change != 0 {
            self.live = self.live.saturating_add_signed(change);
            self.changed = self.changed.max(revision);
        }
    }
}

/// Returns the position of the child that has a key, if any has.
fn child_of<E>(children: &[Child<E>], key: &str) -> usize {
    children[1..].partition_point(|child| *child.first <= *key)
}

fn child_from<E>(children: &[Child<E>], from: Bound<&str>) -> usize {
    match from {
        Bound::Included(key) | Bound::Excluded(key) => child_of(children, key),
        Bound::Unbounded => 0,
    }
}

fn find<E: KeyEntry>(entries: &[E], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| (**entry.key()).cmp(key))
}

fn first_from<E: KeyEntry>(entries: &[E], from: Bound<&str>) -> usize {
    match from {
        Bound::Included(key) => entries.partition_point(|entry| **entry.key() < *key),
        Bound::Excluded(key) => entries.partition_point(|entry| **entry.key() <= *key),
        Bound::Unbounded => 0,
    }
}

/// Inserts an item into the items of a node. If they are full, they are split, and the second part is returned.
fn insert<T>(items: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if items.len() < CAPACITY {
        if items.len() == items.capacity() {
            items.reserve_exact(GROWTH);
        }
        items.insert(at, item);
        return None;
    }
    // Items that arrive in order would leave each first part half empty.
    let middle = if at + GROWTH >= CAPACITY { at } else { CAPACITY / 2 };
    let mut right = Vec::with_capacity(CAPACITY - middle + GROWTH);
    right.extend(items.drain(middle..));
    if at >= middle {
        right.insert(at - middle, item);
    } else {
        items.insert(at, item);
    }
    items.shrink_to_fit();
    Some(right)
}

/// Merges a child with few items with one of its neighbors, if that leaves space for further ones. Removes it if it is
/// empty.
fn merge_child<E: KeyEntry>(children: &mut Vec<Child<E>>, at: usize) {
    if children[at].node.len() == 0 {
        children.remove(at);
        return;
    }
    let is_small = |left: usize| {
        let right = children.get(left + 1)?;
        (children[left].node.len() + right.node.len() <= MERGED).then_some(left)
    };
    let Some(left) = is_small(at).or_else(|| is_small(at.checked_sub(1)?)) else { return };
    let right = children.remove(left + 1);
    let left = &mut children[left];
    left.live += right.live;
    left.changed = left.changed.max(right.changed);
    match (&mut left.node, right.node) {
        (Node::Leaf(left), Node::Leaf(right)) => {
            left.reserve_exact(right.len());
            left.extend(right);
        }
        (Node::Inner(left), Node::Inner(mut children)) => {
            // The first child may have keys that are less than its own bound.
            if let Some(child) = children.first_mut() {
                child.first = right.first;
            }
            left.append(&mut children);
        }
        (Node::Leaf(_), Node::Inner(_)) | (Node::Inner(_), Node::Leaf(_)) => {
            unreachable!("all leaves are equally deep")
        }
    }
}
