//! Estimation of an expression's maximum cost before evaluation, from the sizes that the schema allows.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use crate::{
    check::CheckedExpr,
    cost::{NEW_LIST, NEW_MAP, NEW_OBJECT, Operand, Range},
    parse::ACCUMULATOR,
    schema::Schema,
    types::Type,
};

/// Estimates the cost of an expression with variables of a schema.
pub(crate) fn estimate(expr: &IdedExpr, checked: &CheckedExpr, schema: &Schema) -> Range {
    Estimator {
        checked,
        schema,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        scope: Vec::new(),
    }
    .cost(expr)
}

struct Estimator<'a> {
    checked: &'a CheckedExpr,
    schema: &'a Schema,
    /// The paths of the expressions that are parts of the object, by expression ID.
    paths: HashMap<u64, Vec<String>>,
    sizes: HashMap<u64, Range>,
    entries: HashMap<u64, Entries>,
    /// The local variables, innermost last.
    scope: Vec<(String, Local)>,
}

/// The sizes of the keys and values in a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

/// The known properties of a local variable.
#[derive(Clone, Debug, Default)]
struct Local {
    path: Vec<String>,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// The role of a comprehension's variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The single variable: items of lists, keys of maps.
    Only,
    Key,
    Value,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &IdedExpr) -> Range {
        match &expr.expr {
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::exactly(1)
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let path = [self.path(&select.operand), vec![select.field.clone()]].concat();
                self.paths.insert(expr.id, path);
                match self.checked.type_of(select.operand.id) {
                    Type::Map(_) | Type::Object(_) | Type::Extension(_) | Type::Param(_) => {
                        operand.plus(Range::exactly(1))
                    }
                    _ => operand,
                }
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => {
                let mut sum = Range::exactly(NEW_LIST);
                let mut value = None;
                for item in &list.elements {
                    sum = sum.plus(self.cost(item));
                    value = Some(self.size_or_unknown(item).or(value.unwrap_or(Range::to(u64::MAX, 0))));
                }
                let value = value.unwrap_or(Range::exactly(0));
                self.entries.insert(expr.id, Entries { is_list: true, key: Range::exactly(1), value });
                sum
            }
            Expr::Map(map) => {
                let mut sum = Range::exactly(NEW_MAP);
                let mut sizes = None;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    let (key, value) = sizes.unwrap_or((Range::to(u64::MAX, 0), Range::to(u64::MAX, 0)));
                    sizes =
                        Some((key.or(self.size_or_unknown(&entry.key)), value.or(self.size_or_unknown(&entry.value))));
                }
                let (key, value) = sizes.unwrap_or((Range::exactly(0), Range::exactly(0)));
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                sum
            }
            Expr::Struct(_) => Range::exactly(NEW_OBJECT),
            Expr::Comprehension(of) if is_binding(of) => self.binding(expr, of),
            Expr::Comprehension(of) => self.comprehension(expr, of),
            Expr::Literal(_) | Expr::Unspecified => Range::exactly(0),
        }
    }

    fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> Range {
        if let ("dyn", [arg]) = (call.func_name.as_str(), call.args.as_slice()) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.plus(Range::exactly(1));
        }
        let costs = call.args.iter().map(|arg| self.cost(arg)).collect::<Vec<_>>();
        let sum = costs.iter().copied().fold(Range::exactly(0), Range::plus);
        let checked = self.checked;
        let resolved = checked.call(expr.id);
        let target = call.target.as_deref().filter(|_| resolved.on_target);
        let of_target = target.map_or(Range::exactly(0), |target| self.cost(target));
        let operands = target.into_iter().chain(&call.args).collect::<Vec<_>>();
        match (call.func_name.as_str(), costs.as_slice()) {
            ("_&&_" | "_||_", [a, b]) => return Range::to(a.least, a.plus(*b).most),
            ("_?_:_", [condition, yes, no]) => {
                let size = self.size_or_unknown(&call.args[1]).or(self.size_or_unknown(&call.args[2]));
                if let (Some(a), Some(b)) = (self.entries_of(&call.args[1]), self.entries_of(&call.args[2])) {
                    self.entries.insert(expr.id, a.or(b));
                }
                self.sizes.insert(expr.id, size);
                return condition.plus(yes.or(*no));
            }
            ("_+_", [..]) if operands.len() == 2 => {
                if let (Some(a), Some(b)) = (self.entries_of(operands[0]), self.entries_of(operands[1])) {
                    self.entries.insert(expr.id, a.or(b));
                }
            }
            _ => {}
        }
        let described = operands.iter().map(|operand| self.describe(operand)).collect::<Vec<_>>();
        let mut cost = Range::to(u64::MAX, 0);
        let mut size: Option<Range> = None;
        for overload in &resolved.overloads {
            let (each, result) = overload.cost.of(&described);
            cost = cost.or(each);
            size = result.map(|result| size.map_or(result, |size| size.or(result))).or(size);
            if matches!(resolved.function, "_[_]" | "_[?_]")
                && let Some(container) = operands.first()
            {
                let step = match overload.params.first().map(|ty| ty.unwrapped().0) {
                    Some(Type::List(_)) => "@items",
                    _ => "@values",
                };
                size = self.entries_of(container).map(|entries| entries.value);
                if resolved.function == "_[_]" {
                    let path = [self.path(container), vec![step.to_owned()]].concat();
                    self.paths.insert(expr.id, path);
                }
            }
            size = size.or_else(|| self.size(expr));
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        of_target.plus(sum).plus(if resolved.overloads.is_empty() { Range::exactly(0) } else { cost })
    }

    fn comprehension(&mut self, expr: &IdedExpr, of: &ComprehensionExpr) -> Range {
        let mut sum = self.cost(&of.iter_range).plus(self.cost(&of.accu_init));
        let accumulator = self.local_of(&of.accu_init);
        self.scope.push((of.accu_var.clone(), accumulator));
        let depth = self.scope.len();
        let role = if of.iter_var2.is_some() { Role::Key } else { Role::Only };
        let first = self.iterated(&of.iter_range, role);
        self.scope.push((of.iter_var.clone(), first));
        if let Some(name) = &of.iter_var2 {
            let second = self.iterated(&of.iter_range, Role::Value);
            self.scope.push((name.clone(), second));
        }
        let each = self.cost(&of.loop_cond).plus(self.cost(&of.loop_step));
        self.scope.truncate(depth);
        sum = sum.plus(self.cost(&of.result));
        self.scope.truncate(depth - 1);
        let count = self.size_or_unknown(&of.iter_range);
        match of.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&of.accu_init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entries_of(&of.loop_step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.plus(count.times(each))
    }

    fn binding(&mut self, expr: &IdedExpr, of: &ComprehensionExpr) -> Range {
        let sum = self.cost(&of.iter_range).plus(self.cost(&of.accu_init));
        let bound = self.local_of(&of.accu_init);
        self.scope.push((of.accu_var.clone(), bound));
        let sum = sum.plus(self.cost(&of.result));
        self.scope.pop();
        self.copy_sizes(expr, &of.result);
        sum
    }

    // === known sizes of expressions ===

    fn local(&self, name: &str) -> Option<&Local> {
        self.scope.iter().rev().find(|(other, _)| other == name).map(|(_, local)| local)
    }

    fn path(&self, expr: &IdedExpr) -> Vec<String> {
        if let Expr::Ident(name) = &expr.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn local_of(&mut self, expr: &IdedExpr) -> Local {
        Local { path: self.path(expr), size: self.size(expr), entries: self.entries_of(expr) }
    }

    fn iterated(&self, range: &IdedExpr, role: Role) -> Local {
        let entries = self.entries_of(range);
        let is_list =
            entries.map_or(matches!(self.checked.type_of(range.id), Type::List(_)), |entries| entries.is_list);
        let (step, is_value) = match (role, is_list) {
            (Role::Only | Role::Value, true) => ("@items", true),
            (Role::Key, true) => ("@indices", false),
            (Role::Only | Role::Key, false) => ("@keys", false),
            (Role::Value, false) => ("@values", true),
        };
        let size = entries.map(|entries| if is_value { entries.value } else { entries.key });
        Local { path: [self.path(range), vec![step.to_owned()]].concat(), size, entries: None }
    }

    fn entries_of(&self, expr: &IdedExpr) -> Option<Entries> {
        let known = self.entries.get(&expr.id).copied();
        known.or_else(|| match &expr.expr {
            Expr::Ident(name) => self.local(name)?.entries,
            _ => None,
        })
    }

    fn copy_sizes(&mut self, to: &IdedExpr, from: &IdedExpr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn size_or_unknown(&self, expr: &IdedExpr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn size(&self, expr: &IdedExpr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len()),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len()),
            Expr::Map(map) => Some(map.entries.len()),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(Range::exactly(size as u64));
        }
        if let Some(size) = self.declared(&self.path(expr)) {
            return Some(size);
        }
        if self.checked.type_of(expr.id).is_scalar() {
            return Some(Range::exactly(1));
        }
        match &expr.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// Returns the size that the schema declares at a path. The first step is the variable.
    fn declared(&self, path: &[String]) -> Option<Range> {
        let steps = path.get(1..)?;
        if steps.last().is_some_and(|step| step == "@keys") {
            // Keys are texts without a declared size.
            return self.schema.at(&steps[..steps.len() - 1]).map(|_| Range::exactly(0));
        }
        self.schema.at(steps).map(|schema| Range::to(0, schema.most))
    }

    fn describe(&self, expr: &IdedExpr) -> Operand {
        let ty = self.checked.type_of(expr.id);
        let path = match self.path(expr) {
            path if path.first().is_some_and(|first| first == ACCUMULATOR) => Vec::new(),
            path => path,
        };
        let item = if let Type::List(item) = ty { Some(&**item) } else { None };
        let items = item.map(|_| {
            let declared =
                (!path.is_empty()).then(|| self.declared(&[path.clone(), vec!["@items".to_owned()]].concat()));
            declared.flatten().unwrap_or(Range::UNKNOWN)
        });
        Operand {
            size: self.size_or_unknown(expr),
            texts: items.filter(|_| matches!(item, Some(Type::String | Type::Bytes))),
            is_list: item.is_some(),
            items,
            number: match &expr.expr {
                Expr::Literal(LiteralValue::Int(number)) => Some(*number.inner()),
                _ => None,
            },
            is_small: matches!(ty, Type::Extension(_)),
        }
    }
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// Reports whether a comprehension only binds a name to a value.
fn is_binding(of: &ComprehensionExpr) -> bool {
    let over_nothing = matches!(&of.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    let never = matches!(&of.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(flag)) if !*flag.inner());
    over_nothing && never && of.accu_var != ACCUMULATOR
}
