//! The functions of CEL and of Kubernetes' libraries. Each file has one table and its implementations.

mod lists;
mod network;
mod optional;
mod standard;
mod strings;
mod time;
mod versions;

use std::{collections::HashMap, sync::LazyLock};

pub(crate) use self::standard::truth;
use crate::{
    fault::EvalFault,
    function::{Overload, Row},
    value::Value,
};

const TABLES: [&[Row]; 7] =
    [standard::TABLE, strings::TABLE, lists::TABLE, optional::TABLE, network::TABLE, versions::TABLE, time::TABLE];

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions = HashMap::<_, Vec<_>>::new();
    for &(signature, cost, native) in TABLES.iter().copied().flatten() {
        let overload = Overload::read(signature, cost, native);
        functions.entry(overload.function).or_default().push(overload);
    }
    functions
});

/// Returns the overloads of a function; `None` if it does not exist.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Returns a text argument.
fn text<'a>(args: &'a [Value<'_>], index: usize) -> Result<&'a str, EvalFault> {
    match args.get(index) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(EvalFault::error("no such overload")),
    }
}

/// Returns an integer argument.
fn int(args: &[Value<'_>], index: usize) -> Result<i64, EvalFault> {
    match args.get(index) {
        Some(Value::Int(number)) => Ok(*number),
        _ => Err(EvalFault::error("no such overload")),
    }
}

/// Returns the items of a list argument.
fn items<'v>(args: &[Value<'v>], index: usize) -> Result<Vec<Value<'v>>, EvalFault> {
    match args.get(index) {
        Some(Value::List(list)) => list.iter().collect(),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn conversion<T>(from: &str, to: &str) -> Result<T, EvalFault> {
    Err(EvalFault::error(format!("type conversion error from '{from}' to '{to}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_table_lists_parameters_and_results() {
        let slice = &overloads("slice").unwrap()[0];
        let shown = slice.params.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((slice.on_target, shown.join(" ")), (true, "list(_var84) int int".to_owned()));
        let index = overloads("_[_]").unwrap().iter().map(|overload| overload.params[0].to_string());
        assert!(index.collect::<Vec<_>>().contains(&"optional_type(map(_var75, _var86))".to_owned()));
        assert!(overloads("nothing").is_none());
    }
}
