//! CEL for Kubernetes: the language, its functions, and the validation rules (`x-kubernetes-validations`) of custom
//! resources.
//!
//! ```text
//! parse      text → tree, including macros; uses the parser of the `cel` crate
//! check      type checking with `types` and `schema`; resolves the overloads of a `function`
//! estimate   the maximum cost of an evaluation, by the rules of `cost`
//! program    checked expressions
//!  └ eval     evaluates to `value`s, which are views of the object; counts the cost by the same rules
//! library    the functions, one table per library
//! rules      validates the rules in a schema when the schema is written
//! validator  validates objects by the rules of their schema
//! ```
//!
//! Guaranteed: a compiled expression never fails because of its types, except for dynamic values (`int-or-string`, JSON
//! without a schema). An evaluation stops when it exceeds its cost limit. Its memory is bounded, too: created values
//! count even if the cost model ignores them. Compilation is bounded by limits on the length and the nesting of
//! expressions.
//!
//! Not guaranteed: costs equal to the last unit. They follow the rules of kube-apiserver. Not implemented: named time
//! zones, `math`, protocol buffers, and `authorizer`.

mod check;
mod cost;
mod error;
mod estimate;
mod eval;
mod function;
mod library;
mod parse;
mod pattern;
mod pattern_size;
mod program;
mod rules;
mod schema;
mod stack;
mod types;
mod validator;
mod value;

pub use self::{
    error::{CompileError, EvaluationError, Expected},
    pattern::compile_pattern,
    pattern_size::pattern_weight,
    program::{Environment, Evaluated, LIMIT_PER_CALL, Presence, Program},
    rules::{WrongRule, check_rules},
    schema::Schema,
    validator::{Rules, Verdict},
};
pub use windlass_api::{RESERVED, escape, unescape};

#[cfg(test)]
mod tests;
