//! Parsing of expressions. The parser of the `cel` crate follows Go's grammar, with similar error messages. This module
//! adds Kubernetes' macros.

use std::sync::LazyLock;

use cel::{
    Env,
    common::ast::{
        CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SourceInfo,
    },
    parser::{Macro, MacroExprHelper, ParseError},
};

use crate::{
    error::{CompileError, Problem},
    library::Dialect,
};

/// The maximum nesting of expressions.
const DEEPEST: u16 = 250;
/// The maximum length of expressions in bytes. kube-apiserver allows five times as much, which is not needed in
/// practice.
const LONGEST: usize = 20_000;
/// The maximum depth of the tree: chains of operators make it deep without nesting.
const DEEPEST_TREE: usize = 2_000;

/// The name of accumulators, which is not a valid identifier in expressions.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The variable of a comprehension that iterates over an empty list.
const UNUSED: &str = "#unused";

type Expanded = Result<Option<IdedExpr>, ParseError>;

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let mut env = common();
    _ = env.add_macro(Macro::receiver("sortBy", 2, sort_by));
    env
});

/// The environment without the lists extension.
static OLDER_ENVIRONMENT: LazyLock<Env> = LazyLock::new(common);

fn common() -> Env {
    let mut env = Env::stdlib();
    let macros = [
        Macro::receiver("all", 3, |h, t, a| quantifier(h, t, a, Quantifier::All)),
        Macro::receiver("exists", 3, |h, t, a| quantifier(h, t, a, Quantifier::Exists)),
        Macro::receiver("exists_one", 3, |h, t, a| quantifier(h, t, a, Quantifier::One)),
        Macro::receiver("existsOne", 3, |h, t, a| quantifier(h, t, a, Quantifier::One)),
        Macro::receiver("transformList", 3, |h, t, a| transform(h, t, a, Collected::List)),
        Macro::receiver("transformList", 4, |h, t, a| transform(h, t, a, Collected::List)),
        Macro::receiver("transformMap", 3, |h, t, a| transform(h, t, a, Collected::Map)),
        Macro::receiver("transformMap", 4, |h, t, a| transform(h, t, a, Collected::Map)),
        Macro::receiver("transformMapEntry", 3, |h, t, a| transform(h, t, a, Collected::Entries)),
        Macro::receiver("transformMapEntry", 4, |h, t, a| transform(h, t, a, Collected::Entries)),
        Macro::receiver("optMap", 2, |h, t, a| optional_map(h, t, a, "optMap", true)),
        Macro::receiver("optFlatMap", 2, |h, t, a| optional_map(h, t, a, "optFlatMap", false)),
    ];
    for added in macros {
        // Macros that the crate already defines are equivalent.
        _ = env.add_macro(added);
    }
    env
}

/// Parses an expression.
pub(crate) fn parse(source: &str, dialect: Dialect) -> Result<(IdedExpr, SourceInfo), CompileError> {
    if source.len() > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {}, limit {LONGEST}", source.len());
        return Err(CompileError::new(source, vec![Problem::at_start(message)]));
    }
    let (expr, places) = read(source, dialect)?;
    let depth = depth(&expr);
    if depth > DEEPEST_TREE {
        let message = format!("expression is too deep: {depth} levels, limit {DEEPEST_TREE}");
        return Err(CompileError::new(source, vec![Problem::at_start(message)]));
    }
    Ok((expr, places))
}

fn read(source: &str, dialect: Dialect) -> Result<(IdedExpr, SourceInfo), CompileError> {
    let environment = if dialect < Dialect::V1_35 { &OLDER_ENVIRONMENT } else { &ENVIRONMENT };
    let parser = environment.parser().max_recursion_depth(DEEPEST);
    let parser = parser.enable_ident_escape_syntax(dialect >= Dialect::V1_37);
    parser.parse_with_source_info(source).map_err(|errors| {
        let problems = errors.errors.into_iter().map(|error| {
            let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
            let column = usize::try_from(error.pos.1).unwrap_or(1).max(1);
            let column = if error.msg.ends_with("'`'") { backtick(source, line, column) } else { column };
            Problem { line, column, message: error.msg }
        });
        CompileError::new(source, problems.collect())
    })
}

/// Returns the column of the backtick that follows a dot. The parser reports the dot, kube-apiserver the backtick.
fn backtick(source: &str, line: usize, column: usize) -> usize {
    let mut after = source.lines().nth(line - 1).unwrap_or_default().chars().skip(column - 1);
    after.position(|c| c == '`').map_or(column, |offset| column + offset)
}

/// Returns the direct subexpressions.
pub(crate) fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(of) => vec![&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            });
            entries.flatten().collect()
        }
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(object) => {
            let fields = object.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => &entry.value,
                EntryExpr::StructField(field) => &field.value,
            });
            fields.collect()
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

/// Returns the depth of an expression.
pub(crate) fn depth(expr: &IdedExpr) -> usize {
    1 + parts(expr).into_iter().map(depth).max().unwrap_or(0)
}

/// Reports whether an expression selects a field of a variable.
pub(crate) fn selects(expr: &IdedExpr, variable: &str, field: &str) -> bool {
    let is_variable = |operand: &IdedExpr| matches!(&operand.expr, Expr::Ident(name) if name == variable);
    let found = match &expr.expr {
        Expr::Select(select) => select.field == field && is_variable(&select.operand),
        Expr::Call(call) if call.target.is_none() && call.func_name == "_?._" => match call.args.as_slice() {
            [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }] => {
                **text == *field && is_variable(operand)
            }
            _ => false,
        },
        _ => false,
    };
    found || parts(expr).into_iter().any(|part| selects(part, variable, field))
}

// === macros ===

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    One,
}

#[derive(Clone, Copy)]
enum Collected {
    List,
    Map,
    Entries,
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn flag(helper: &mut MacroExprHelper<'_>, flag: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(flag.into())))
}

fn number(helper: &mut MacroExprHelper<'_>, number: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(number.into())))
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args }))
}

/// Returns the two variables at the start of the arguments.
fn variables(helper: &MacroExprHelper<'_>, args: &mut Vec<IdedExpr>) -> Result<(String, String), ParseError> {
    let name = |arg: &IdedExpr| match &arg.expr {
        Expr::Ident(name) if name == ACCUMULATOR => {
            Err(helper.new_error(arg.id, "iteration variable overwrites accumulator variable"))
        }
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(helper.new_error(arg.id, "argument must be a simple name")),
    };
    let (first, second) = (name(&args[0])?, name(&args[1])?);
    if first == second {
        return Err(helper.new_error(args[1].id, format!("duplicate variable name: {second}")));
    }
    args.drain(..2);
    Ok((first, second))
}

fn quantifier(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    quantifier: Quantifier,
) -> Expanded {
    let (first, second) = variables(helper, args)?;
    let (Some(range), Some(predicate)) = (target.take(), args.pop()) else { return Ok(None) };
    let so_far = ident(helper, ACCUMULATOR);
    let tested = ident(helper, ACCUMULATOR);
    let result = ident(helper, ACCUMULATOR);
    let (init, condition, step, result) = match quantifier {
        Quantifier::All => {
            let condition = call(helper, "@not_strictly_false", None, vec![tested]);
            (flag(helper, true), condition, call(helper, "_&&_", None, vec![so_far, predicate]), result)
        }
        Quantifier::Exists => {
            let not = call(helper, "!_", None, vec![tested]);
            let condition = call(helper, "@not_strictly_false", None, vec![not]);
            (flag(helper, false), condition, call(helper, "_||_", None, vec![so_far, predicate]), result)
        }
        Quantifier::One => {
            let one = number(helper, 1);
            let more = call(helper, "_+_", None, vec![so_far, one]);
            let step = call(helper, "_?_:_", None, vec![predicate, more, tested]);
            let one = number(helper, 1);
            let result = call(helper, "_==_", None, vec![result, one]);
            (number(helper, 0), flag(helper, true), step, result)
        }
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })))))
}

fn transform(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    collected: Collected,
) -> Expanded {
    let (first, second) = variables(helper, args)?;
    let (Some(range), Some(made)) = (target.take(), args.pop()) else { return Ok(None) };
    let filter = args.pop();
    let so_far = ident(helper, ACCUMULATOR);
    let (init, step) = match collected {
        Collected::List => {
            let added = helper.next_expr(Expr::List(ListExpr::new(vec![made])));
            (Expr::List(ListExpr::default()), call(helper, "_+_", None, vec![so_far, added]))
        }
        Collected::Map => {
            let key = ident(helper, &first);
            (Expr::Map(MapExpr::default()), call(helper, "cel.@mapInsert", None, vec![so_far, key, made]))
        }
        Collected::Entries => (Expr::Map(MapExpr::default()), call(helper, "cel.@mapInsert", None, vec![so_far, made])),
    };
    let step = match filter {
        Some(filter) => {
            let unchanged = ident(helper, ACCUMULATOR);
            call(helper, "_?_:_", None, vec![filter, step, unchanged])
        }
        None => step,
    };
    let comprehension = ComprehensionExpr {
        iter_range: range,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: helper.next_expr(init),
        loop_cond: flag(helper, true),
        loop_step: step,
        result: ident(helper, ACCUMULATOR),
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(comprehension)))))
}

/// Builds an expression that evaluates `result` with `name` bound to `value`.
fn bind(helper: &mut MacroExprHelper<'_>, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::default())),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: flag(helper, false),
        loop_step: ident(helper, name),
        result,
    };
    helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
}

fn optional_map(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    name: &str,
    wraps: bool,
) -> Expanded {
    let Expr::Ident(variable) = &args[0].expr else {
        return Err(helper.new_error(args[0].id, format!("{name}() variable name must be a simple identifier")));
    };
    let variable = variable.clone();
    let (Some(optional), Some(made)) = (target.take(), args.pop()) else { return Ok(None) };
    let has = call(helper, "hasValue", Some(optional.clone()), Vec::new());
    let value = call(helper, "value", Some(optional), Vec::new());
    let bound = bind(helper, &variable, value, made);
    let library = ident(helper, "optional");
    let none = call(helper, "none", Some(library), Vec::new());
    let some = if wraps {
        let library = ident(helper, "optional");
        call(helper, "of", Some(library), vec![bound])
    } else {
        bound
    };
    Ok(Some(call(helper, "_?_:_", None, vec![has, some, none])))
}

fn sort_by(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>) -> Expanded {
    const INPUT: &str = "@__sortBy_input__";
    let Expr::Ident(variable) = &args[0].expr else {
        return Err(helper.new_error(args[0].id, "argument is not an identifier"));
    };
    let variable = variable.clone();
    let (Some(list), Some(key)) = (target.take(), args.pop()) else { return Ok(None) };
    let so_far = ident(helper, ACCUMULATOR);
    let added = helper.next_expr(Expr::List(ListExpr::new(vec![key])));
    let keys = ComprehensionExpr {
        iter_range: ident(helper, INPUT),
        iter_var: variable,
        iter_var2: None,
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: helper.next_expr(Expr::List(ListExpr::default())),
        loop_cond: flag(helper, true),
        loop_step: call(helper, "_+_", None, vec![so_far, added]),
        result: ident(helper, ACCUMULATOR),
    };
    let keys = helper.next_expr(Expr::Comprehension(Box::new(keys)));
    let input = ident(helper, INPUT);
    let sorted = call(helper, "@sortByAssociatedKeys", Some(input), vec![keys]);
    Ok(Some(bind(helper, INPUT, list, sorted)))
}
