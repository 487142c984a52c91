//! The functions of CEL and of Kubernetes' libraries. Each file has one table and its implementations.

mod lists;
mod named;
mod network;
mod optional;
mod standard;
mod strings;
mod time;
mod versions;

pub(crate) use self::{named::Named, standard::truth, time::go_duration};
use crate::{eval::Fault, function::Row, value::Value};

pub(crate) const TABLES: [&[Row]; 7] =
    [standard::TABLE, strings::TABLE, lists::TABLE, optional::TABLE, network::TABLE, versions::TABLE, time::TABLE];

/// Returns a text argument.
fn text<'a>(args: &'a [Value<'_>], index: usize) -> Result<&'a str, Fault> {
    match args.get(index) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(Fault::error("no such overload")),
    }
}

/// Returns an integer argument.
fn int(args: &[Value<'_>], index: usize) -> Result<i64, Fault> {
    match args.get(index) {
        Some(Value::Int(number)) => Ok(*number),
        _ => Err(Fault::error("no such overload")),
    }
}

/// Returns the items of a list argument.
fn items<'v>(args: &[Value<'v>], index: usize) -> Result<Vec<Value<'v>>, Fault> {
    match args.get(index) {
        Some(Value::List(list)) => list.iter().collect(),
        _ => Err(Fault::error("no such overload")),
    }
}

fn conversion<T>(from: &str, to: &str) -> Result<T, Fault> {
    Err(Fault::error(format!("type conversion error from '{from}' to '{to}'")))
}
