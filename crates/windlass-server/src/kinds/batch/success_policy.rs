//! The success policy, by which an indexed job succeeds before all of its pods do.

use crate::kinds::prelude::*;

const MAX_RULES: usize = 20;
/// The maximum length of a list of indexes, in bytes.
const MAX_INDEXES_LENGTH: usize = 64 << 10;

/// Validates the success policy of a job with this number of completions.
pub(super) fn validate(policy: &Field<'_>, completions: i64, errors: &mut Errors) {
    let rules = policy.child("rules");
    rules.check_not_empty("at least one rules must be specified when the successPolicy is specified", errors);
    rules.at_most(MAX_RULES, errors);
    rules.each(|rule, errors| validate_rule(rule, completions, errors), errors);
}

fn validate_rule(rule: &Field<'_>, completions: i64, errors: &mut Errors) {
    let (indexes, count) = (rule.child("succeededIndexes"), rule.child("succeededCount"));
    if !indexes.is_set() && !count.is_set() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified", errors);
    }
    let mut total = 0;
    if indexes.is_set() {
        indexes.check_bytes(MAX_INDEXES_LENGTH, errors);
        match count_indexes(indexes.text(), completions) {
            Ok(number) => total = number,
            Err(problem) => indexes.invalid(&format!("error parsing succeededIndexes: {problem}"), errors),
        }
    }
    count.not_negative(errors);
    let is_above = |limit: i64| count.int().is_some_and(|count| count > limit);
    if is_above(completions) {
        let text = format!("must be less than or equal to {completions} (the number of specified completions)");
        count.invalid(&text, errors);
    }
    if indexes.is_set() && is_above(total) {
        let text = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        count.invalid(&text, errors);
    }
}

/// Returns the number of indexes in a list such as `0,3-5`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None);
    for interval in text.split(',') {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(last) = last {
            check_increasing(last, first)?;
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that both lists contain. Invalid intervals are ignored.
pub(super) fn common_index(one: &str, other: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|interval| parse_interval(interval, completions).ok()).collect()
    };
    let (one, other) = (intervals(one), intervals(other));
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    while let (Some((first, end)), Some((other_first, other_end))) = (left.peek(), right.peek()) {
        if first <= other_end && other_first <= end {
            return Some(*first.max(other_first));
        }
        if first <= other_first {
            left.next()
        } else {
            right.next()
        };
    }
    None
}

/// Parses an interval: a single index, or the first and last of a range.
fn parse_interval(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |part: &str| {
        let number =
            part.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
        if number >= completions { Err(format!("too large index: {part:?}")) } else { Ok(number) }
    };
    match interval.split_once('-') {
        None => index(interval).map(|index| (index, index)),
        Some((_, end)) if end.contains('-') => Err(format!(
            "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated \
             by '-'"
        )),
        Some((first, end)) => {
            let (first, end) = (index(first)?, index(end)?);
            check_increasing(first, end)?;
            Ok((first, end))
        }
    }
}

fn check_increasing(previous: i64, current: i64) -> Result<(), String> {
    if previous < current {
        return Ok(());
    }
    Err(format!("non-increasing order, previous: {previous}, current: {current}"))
}

#[cfg(test)]
mod tests {
    use crate::kinds::batch::success_policy::*;

    #[test]
    fn indexes_are_counted_where_they_grow_and_are_there() {
        for (text, count) in [("", 0), ("3", 1), ("0,3-5", 4), ("0-9", 10), ("1-2,4,6-7", 5)] {
            assert_eq!(count_indexes(text, 10), Ok(count), "{text}");
        }
        for (text, why) in [
            ("a", "cannot convert string to integer for index: \"a\""),
            ("10", "too large index: \"10\""),
            ("5-3", "non-increasing order, previous: 5, current: 3"),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
        ] {
            assert_eq!(count_indexes(text, 10), Err(why.to_owned()), "{text}");
        }
        assert_eq!(common_index("0,3-5", "1,4-6", 10), Some(4));
        assert_eq!(common_index("0,x,3-5", "1-2,6", 10), None);
        assert!(count_indexes("1-2-3", 10).unwrap_err().contains("at most two parts"));
    }
}
