//! CEL for Kubernetes: the language, its functions, and the validation rules (`x-kubernetes-validations`) of custom
//! resources.
//!
//! | modules | content |
//! |---|---|
//! | `schema`, `types` | the schemas of values, and the types of expressions |
//! | `pattern`, `pattern_size` | regular expressions, and their weight |
//! | `fault`, `meter`, `cost` | failures and limits of an evaluation; the cost rules |
//! | `extension`, `value` | values, which are views of the object; the types that Kubernetes adds |
//! | `function`, `library` | functions with overloads, one table per library |
//! | `error`, `parse` | text → tree, including macros; uses the parser of the `cel` crate |
//! | `check` | type checking; resolves the overloads of a function |
//! | `estimate` | the maximum cost of an evaluation |
//! | `eval` | evaluates, and counts the cost by the same rules |
//! | `stack`, `program` | compiled expressions; deep ones run on a thread with a large stack |
//! | `cause`, `rules` | validates the rules in a schema when the schema is written |
//! | `validator` | validates objects by the rules of their schema |
//!
//! Guaranteed: a compiled expression never fails because of its types, except for dynamic values (`int-or-string`, JSON
//! without a schema). An evaluation stops when it exceeds its cost limit. Its memory is bounded, too: created values
//! count even if the cost model ignores them. Compilation is bounded by limits on the length and the nesting of
//! expressions.
//!
//! Not guaranteed: costs equal to the last unit. They follow the rules of kube-apiserver. Not implemented: named time
//! zones, `math`, protocol buffers, and `authorizer`.

mod stack;

mod pattern;
mod pattern_size;
mod schema;
mod types;

mod cost;
mod extension;
mod fault;
mod meter;
mod value;

mod function;
mod library;

mod check;
mod error;
mod parse;

mod estimate;
mod eval;
mod program;

mod cause;
mod rules;
mod validator;

pub use self::{
    error::{CompileError, EvaluationError, Expected},
    pattern::compile_pattern,
    pattern_size::pattern_weight,
    program::{Environment, Evaluated, LIMIT_PER_CALL, Presence, Program},
    rules::{RuleError, check_rules},
    schema::Schema,
    validator::{Rules, Verdict},
};
pub use windlass_api::{RESERVED, escape, unescape};

#[cfg(test)]
mod tests;
