//! List functions: Kubernetes' library, version 3 of the lists extension, and sets.

use std::cmp::Ordering;

use crate::{
    cost::Cost,
    fault::EvalFault,
    function::Row,
    library::{int, items},
    meter::Meter,
    value::Value,
};

/// The starts of the functions of the lists extension.
pub(super) const EXTENSION: [&str; 8] = [
    "list(T)::slice(",
    "list(list(T))::flatten(",
    "list(dyn)::flatten(",
    "list(T)::sort(",
    "list(T)::@sortByAssociatedKeys(",
    "list(T)::reverse(",
    "list(T)::distinct(",
    "lists.range(",
];

pub(super) const TABLE: &[Row] = &[
    ("list(T)::isSorted() bool", Cost::Items, |_, args| {
        let items = items(args, 0)?;
        let mut sorted = true;
        for pair in items.windows(2) {
            sorted &= compared(&pair[0], &pair[1])?.is_le();
        }
        Ok(Value::Bool(sorted))
    }),
    ("list(int)::sum() int", Cost::Items, |_, args| {
        sum(args, Value::Int(0), |a, b| match (a, b) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int),
            _ => None,
        })
    }),
    ("list(uint)::sum() uint", Cost::Items, |_, args| {
        sum(args, Value::Uint(0), |a, b| match (a, b) {
            (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint),
            _ => None,
        })
    }),
    ("list(double)::sum() double", Cost::Items, |_, args| {
        sum(args, Value::Double(0.0), |a, b| match (a, b) {
            (Value::Double(a), Value::Double(b)) => Some(Value::Double(a + b)),
            _ => None,
        })
    }),
    ("list(duration)::sum() duration", Cost::Items, |_, args| {
        sum(args, Value::Duration(0), |a, b| match (a, b) {
            (Value::Duration(a), Value::Duration(b)) => a.checked_add(*b).map(Value::Duration),
            _ => None,
        })
    }),
    ("list(T)::min() T", Cost::Items, |_, args| extreme(args, "min", Ordering::Less)),
    ("list(T)::max() T", Cost::Items, |_, args| extreme(args, "max", Ordering::Greater)),
    ("list(T)::indexOf(T) int", Cost::Items, |meter, args| place(meter, &args[1], items(args, 0)?.iter().enumerate())),
    ("list(T)::lastIndexOf(T) int", Cost::Items, |meter, args| {
        place(meter, &args[1], items(args, 0)?.iter().enumerate().rev())
    }),
    ("list(T)::slice(int, int) list(T)", Cost::Slice, |meter, args| {
        let (all, start, end) = (items(args, 0)?, int(args, 1)?, int(args, 2)?);
        meter.work(all.len() as u64)?;
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let found = range.and_then(|(start, end)| all.get(start..end));
        found
            .map(|found| Value::list(found.to_vec()))
            .ok_or_else(|| EvalFault::error(format!("cannot slice({start}, {end}), list is length {}", all.len())))
    }),
    ("list(list(T))::flatten() list(T)", Cost::Copy, |meter, args| flattened(meter, args, 1)),
    ("list(dyn)::flatten(int) list(dyn)", Cost::Copy, |meter, args| match int(args, 1)? {
        depth if depth < 0 => Err(EvalFault::error("level must be non-negative")),
        depth => flattened(meter, args, depth),
    }),
    ("list(T)::sort() list(T)", Cost::Pairs { ordered: true }, |meter, args| {
        let all = items(args, 0)?;
        sorted(meter, all.iter().cloned().zip(all.iter().cloned()).collect())
    }),
    ("list(T)::@sortByAssociatedKeys(list(U)) list(T)", Cost::Pairs { ordered: true }, |meter, args| {
        sorted(meter, items(args, 1)?.into_iter().zip(items(args, 0)?).collect())
    }),
    ("lists.range(int) list(int)", Cost::Count, |meter, args| {
        let count = int(args, 0)?;
        meter.work(u64::try_from(count).unwrap_or(0))?;
        Ok(Value::list((0..count).map(Value::Int).collect()))
    }),
    ("list(T)::reverse() list(T)", Cost::Copy, |meter, args| {
        let mut all = items(args, 0)?;
        meter.work(all.len() as u64)?;
        all.reverse();
        Ok(Value::list(all))
    }),
    ("list(T)::distinct() list(T)", Cost::Pairs { ordered: false }, |meter, args| {
        let mut distinct = Vec::<Value<'_>>::new();
        for item in items(args, 0)? {
            if !has(&distinct, &item, meter)? {
                distinct.push(item);
            }
        }
        Ok(Value::list(distinct))
    }),
    ("sets.contains(list(T), list(T)) bool", Cost::Cross(1), |meter, args| {
        all_within(meter, &items(args, 1)?, &items(args, 0)?).map(Value::Bool)
    }),
    ("sets.equivalent(list(T), list(T)) bool", Cost::Cross(2), |meter, args| {
        let (a, b) = (items(args, 0)?, items(args, 1)?);
        Ok(Value::Bool(all_within(meter, &a, &b)? && all_within(meter, &b, &a)?))
    }),
    ("sets.intersects(list(T), list(T)) bool", Cost::Cross(1), |meter, args| {
        let other = items(args, 1)?;
        for item in items(args, 0)? {
            if has(&other, &item, meter)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
];

fn compared(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalFault> {
    a.compare(b).ok_or_else(|| EvalFault::error("no such overload"))
}

fn has<'v>(all: &[Value<'v>], item: &Value<'v>, meter: &Meter) -> Result<bool, EvalFault> {
    for other in all {
        if other.equals(item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn all_within<'v>(meter: &Meter, some: &[Value<'v>], all: &[Value<'v>]) -> Result<bool, EvalFault> {
    for item in some {
        if !has(all, item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sum<'v>(
    args: &[Value<'v>],
    zero: Value<'v>,
    add: fn(&Value<'v>, &Value<'v>) -> Option<Value<'v>>,
) -> Result<Value<'v>, EvalFault> {
    let add = |total: Value<'v>, item| add(&total, &item).ok_or_else(|| EvalFault::error("integer overflow"));
    items(args, 0)?.into_iter().try_fold(zero, add)
}

fn extreme<'v>(args: &[Value<'v>], name: &str, wanted: Ordering) -> Result<Value<'v>, EvalFault> {
    let mut best = None;
    for item in items(args, 0)? {
        let better = match &best {
            Some(best) => compared(&item, best)? == wanted,
            None => true,
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalFault::error(format!("{name} called on empty list")))
}

fn place<'a, 'v: 'a>(
    meter: &Meter,
    wanted: &Value<'v>,
    items: impl Iterator<Item = (usize, &'a Value<'v>)>,
) -> Result<Value<'v>, EvalFault> {
    for (index, item) in items {
        if item.equals(wanted, meter)? {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn flattened<'v>(meter: &Meter, args: &[Value<'v>], depth: i64) -> Result<Value<'v>, EvalFault> {
    let mut all = items(args, 0)?;
    for _ in 0..depth {
        let mut flat = Vec::new();
        let mut changed = false;
        for item in all {
            if let Value::List(list) = item {
                meter.work(list.len() as u64)?;
                changed = true;
                for item in list.iter() {
                    flat.push(item?);
                }
            } else {
                meter.work(1)?;
                flat.push(item);
            }
        }
        all = flat;
        if !changed {
            break;
        }
    }
    Ok(Value::list(all))
}

/// Sorts the pairs by their first values and returns the second values.
fn sorted<'v>(meter: &Meter, mut pairs: Vec<(Value<'v>, Value<'v>)>) -> Result<Value<'v>, EvalFault> {
    meter.work((pairs.len() as u64).saturating_mul(16))?;
    for pair in pairs.windows(2) {
        if pair[0].0.compare(&pair[1].0).is_none() {
            return Err(EvalFault::error("list elements must have the same type"));
        }
    }
    pairs.sort_by(|a, b| a.0.compare(&b.0).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}
