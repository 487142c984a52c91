//! The members of the objects that were read last. A second field of the same object is found without passing the object
//! again.

use super::{Member, RawText};

/// The number of retained members, and of retained objects.
const MEMBERS: usize = 64;
const OBJECTS: usize = 8;

/// A table of fixed size, so that it needs no allocation. If it is full, it is cleared.
#[derive(Debug)]
pub(crate) struct Memo {
    objects: [Object; OBJECTS],
    object_count: usize,
    members: [Entry; MEMBERS],
    member_count: usize,
}

/// An object whose members are all in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Object {
    at: u32,
    first: u8,
    end: u8,
}

/// The positions of a member's key and value.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u32,
    key_length: u32,
    value: u32,
}

/// The members of one object while it is passed.
pub(super) struct Record<'m> {
    memo: &'m mut Memo,
    at: u32,
    first: usize,
    /// `false` if the object cannot be retained.
    is_possible: bool,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            objects: [Object::default(); OBJECTS],
            object_count: 0,
            members: [Entry::default(); MEMBERS],
            member_count: 0,
        }
    }
}

impl Memo {
    /// Finds a member of a retained object; `None` if the object is not retained.
    #[expect(clippy::option_option, reason = "`None` means that the object is not retained")]
    pub(super) fn find(&self, text: &[u8], object: usize, name: &str) -> Option<Option<usize>> {
        let objects = &self.objects[..self.object_count];
        let known = objects.iter().find(|known| known.at as usize == object)?;
        let members = &self.members[usize::from(known.first)..usize::from(known.end)];
        let is_named = |entry: &&Entry| {
            let start = entry.key as usize;
            text[start..start + entry.key_length as usize] == *name.as_bytes()
        };
        Some(members.iter().rfind(is_named).map(|entry| entry.value as usize))
    }

    /// Starts to record the members of an object.
    pub(super) fn record(&mut self, text: &[u8], object: usize) -> Record<'_> {
        if self.object_count == OBJECTS {
            self.clear();
        }
        let is_possible = u32::try_from(text.len()).is_ok();
        let (at, first) = (u32::try_from(object).unwrap_or_default(), self.member_count);
        Record { memo: self, at, first, is_possible }
    }

    const fn clear(&mut self) {
        (self.object_count, self.member_count) = (0, 0);
    }
}

impl Record<'_> {
    /// Adds a member.
    pub(super) fn add(&mut self, member: &Member<'_>) {
        let RawText { text, at, has_escapes } = member.key;
        // Keys with escapes have to be decoded.
        self.is_possible &= !has_escapes;
        if !self.is_possible {
            return;
        }
        if self.memo.member_count == MEMBERS && !self.make_room() {
            self.is_possible = false;
            return;
        }
        let to_u32 = |position: usize| u32::try_from(position).unwrap_or_default();
        let entry = Entry { key: to_u32(at), key_length: to_u32(text.len()), value: to_u32(member.value) };
        self.memo.members[self.memo.member_count] = entry;
        self.memo.member_count += 1;
    }

    /// Retains the object: all its members have been added. Without this call, or if not all of them have room, the
    /// object is not retained.
    pub(super) fn finish(self) {
        let Self { memo, at, first, is_possible } = self;
        match (is_possible, u8::try_from(first), u8::try_from(memo.member_count)) {
            (true, Ok(first), Ok(end)) => {
                memo.objects[memo.object_count] = Object { at, first, end };
                memo.object_count += 1;
            }
            _ => memo.member_count = first,
        }
    }

    /// Drops the other objects. Returns `false` if there are none.
    fn make_room(&mut self) -> bool {
        let (first, end) = (self.first, self.memo.member_count);
        if first == 0 {
            return false;
        }
        self.memo.clear();
        self.memo.members.copy_within(first..end, 0);
        (self.memo.member_count, self.first) = (end - first, 0);
        true
    }
}
