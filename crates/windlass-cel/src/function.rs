//! Functions: their signatures, costs and implementations. A library is a table of them.

use crate::{cost::Cost, fault::EvalFault, meter::Meter, types::Type, value::Value};

/// The implementation of a function. The target is the first argument.
pub(crate) type Native = for<'v> fn(&Meter, &[Value<'v>]) -> Result<Value<'v>, EvalFault>;

/// A row of a library's table: `name(parameters) result`, with the prefix `target::` for methods. A single capital
/// letter is a type parameter.
pub(crate) type Row = (&'static str, Cost, Native);

/// An overload of a function.
pub(crate) struct Overload {
    pub(crate) function: &'static str,
    /// A method. Its target is the first parameter.
    pub(crate) on_target: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) cost: Cost,
    pub(crate) native: Native,
}

impl Overload {
    /// Reports whether the arguments match the parameter types, as far as a value's type is known.
    pub(crate) fn takes(&self, args: &[Value<'_>]) -> bool {
        let fits = |(ty, value): (&Type, &Value<'_>)| match (ty, value) {
            (Type::Dyn | Type::Param(_), _)
            | (Type::Null, Value::Null)
            | (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::Uint, Value::Uint(_))
            | (Type::Double, Value::Double(_))
            | (Type::String, Value::Text(_))
            | (Type::Bytes, Value::Bytes(_))
            | (Type::Timestamp, Value::Timestamp(_))
            | (Type::Duration, Value::Duration(_))
            | (Type::Meta, Value::Type(_))
            | (Type::List(_), Value::List(_))
            | (Type::Map(_), Value::Map(_))
            | (Type::Optional(_), Value::Optional(_)) => true,
            (Type::Extension(name), Value::Extension(named)) => named.type_name() == *name,
            _ => false,
        };
        self.params.len() == args.len() && self.params.iter().zip(args).all(fits)
    }

    /// Reads a row of a table.
    pub(crate) fn read(signature: &'static str, cost: Cost, native: Native) -> Self {
        let (target, rest) = match signature.split_once("::") {
            Some((target, rest)) => (Some(target), rest),
            None => (None, signature),
        };
        let open = rest.find('(').unwrap_or(rest.len());
        let close = rest.rfind(") ").unwrap_or(rest.len());
        let params = target.into_iter().chain(split(&rest[open + 1..close])).map(ty).collect();
        Self {
            function: &rest[..open],
            on_target: target.is_some(),
            params,
            result: ty(&rest[close + 2..]),
            cost,
            native,
        }
    }
}

/// Splits at the commas outside of parentheses.
fn split(list: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    let parts = list.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn ty(text: &'static str) -> Type {
    let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(item) = inside("list") {
        return Type::list(ty(item));
    }
    if let Some(inner) = inside("optional") {
        return Type::optional(ty(inner));
    }
    if let Some(entry) = inside("map") {
        let mut parts = split(entry).map(ty);
        return Type::map(parts.next().unwrap_or(Type::Dyn), parts.next().unwrap_or(Type::Dyn));
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Meta,
        "dyn" => Type::Dyn,
        name if name.len() == 1 => Type::Param(u32::from(name.as_bytes()[0])),
        name => Type::Extension(name),
    }
}
