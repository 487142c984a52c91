//! CEL as Kubernetes has it: the language, its functions, and the rules (`x-kubernetes-validations`) of custom resources.
//!
//! ```text
//! parse      text → tree, with the macros; the parser is that of the `cel` crate
//! check      types, by `types` and `schema`; which of a `function`'s overloads a call means
//! estimate   what an evaluation can cost at most, by the rules of `cost`
//! program    what was checked
//!  └ eval     its value, of `value`s that are views of the object; costs are counted by the same rules
//! library    the functions, one table per library
//! rules      the rules in a schema, checked when they are written
//! validator  objects, checked by the rules of their schema
//! ```
//!
//! Guaranteed: an expression that compiled never fails for its types but where something is dynamic (`int-or-string`, JSON
//! without a schema). An evaluation stops when it exceeds its limit, and is bounded in memory: values that cost nothing to make
//! count as well. Compiling is bounded by the length of the expression and the depth of its nesting.
//!
//! Not guaranteed: that costs are the real server's to the last unit; they follow its rules. Not there: time zones by name,
//! `math`, protocol buffers, the `authorizer`.

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
