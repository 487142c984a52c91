//! A bounded list of complaints about one object.

use windlass_api::Cause;

/// The most complaints about one object; further ones are only counted. The real server lists all, or times out.
const MAX_COUNT: usize = 10_000;
/// The most bytes of text that they may have together.
const MAX_BYTES: usize = 2 << 20;

/// Complaints in the order in which they were found, bounded in number and size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Causes {
    kept: Vec<Cause>,
    /// The length of all texts that were kept.
    bytes: usize,
    omitted: usize,
}

impl Causes {
    /// Reports whether there is no complaint.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Reports whether further complaints are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_COUNT || self.bytes >= MAX_BYTES
    }

    /// Counts the complaints, also those that were not kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len() + self.omitted
    }

    /// Adds a complaint.
    pub(crate) fn push(&mut self, cause: Cause) {
        self.push_with(|| cause);
    }

    /// Adds a complaint that is only written if there is room for it.
    pub(crate) fn push_with(&mut self, cause: impl FnOnce() -> Cause) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let cause = cause();
        self.bytes += cause.reason.len() + cause.message.len() + cause.field.len();
        self.kept.push(cause);
    }

    /// Adds the complaints of another check.
    pub(crate) fn append(&mut self, other: Self) {
        other.kept.into_iter().for_each(|cause| self.push(cause));
        self.omitted += other.omitted;
    }

    /// Iterates over the complaints that were kept.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Cause> {
        self.kept.iter()
    }

    /// Iterates over the complaints that were kept, to change them.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Cause> {
        self.kept.iter_mut()
    }

    /// Keeps the complaints that fulfil a condition.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Cause) -> bool) {
        self.kept.retain(keep);
    }

    /// Returns the complaints; the last one counts those that were omitted.
    pub(crate) fn into_vec(mut self) -> Vec<Cause> {
        if self.omitted > 0 {
            self.kept.push(Cause {
                reason: "FieldValueTooMany".to_owned(),
                message: format!("Too many: {} more errors are not listed", self.omitted),
                field: String::new(),
            });
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(length: usize) -> Cause {
        Cause { reason: "FieldValueInvalid".into(), message: "x".repeat(length), field: "spec".into() }
    }

    #[test]
    fn complaints_beyond_the_most_are_counted_not_written() {
        let (mut causes, mut written) = (Causes::default(), 0);
        for _ in 0..MAX_COUNT + 5 {
            causes.push_with(|| {
                written += 1;
                cause(1)
            });
        }
        assert_eq!((written, causes.len()), (MAX_COUNT, MAX_COUNT + 5));
        let list = causes.into_vec();
        assert_eq!(list.len(), MAX_COUNT + 1);
        assert_eq!(list[MAX_COUNT].message, "Too many: 5 more errors are not listed");
    }

    #[test]
    fn large_complaints_are_bounded_in_bytes() {
        let mut causes = Causes::default();
        for _ in 0..100 {
            causes.push(cause(MAX_BYTES / 4));
        }
        assert_eq!(causes.iter().count(), 4);
        let mut more = Causes::default();
        more.push(cause(1));
        causes.append(more);
        assert_eq!((causes.len(), causes.iter().count()), (101, 4));
    }
}
