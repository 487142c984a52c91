//! CEL for Kubernetes: the language, its functions, and the validation rules (`x-kubernetes-validations`) of custom
//! resources.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! validator      validates objects by the rules of their schema
//! rules          validates the rules in a schema when the schema is written
//! cause          the errors of fields
//! admission      the variables of match conditions and admission policies
//! scope          several evaluations with the same values: composed variables and access checks
//! program        compiled expressions; deep ones run on a thread with a large stack
//! stack          threads with a large stack
//! output         constructed objects and patches as JSON
//! eval           evaluates expressions, and counts the cost by the rules of `cost`
//! json           results of expressions as JSON
//! estimate       the maximum cost of an evaluation, by the same rules
//! check          type checking; resolves the overloads of functions
//! parse          text → tree, including macros; uses the parser of the `cel` crate
//! error          the errors of expressions
//! library        the functions, one table per library
//! function       overloads: signatures, costs and implementations
//! value          values, which are views of the object
//! extension      the types that Kubernetes adds to CEL
//! meter          counts the cost, and stops an evaluation at its limits
//! access         the questions of expressions to the authorizer
//! fault          failures of an evaluation
//! cost           the cost rules of functions
//! types          the types of expressions
//! schema         the schemas of values
//! pattern        regular expressions
//! pattern_size   the weight of regular expressions
//! ```
//!
//! Guaranteed: a compiled expression never fails because of its types, except for dynamic values (`int-or-string`, JSON
//! without a schema). An evaluation stops when it exceeds its cost limit. Its memory is bounded, too: created values
//! count even if the cost model ignores them. Compilation is bounded by limits on the length and the nesting of
//! expressions.
//!
//! Not guaranteed: costs equal to the last unit. They follow the rules of kube-apiserver. Not implemented: named time
//! zones, `math`, and protocol buffers.

mod validator;
mod rules;
mod cause;
mod admission;
mod scope;
mod program;
mod stack;
mod output;
mod eval;
mod json;
mod estimate;
mod check;
mod parse;
mod error;
mod library;
mod function;
mod value;
mod extension;
mod meter;
mod access;
mod fault;
mod cost;
mod types;
mod schema;
mod pattern;
mod pattern_size;

pub use self::{
    access::{AccessCheck, AccessDecision, AccessDecisions, AccessTarget, ResourceTarget},
    admission::AdmissionVariables,
    error::{CompileError, EvaluationError, Expected},
    library::Dialect,
    pattern::compile_pattern,
    pattern_size::pattern_weight,
    program::{Environment, Evaluated, LIMIT_PER_CALL, Presence, Program},
    rules::{RuleError, check_rules, check_rules_in},
    schema::Schema,
    scope::{Composition, Inputs, Scope},
    validator::{Rules, Verdict},
};
pub use windlass_api::{RESERVED, escape, unescape};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
