//! The functions of CEL and of Kubernetes' libraries. Each file has one table and its implementations.

mod access;
mod lists;
mod network;
mod optional;
mod standard;
mod strings;
mod time;
mod versions;

use std::{collections::HashMap, sync::LazyLock};

pub(crate) use self::{access::ESCAPE_KEY, standard::truth};
use crate::{
    fault::EvalFault,
    function::{Overload, Row},
    value::Value,
};

const TABLES: [&[Row]; 8] = [
    standard::TABLE,
    strings::TABLE,
    lists::TABLE,
    optional::TABLE,
    network::TABLE,
    versions::TABLE,
    time::TABLE,
    access::TABLE,
];

/// The functions and the syntax that a minor version of Kubernetes accepts in new rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dialect {
    /// The functions of Kubernetes 1.33.
    V1_33,
    /// Adds semantic versions.
    V1_34,
    /// Adds the lists extension of CEL, such as `slice` and `sortBy`. Also the dialect of Kubernetes 1.36.
    #[default]
    V1_35,
    /// Adds names of fields in backquotes.
    V1_37,
}

type Functions = HashMap<&'static str, Vec<Overload>>;

static FUNCTIONS_1_33: LazyLock<Functions> = LazyLock::new(|| Dialect::V1_33.read());
static FUNCTIONS_1_34: LazyLock<Functions> = LazyLock::new(|| Dialect::V1_34.read());
static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| Dialect::V1_35.read());

impl Dialect {
    /// Returns the overloads of a function; `None` if it does not exist.
    pub(crate) fn overloads(self, name: &str) -> Option<&'static [Overload]> {
        let functions = match self {
            Self::V1_33 => &FUNCTIONS_1_33,
            Self::V1_34 => &FUNCTIONS_1_34,
            Self::V1_35 | Self::V1_37 => &FUNCTIONS,
        };
        functions.get(name).map(Vec::as_slice)
    }

    fn read(self) -> Functions {
        let mut functions = Functions::new();
        let rows = TABLES.iter().copied().flatten().filter(|(signature, ..)| self >= Self::adding(signature));
        for &(signature, cost, native) in rows {
            let overload = Overload::read(signature, cost, native);
            functions.entry(overload.function).or_default().push(overload);
        }
        functions
    }

    /// Returns the dialect that adds a function.
    fn adding(signature: &str) -> Self {
        if signature.contains("Semver") {
            return Self::V1_34;
        }
        if lists::EXTENSION.iter().any(|start| signature.starts_with(start)) { Self::V1_35 } else { Self::V1_33 }
    }
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
        let overloads = |name| Dialect::default().overloads(name);
        let slice = &overloads("slice").unwrap()[0];
        let shown = slice.params.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((slice.on_target, shown.join(" ")), (true, "list(_var84) int int".to_owned()));
        let index = overloads("_[_]").unwrap().iter().map(|overload| overload.params[0].to_string());
        assert!(index.collect::<Vec<_>>().contains(&"optional_type(map(_var75, _var86))".to_owned()));
        assert!(overloads("nothing").is_none());
    }

    #[test]
    fn older_versions_have_fewer_functions() {
        let has =
            |name| [Dialect::V1_33, Dialect::V1_34, Dialect::V1_35].map(|dialect| dialect.overloads(name).is_some());
        assert_eq!(has("isSorted"), [true, true, true]);
        assert_eq!(has("semver"), [false, true, true]);
        for name in ["slice", "flatten", "sort", "@sortByAssociatedKeys", "distinct", "reverse", "lists.range"] {
            assert_eq!(has(name), [false, false, true], "{name}");
        }
        let compared = |dialect: Dialect| dialect.overloads("isLessThan").unwrap().len();
        assert_eq!((compared(Dialect::V1_33), compared(Dialect::V1_34)), (1, 2));
    }
}
