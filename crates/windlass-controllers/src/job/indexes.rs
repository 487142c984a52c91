//! Sets of completion indexes, in the format of a job's status: `0-2,5,7,8`.

use std::fmt;

/// A set of indexes, stored as sorted intervals that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: i32,
    last: i32,
}

impl Indexes {
    /// Parses the indexes below `completions`. Invalid intervals are skipped.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let mut intervals = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            if first >= 0 && first < completions && first <= last {
                intervals.push(Interval { first, last: last.min(completions - 1) });
            }
        }
        Self::of(intervals)
    }

    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable();
        let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match joined.last_mut() {
                Some(before) if interval.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(interval.last);
                }
                _ => joined.push(interval),
            }
        }
        Self(joined)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn total(&self) -> i32 {
        self.0.iter().map(|interval| interval.last - interval.first + 1).sum()
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        let after = self.0.partition_point(|interval| interval.last < index);
        self.0.get(after).is_some_and(|interval| interval.first <= index)
    }

    /// Returns the union of both sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns the number of indexes in both sets.
    pub(super) fn overlap(&self, other: &Self) -> i32 {
        let common = |a: &Interval, b: &Interval| (a.last.min(b.last) - a.first.max(b.first) + 1).max(0);
        self.0.iter().map(|a| other.0.iter().map(|b| common(a, b)).sum::<i32>()).sum()
    }

    /// Returns the first indexes of `0..completions` that are not in the set, at most `count`.
    pub(super) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        let end = Interval { first: completions, last: completions };
        for interval in self.0.iter().chain([&end]) {
            let gap = candidate..interval.first.min(completions);
            missing.extend(gap.take(count - missing.len()));
            candidate = candidate.max(interval.last.saturating_add(1));
        }
        missing
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self::of(indexes.into_iter().map(|index| Interval { first: index, last: index }).collect())
    }
}

impl fmt::Display for Indexes {
    /// Two consecutive indexes are written separately, more as an interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Interval { first, last }) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_they_are_read() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7,8", "0-9"] {
            assert_eq!(Indexes::parse(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::parse("0-5,9,11", 10).to_string(), "0-5,9");
        assert_eq!(Indexes::parse("3-12", 5).to_string(), "3,4");
        assert_eq!(Indexes::parse("x,1,4-y,-3,7-6", 10).to_string(), "1");
    }

    #[test]
    fn index_sets_support_union_count_and_contains() {
        let set = Indexes::parse("0,1,5-7", 10).union(&[2, 8, 8, 5].into_iter().collect());
        assert_eq!((set.to_string().as_str(), set.total()), ("0-2,5-8", 7));
        let inside: Vec<_> = (0..10).filter(|index| set.contains(*index)).collect();
        assert_eq!(inside, [0, 1, 2, 5, 6, 7, 8]);
        assert_eq!(set.overlap(&Indexes::parse("1-5,8,9", 10)), 4);
        assert_eq!(set.overlap(&Indexes::default()), 0);
    }

    #[test]
    fn the_first_missing_ones_fill_the_gaps() {
        let set = Indexes::parse("1,4,5", 8);
        assert_eq!(set.first_missing(3, 8), [0, 2, 3]);
        assert_eq!(set.first_missing(9, 8), [0, 2, 3, 6, 7]);
        assert_eq!(set.first_missing(0, 8), [0; 0]);
        assert_eq!(set.first_missing(9, 3), [0, 2]);
        assert_eq!(Indexes::default().first_missing(2, 8), [0, 1]);
    }
}
