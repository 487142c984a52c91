//! Tests of hostile expressions. Each is rejected by the compiler or stops at its budget, which includes created
//! values. The tests don't measure time.

use serde_json::{Value as Json, json};
use windlass_api::Entropy;

use crate::{Environment, EvaluationError, Expected, LIMIT_PER_CALL, Presence, Schema};

fn object(items: u32) -> Json {
    json!({"l": (0..items).collect::<Vec<_>>(), "t": "a".repeat(20_000)})
}

/// Returns `None` if the expression does not compile, or else whether it exceeded its budget.
fn run(source: &str, object: &Json, limit: u64) -> Option<bool> {
    let program =
        Environment::new().with("self", &Schema::any(), Presence::Certain).compile(source, Expected::Bool).ok()?;
    let outcome = program.condition(&[("self", Some(object))], limit);
    // The cost of a call is counted before the call. A call that exceeds the rest of the budget is not made.
    let exhausted = outcome.result == Err(EvaluationError::Exhausted);
    assert_eq!(outcome.cost > limit, exhausted, "{source}: {outcome:?}");
    Some(exhausted)
}

/// Returns a chain of binds, each with twice the size of its predecessor.
fn doubled(seed: &str, times: usize, end: &str) -> String {
    let nested = (0..times)
        .fold(format!("{seed}{end}"), |inner, _| inner.replacen(seed, &format!("[{seed}].map(x, x + x)[0]"), 1));
    format!("{nested} > 0")
}

#[test]
fn expensive_expressions_end_with_their_budget() {
    let object = object(2000);
    let all = |depth: usize| {
        (0..depth).rev().fold("true".to_owned(), |inner, level| format!("self.l.all(x{level}, {inner})"))
    };
    for bomb in [
        all(2),
        all(6),
        "self.l.map(a, self.l.map(b, self.l.map(c, c))).size() > 0".to_owned(),
        "self.l.exists(a, self.l.exists(b, self.l.filter(c, c == a).size() > 3))".to_owned(),
        doubled("self.t", 12, ".size()"),
        "self.l.exists(x, self.t.matches('(a*)*(a*)*(a*)*b'))".to_owned(),
        "self.l.all(x, self.t.replace('a', self.t).size() > 0)".to_owned(),
        "self.l.all(x, self.t.split('').size() > 0)".to_owned(),
        "self.l.all(x, self.t.split('').join(self.t).size() > 0)".to_owned(),
        "self.l.all(x, self.t.contains('aaaaaaaaaaaaaaaaaaaaaaaaab') == false)".to_owned(),
        "self.l.all(x, self.l.all(y, self.l == self.l))".to_owned(),
    ] {
        assert_eq!(run(&bomb, &object, LIMIT_PER_CALL), Some(true), "{}", &bomb[..bomb.len().min(120)]);
    }
}

#[test]
fn too_deep_or_long_expression_is_rejected_or_ends() {
    let object = object(300);
    for source in [
        doubled("self.l", 24, ".size()"),
        format!("{}true{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}1{} == 1", "[".repeat(50_000), "][0]".repeat(50_000)),
        format!("{}true", "!".repeat(100_001)),
        format!("true{}", " && true".repeat(50_000)),
        format!("self{} == 1", ".a".repeat(50_000)),
        format!("1{} > 0", " + 1".repeat(50_000)),
        format!("self.t.matches('{}')", "(".repeat(5_000)),
        format!("self.t.matches('{}a{{1000}}')", "(a{1000}){1000}".repeat(3)),
        format!("{} > 0", "9".repeat(10_000)),
        format!("'{}' == ''", "é".repeat(200_000)),
    ] {
        run(&source, &object, LIMIT_PER_CALL);
    }
}

/// Tests random expressions of expensive calls, with budgets from almost zero to the usual one.
#[test]
fn every_compiled_expression_ends_with_its_budget() {
    let (object, entropy) = (object(300), Entropy::seeded(7));
    let pick = |all: &[&str]| {
        let at = usize::try_from(entropy.below(all.len() as u64)).unwrap_or_default();
        all[at].to_owned()
    };
    let (mut compiled, mut exhausted) = (0, 0);
    for _ in 0..150 {
        let mut source = pick(&["true", "x0 == 1", "self.t.size() > 3", "self.t.startsWith('a')"]);
        for level in 0..entropy.below(5) {
            source = match entropy.below(5) {
                0 => format!("self.l.all(x{level}, {source})"),
                1 => format!("self.l.exists_one(x{level}, {source})"),
                2 => format!("self.l.map(x{level}, {source}).size() > 0"),
                3 => format!(
                    "self.t.{}.size() > 0 && ({source})",
                    pick(&["upperAscii()", "trim()", "replace('a', 'bb')"])
                ),
                _ => format!("(self.l + self.l).filter(x{level}, {source}).size() >= 0"),
            };
        }
        let limit = [10, 1_000, 10_000, 100_000][usize::try_from(entropy.below(4)).unwrap_or_default()];
        if let Some(ended) = run(&source, &object, limit) {
            compiled += 1;
            exhausted += usize::from(ended);
        }
    }
    assert!(
        compiled > 80 && exhausted > 20,
        "{compiled} compiled, {exhausted} ended early: the generator is not hostile enough"
    );
}
