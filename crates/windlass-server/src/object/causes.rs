//! A bounded list of the validation errors of one object.

use windlass_api::Cause;

use super::DuplicateCheck;

/// The maximum number of errors for one object; further ones are only counted. The real server lists all, or times out.
const MAX_COUNT: usize = 10_000;
/// The maximum total length of their texts, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// Validation errors in the order in which they were found, bounded in number and size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Causes {
    kept: Vec<Cause>,
    /// The total length of the retained texts, in bytes.
    bytes: usize,
    omitted: usize,
}

impl Causes {
    /// Reports whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Reports whether the list is full, so that further errors are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_COUNT || self.bytes >= MAX_BYTES
    }

    /// Returns the number of errors, including those that were not retained.
    pub(crate) fn len(&self) -> usize {
        self.kept.len() + self.omitted
    }

    /// Adds an error.
    pub(crate) fn push(&mut self, cause: Cause) {
        self.push_with(|| cause);
    }

    /// Adds an error, which is only built if there is room for it.
    pub(crate) fn push_with(&mut self, cause: impl FnOnce() -> Cause) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let cause = cause();
        self.bytes += cause.reason.len() + cause.message.len() + cause.field.len();
        self.kept.push(cause);
    }

    /// Adds the errors of another check.
    pub(crate) fn append(&mut self, other: Self) {
        other.kept.into_iter().for_each(|cause| self.push(cause));
        self.omitted += other.omitted;
    }

    /// Iterates over the retained errors.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Cause> {
        self.kept.iter()
    }

    /// Iterates mutably over the retained errors.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Cause> {
        self.kept.iter_mut()
    }

    /// Removes errors that equal an earlier one.
    pub(crate) fn remove_repeated(&mut self) {
        let mut seen = DuplicateCheck::default();
        let texts = self.kept.iter().map(|cause| (cause.field.as_str(), cause.message.as_str()));
        let repeated: Vec<bool> = texts.map(|texts| seen.repeats(texts)).collect();
        let mut repeated = repeated.into_iter();
        self.kept.retain(|_| repeated.next() != Some(true));
    }

    /// Moves the errors for which `place` returns a value to the end, sorted by that value, without changing the order of
    /// the others. The function may change an error.
    pub(crate) fn move_last<P: Ord>(&mut self, mut place: impl FnMut(&mut Cause) -> Option<P>) {
        let mut last = Vec::new();
        for mut cause in std::mem::take(&mut self.kept) {
            match place(&mut cause) {
                Some(place) => last.push((place, cause)),
                None => self.kept.push(cause),
            }
        }
        last.sort_by(|(place, _), (other, _)| place.cmp(other));
        self.kept.extend(last.into_iter().map(|(_, cause)| cause));
    }

    /// Keeps the errors for which `keep` returns `true`.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Cause) -> bool) {
        self.kept.retain(keep);
    }

    /// Returns the errors. If some were omitted, the last element states their number.
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
    fn causes_above_the_limit_are_only_counted() {
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
    fn repeated_causes_are_removed_by_field_and_message() {
        let mut causes = Causes::default();
        let mut other = cause(1);
        other.field = "metadata".to_owned();
        for cause in [cause(1), cause(2), other, cause(1)] {
            causes.push(cause);
        }
        causes.remove_repeated();
        let fields: Vec<_> = causes.iter().map(|cause| (cause.field.as_str(), cause.message.len())).collect();
        assert_eq!(fields, [("spec", 1), ("spec", 2), ("metadata", 1)]);
    }

    #[test]
    fn moved_causes_are_sorted_and_others_keep_their_order() {
        let mut causes = Causes::default();
        (1..=5).for_each(|length| causes.push(cause(length)));
        causes.move_last(|cause| (cause.message.len() % 2 == 1).then(|| 5 - cause.message.len()));
        let lengths: Vec<_> = causes.iter().map(|cause| cause.message.len()).collect();
        assert_eq!(lengths, [2, 4, 5, 3, 1]);
    }

    #[test]
    fn large_causes_are_limited_in_bytes() {
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
