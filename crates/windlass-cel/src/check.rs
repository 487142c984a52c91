//! Type checking of expressions, before any evaluation.

use std::collections::{BTreeSet, HashMap, HashSet};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, StructExpr,
};

use crate::{
    error::{CompileError, Problem},
    function::Overload,
    library::{Dialect, ESCAPE_KEY},
    parse::parts,
    pattern::compile_pattern,
    types::{Bindings, Type, most_general},
    value::go_duration,
};

/// The results of the check, by expression ID.
#[derive(Debug, Default)]
pub(crate) struct CheckedExpr {
    types: HashMap<u64, Type>,
    calls: HashMap<u64, Call>,
    /// Identifiers that are type names.
    type_names: HashMap<u64, &'static str>,
    /// Selections that name a variable with dots.
    qualified: HashMap<u64, String>,
    /// Selections of composed variables.
    composed: HashSet<u64>,
    /// The names of the used variables.
    pub(crate) used: BTreeSet<String>,
    /// The names of the used composed variables.
    pub(crate) used_composed: BTreeSet<String>,
}

/// A call with its possible overloads.
pub(crate) struct Call {
    pub(crate) function: &'static str,
    pub(crate) overloads: Vec<&'static Overload>,
    /// The expression before the dot is an argument, not a part of the function's name.
    pub(crate) on_target: bool,
}

struct Checker<'a> {
    source: &'a str,
    places: &'a SourceInfo,
    checked: CheckedExpr,
    bindings: Bindings,
    /// The local variables, innermost last.
    scope: Vec<(String, Type)>,
    problems: Vec<Problem>,
    /// The number of the next type parameter.
    next: u32,
    dialect: Dialect,
    /// Expressions may construct objects and patches.
    patches: bool,
}

/// Type names in expressions, with their types.
const TYPE_NAMES: [(&str, Type); 19] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("double", Type::Double),
    ("dyn", Type::Dyn),
    ("int", Type::Int),
    ("list", Type::Dyn),
    ("map", Type::Dyn),
    ("null_type", Type::Null),
    ("optional_type", Type::Dyn),
    ("string", Type::String),
    ("type", Type::Meta),
    ("uint", Type::Uint),
    ("google.protobuf.Duration", Type::Duration),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("kubernetes.Quantity", Type::Extension("kubernetes.Quantity")),
    ("kubernetes.URL", Type::Extension("kubernetes.URL")),
    ("kubernetes.Semver", Type::Extension("kubernetes.Semver")),
    ("net.CIDR", Type::Extension("net.CIDR")),
    ("net.IP", Type::Extension("net.IP")),
];

/// Type parameters of functions have numbers below this.
const FIRST_PARAMETER: u32 = 1_000;

/// Returns a type by its name.
pub(crate) fn type_named(name: &str) -> Option<(&'static str, Type)> {
    TYPE_NAMES.into_iter().find(|(other, _)| *other == name)
}

/// Checks an expression with variables of these types. Also returns its type.
pub(crate) fn check(
    source: &str,
    expr: &IdedExpr,
    places: &SourceInfo,
    variables: Vec<(String, Type)>,
    dialect: Dialect,
    patches: bool,
) -> Result<(CheckedExpr, Type), CompileError> {
    let mut checker = Checker {
        source,
        places,
        checked: CheckedExpr::default(),
        bindings: Bindings::default(),
        scope: variables,
        problems: Vec::new(),
        next: FIRST_PARAMETER,
        dialect,
        patches,
    };
    let ty = checker.check(expr);
    if checker.problems.is_empty() {
        checker.check_literals(expr, false);
    }
    if !checker.problems.is_empty() {
        return Err(CompileError::new(source, checker.problems));
    }
    let Checker { mut checked, bindings, .. } = checker;
    for ty in checked.types.values_mut() {
        *ty = bindings.settle(ty);
    }
    Ok((checked, bindings.settle(&ty)))
}

// === impl CheckedExpr ===

impl CheckedExpr {
    pub(crate) fn type_of(&self, id: u64) -> &Type {
        self.types.get(&id).unwrap_or(&Type::Dyn)
    }

    /// Returns the call with this ID.
    pub(crate) fn call(&self, id: u64) -> &Call {
        static NONE: Call = Call { function: "", overloads: Vec::new(), on_target: true };
        self.calls.get(&id).unwrap_or(&NONE)
    }

    /// Returns the name of the variable that a selection spells.
    pub(crate) fn variable_at(&self, id: u64) -> Option<&str> {
        if self.qualified.is_empty() { None } else { self.qualified.get(&id).map(String::as_str) }
    }

    /// Reports whether a selection is a composed variable.
    pub(crate) fn is_composed(&self, id: u64) -> bool {
        !self.composed.is_empty() && self.composed.contains(&id)
    }

    pub(crate) fn type_at(&self, id: u64) -> Option<&'static str> {
        self.type_names.get(&id).copied()
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} ways", self.function, self.overloads.len())
    }
}

// === impl Checker ===

impl Checker<'_> {
    fn complain(&mut self, id: u64, message: String) {
        let offset = self.places.offset_for(id).map_or(0, |(start, _)| start as usize);
        self.problems.push(Problem::at(self.source, offset, message));
    }

    fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Param(self.next)
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        self.bindings.fit([(from, to)])
    }

    fn check(&mut self, expr: &IdedExpr) -> Type {
        let ty = match &expr.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            },
            Expr::Ident(name) => self.named(expr.id, name).unwrap_or_else(|| {
                self.complain(expr.id, format!("undeclared reference to '{name}' (in container '')"));
                Type::Error
            }),
            Expr::Select(select) => self.select(expr, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let mut item = None;
                for (index, element) in list.elements.iter().enumerate() {
                    let mut ty = self.check(element);
                    if list.optional_indices.contains(&index) {
                        ty = self.inner(element.id, ty);
                    }
                    item = Some(self.join(element.id, item, ty));
                }
                Type::list(item.unwrap_or_else(|| self.fresh()))
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let ty = self.check(&entry.key);
                    key = Some(self.join(entry.key.id, key, ty));
                    let mut ty = self.check(&entry.value);
                    if entry.optional {
                        ty = self.inner(entry.value.id, ty);
                    }
                    value = Some(self.join(entry.value.id, value, ty));
                }
                Type::map(key.unwrap_or_else(|| self.fresh()), value.unwrap_or_else(|| self.fresh()))
            }
            Expr::Struct(object) => {
                let name = &object.type_name;
                if self.patches && is_constructed(name) {
                    return self.construct(expr.id, object);
                }
                self.complain(
                    expr.id,
                    match type_named(name) {
                        Some(_) => format!("'{name}' is not a message type"),
                        None => format!("undeclared reference to '{name}' (in container '')"),
                    },
                );
                Type::Error
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified => Type::Error,
        };
        self.checked.types.insert(expr.id, ty.clone());
        ty
    }

    /// Returns the type of an identifier: a variable or a type name.
    fn named(&mut self, id: u64, name: &str) -> Option<Type> {
        if let Some((_, ty)) = self.scope.iter().rev().find(|(other, _)| other == name) {
            let ty = ty.clone();
            self.checked.used.insert(name.to_owned());
            return Some(ty);
        }
        let (name, _) = type_named(name)?;
        self.checked.type_names.insert(id, name);
        Some(Type::Meta)
    }

    fn select(&mut self, expr: &IdedExpr, select: &SelectExpr) -> Type {
        let qualified = if select.test { None } else { qualified(expr) };
        if let Some((name, _)) = qualified.as_deref().and_then(type_named) {
            self.checked.type_names.insert(expr.id, name);
            return Type::Meta;
        }
        if let Some(name) = qualified.filter(|name| name.contains('.'))
            && let Some((_, ty)) = self.scope.iter().find(|(other, _)| *other == name)
        {
            let ty = ty.clone();
            self.checked.used.insert(name.clone());
            self.checked.qualified.insert(expr.id, name);
            return ty;
        }
        let ty = self.field(expr.id, &select.operand, &select.field, false);
        if select.test { Type::Bool } else { self.bindings.resolve(&ty) }
    }

    fn field(&mut self, id: u64, operand: &IdedExpr, field: &str, optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.bindings.resolve(&operand);
        let (target, was_optional) = operand.unwrapped();
        let ty = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => object.field(field).map_or_else(
                || {
                    self.complain(id, format!("undefined field '{field}'"));
                    Type::Error
                },
                |field| Type::of(&field.schema),
            ),
            Type::Variables(types) => {
                self.checked.composed.insert(id);
                self.checked.used_composed.insert(field.to_owned());
                types.get(field).unwrap_or_else(|| {
                    self.complain(id, format!("undefined field '{field}'"));
                    Type::Error
                })
            }
            Type::Struct(name) => constructed_field(name, field),
            Type::Param(_) => {
                self.fits(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.complain(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional || was_optional { Type::optional(ty) } else { ty }
    }

    /// Checks the construction of an object.
    fn construct(&mut self, id: u64, object: &StructExpr) -> Type {
        let name = object.type_name.as_str();
        for entry in &object.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let expected = constructed_field(name, &field.field);
            let mut ty = self.check(&field.value);
            if field.optional {
                ty = self.inner(field.value.id, ty);
            }
            if !self.fits(&ty, &expected) {
                let ty = self.bindings.resolve(&ty);
                let field = &field.field;
                let message = format!("expected type of field '{field}' is '{expected}' but provided type is '{ty}'");
                self.complain(entry.id, message);
            }
        }
        let ty = Type::Struct(name.into());
        self.checked.types.insert(id, ty.clone());
        ty
    }

    /// Returns the overloads of a function, if the expression may use it.
    fn overloads(&self, name: &str) -> Option<&'static [Overload]> {
        if name == ESCAPE_KEY && !self.patches { None } else { self.dialect.overloads(name) }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        let name = call.func_name.as_str();
        if let ("_?._", [operand, field]) = (name, call.args.as_slice()) {
            let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                self.complain(field.id, "unsupported optional field selection".to_owned());
                return Type::Error;
            };
            let ty = self.field(id, operand, field.inner(), true);
            self.checked.types.insert(call.args[1].id, Type::String);
            self.note_call(id, "_?._", self.dialect.overloads("_?._").into_iter().flatten().collect(), false);
            return self.bindings.resolve(&ty);
        }
        let args = call.args.iter().map(|arg| self.check(arg)).collect::<Vec<_>>();
        if let Some(target) = call.target.as_deref() {
            // `a.b.c()` calls `a.b.c` if that function exists, or else `c` on `a.b`.
            let long_name = qualified(target).map(|prefix| format!("{prefix}.{name}"));
            if let Some(found) = long_name.as_deref().and_then(|name| self.overloads(name)) {
                return self.resolve(id, found, args, None, &call.args);
            }
            let target = self.check(target);
            if let Some(found) = self.overloads(name) {
                return self.resolve(id, found, args, Some(target), &call.args);
            }
        } else if let Some(found) = self.overloads(name) {
            return self.resolve(id, found, args, None, &call.args);
        }
        self.complain(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    /// Resolves the overloads of a call and returns its result type.
    fn resolve(
        &mut self,
        id: u64,
        candidates: &'static [Overload],
        args: Vec<Type>,
        target: Option<Type>,
        exprs: &[IdedExpr],
    ) -> Type {
        let function = candidates[0].function;
        let on_target = target.is_some();
        if matches!(function, "_&&_" | "_||_") {
            let mut wrong = Vec::new();
            for (ty, expr) in args.iter().zip(exprs) {
                if !self.fits(ty, &Type::Bool) {
                    wrong.push((expr.id, self.bindings.resolve(ty)));
                }
            }
            for (id, ty) in &wrong {
                self.complain(*id, format!("expected type 'bool' but found '{ty}'"));
            }
            self.note_call(id, function, vec![&candidates[0]], false);
            return if wrong.is_empty() { Type::Bool } else { Type::Error };
        }
        let args = target.into_iter().chain(args).collect::<Vec<_>>();
        let mut found = Vec::new();
        let mut result = None;
        for overload in candidates.iter().filter(|overload| overload.on_target == on_target) {
            let mut renewed = HashMap::new();
            let mut renew = |number: u32| {
                renewed
                    .entry(number)
                    .or_insert_with(|| {
                        self.next += 1;
                        Type::Param(self.next)
                    })
                    .clone()
            };
            let params = overload.params.iter().map(|ty| ty.with_params(&mut renew)).collect::<Vec<_>>();
            let given = overload.result.with_params(&mut renew);
            if params.len() != args.len() || !self.bindings.fit(args.iter().zip(&params)) {
                continue;
            }
            found.push(overload);
            let given = self.bindings.resolve(&given);
            result = Some(match result {
                None => given,
                Some(Type::Dyn) => Type::Dyn,
                Some(same) if same == given => same,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let mut shown = args.iter().map(|ty| self.bindings.settle(ty).to_string()).collect::<Vec<_>>();
            let front = if on_target { shown.remove(0) + "." } else { String::new() };
            let message =
                format!("found no matching overload for '{function}' applied to '{front}({})'", shown.join(", "));
            self.complain(id, message);
            return Type::Error;
        };
        self.note_call(id, function, found, on_target);
        result
    }

    fn note_call(&mut self, id: u64, function: &'static str, overloads: Vec<&'static Overload>, on_target: bool) {
        self.checked.calls.insert(id, Call { function, overloads, on_target });
    }

    /// Returns the inner type of an optional element in a literal.
    fn inner(&mut self, id: u64, ty: Type) -> Type {
        let (inner, is_optional) = ty.unwrapped();
        if !is_optional && !ty.is_dynamic() {
            self.complain(id, format!("expected type 'optional_type({ty})' but found '{ty}'"));
        }
        inner.clone()
    }

    /// Returns the common type of the elements of a literal. Literals must not mix types.
    fn join(&mut self, id: u64, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.fits(&before, &ty) {
            return most_general(&before, &ty);
        }
        let (before, ty) = (self.bindings.resolve(&before), self.bindings.resolve(&ty));
        self.complain(id, format!("expected type '{before}' but found '{ty}'"));
        Type::Error
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Type {
        let range = self.check(&of.iter_range);
        let accumulator = self.check(&of.accu_init);
        let range = self.bindings.resolve(&range);
        let (first, second) = match (&range, of.iter_var2.is_some()) {
            (Type::List(item), false) => ((**item).clone(), None),
            (Type::List(item), true) => (Type::Int, Some((**item).clone())),
            (Type::Map(entry), two) => (entry.0.clone(), two.then(|| entry.1.clone())),
            (Type::Dyn | Type::Error | Type::Param(_), two) => {
                self.fits(&Type::Dyn, &range);
                (Type::Dyn, two.then_some(Type::Dyn))
            }
            (other, two) => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.complain(of.iter_range.id, format!("expression of type '{other}' {why}"));
                (Type::Error, two.then_some(Type::Error))
            }
        };
        let depth = self.scope.len();
        self.scope.push((of.accu_var.clone(), accumulator.clone()));
        self.scope.push((of.iter_var.clone(), first));
        if let (Some(name), Some(ty)) = (&of.iter_var2, second) {
            self.scope.push((name.clone(), ty));
        }
        self.assert(&of.loop_cond, &Type::Bool);
        self.assert(&of.loop_step, &accumulator);
        self.scope.truncate(depth + 1);
        let result = self.check(&of.result);
        self.scope.truncate(depth);
        self.bindings.resolve(&result)
    }

    fn assert(&mut self, expr: &IdedExpr, expected: &Type) {
        let ty = self.check(expr);
        if !self.fits(expected, &ty) {
            let (expected, ty) = (self.bindings.resolve(expected), self.bindings.resolve(&ty));
            self.complain(expr.id, format!("expected type '{expected}' but found '{ty}'"));
        }
    }

    // === constant arguments that some functions reject ===

    /// Checks the literals in an expression. `is_free` allows mixed types.
    fn check_literals(&mut self, expr: &IdedExpr, is_free: bool) {
        if let Expr::Call(call) = &expr.expr {
            let constant = call.args.iter().find_map(|arg| match &arg.expr {
                Expr::Literal(LiteralValue::String(text)) => Some((arg.id, text.inner().to_owned())),
                _ => None,
            });
            let is_wrong = |text: &str| match (call.func_name.as_str(), call.target.is_some(), call.args.len()) {
                ("matches", true, 1) => compile_pattern(text).is_err(),
                ("duration", false, 1) => go_duration(text).is_none(),
                ("timestamp", false, 1) => text.parse::<jiff::Timestamp>().is_err(),
                _ => false,
            };
            if let Some((id, _)) = constant.filter(|(_, text)| is_wrong(text)) {
                self.complain(id, format!("invalid {} argument", call.func_name));
            }
        }
        let is_free = is_free || matches!(&expr.expr, Expr::Call(call) if call.func_name == "format");
        if !is_free {
            self.check_aggregate(expr);
        }
        for part in parts(expr) {
            self.check_literals(part, is_free);
        }
    }

    /// Checks that all elements of a literal have the same type, as far as it is known.
    fn check_aggregate(&mut self, expr: &IdedExpr) {
        let rows: [Vec<(u64, bool)>; 2] = match &expr.expr {
            Expr::List(list) => {
                let items = list.elements.iter().enumerate();
                [items.map(|(index, item)| (item.id, list.optional_indices.contains(&index))).collect(), Vec::new()]
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(((entry.key.id, false), (entry.value.id, entry.optional))),
                    EntryExpr::StructField(_) => None,
                });
                let (keys, values) = entries.unzip();
                [keys, values]
            }
            _ => return,
        };
        for row in rows {
            let mut first = None;
            for (id, is_optional) in row {
                let ty = self.bindings.settle(self.checked.type_of(id));
                let ty = if is_optional { ty.unwrapped().0.clone() } else { ty };
                match &first {
                    None => first = Some(ty),
                    Some(first) if *first == ty => {}
                    Some(first) => {
                        self.complain(id, format!("expected type '{first}' but found '{ty}'"));
                        break;
                    }
                }
            }
        }
    }
}

/// Returns the error of the first invalid literal pattern; `None` if there is none. As in Go, such an error is not found
/// by the type check, but when the program is created.
pub(crate) fn bad_pattern(expr: &IdedExpr) -> Option<String> {
    let pattern = match &expr.expr {
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            ("find" | "findAll", [pattern, ..]) | ("matches", [_, pattern]) => Some(pattern),
            _ => None,
        },
        _ => None,
    };
    let literal = pattern.and_then(|pattern| match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => compile_pattern(text.inner()).err(),
        _ => None,
    });
    literal.or_else(|| parts(expr).into_iter().find_map(bad_pattern))
}

/// Reports whether a name is that of a type whose objects expressions construct.
fn is_constructed(name: &str) -> bool {
    name == "JSONPatch" || name == "Object" || name.starts_with("Object.")
}

/// Returns the type of a field of a constructed object.
fn constructed_field(name: &str, field: &str) -> Type {
    match (name, field) {
        ("JSONPatch", "op" | "path" | "from") => Type::String,
        _ => Type::Dyn,
    }
}

/// Returns the qualified name that a chain of field selections spells.
fn qualified(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified(&select.operand)?, select.field)),
        _ => None,
    }
}
