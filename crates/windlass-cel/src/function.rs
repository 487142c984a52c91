//! Functions: their signatures, costs and implementations. Each library is a table, which is parsed once.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    cost::Cost,
    eval::{Fault, Meter},
    library,
    types::Type,
    value::Value,
};

/// The implementation of a function. The target is the first argument.
pub(crate) type Native = for<'v> fn(&Meter, &[Value<'v>]) -> Result<Value<'v>, Fault>;

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

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions = HashMap::<_, Vec<_>>::new();
    for &(signature, cost, native) in library::TABLES.iter().copied().flatten() {
        let overload = read(signature, cost, native);
        functions.entry(overload.function).or_default().push(overload);
    }
    functions
});

/// Returns the overloads of a function; `None` if it does not exist.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
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
            (Type::Named(name), Value::Named(named)) => named.type_name() == *name,
            _ => false,
        };
        self.params.len() == args.len() && self.params.iter().zip(args).all(fits)
    }
}

fn read(signature: &'static str, cost: Cost, native: Native) -> Overload {
    let (target, rest) = match signature.split_once("::") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, signature),
    };
    let open = rest.find('(').unwrap_or(rest.len());
    let close = rest.rfind(") ").unwrap_or(rest.len());
    let params = target.into_iter().chain(split(&rest[open + 1..close])).map(ty).collect();
    Overload {
        function: &rest[..open],
        on_target: target.is_some(),
        params,
        result: ty(&rest[close + 2..]),
        cost,
        native,
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
        name => Type::Named(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_functions_take_and_give() {
        let slice = &overloads("slice").unwrap()[0];
        let shown = slice.params.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((slice.on_target, shown.join(" ")), (true, "list(_var84) int int".to_owned()));
        let index = overloads("_[_]").unwrap().iter().map(|overload| overload.params[0].to_string());
        assert!(index.collect::<Vec<_>>().contains(&"optional_type(map(_var75, _var86))".to_owned()));
        assert!(overloads("nothing").is_none());
    }
}
