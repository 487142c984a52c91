//! Errors of expressions.

use std::fmt;

use crate::{fault::EvalFault, types::Type};

/// An expression that cannot be compiled. Displays like kube-apiserver: every problem with the line that it is in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CompileError {
    /// The line of the first problem, starting at one.
    pub line: usize,
    /// The column of the first problem in characters, starting at one.
    pub column: usize,
    /// The message of the first problem.
    pub message: String,
    text: String,
    problem: Kind,
}

/// The kind of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// An error in the source.
    Source,
    /// The expression has this type, but another is expected.
    Type(String),
    /// No thread can be started to compile the expression.
    NoThread,
    /// Any other problem.
    Other,
}

/// A problem at a position of the source.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// The maximum number of reported problems.
const TOLD: usize = 100;
/// Longer lines are omitted from messages.
const LONGEST_LINE: usize = 16_384;

impl Problem {
    pub(crate) fn at_start(message: String) -> Self {
        Self { line: 1, column: 1, message }
    }

    /// Creates an error at a position in the source, in characters.
    pub(crate) fn at(source: &str, offset: usize, message: String) -> Self {
        let before = source.chars().take(offset);
        let (line, column) =
            before.fold((1, 1), |(line, column), c| if c == '\n' { (line + 1, 1) } else { (line, column + 1) });
        Self { line, column, message }
    }

    fn write(&self, source: &str, out: &mut String) {
        out.push_str(&format!("ERROR: <input>:{}:{}: {}", self.line, self.column, self.message));
        let Some(line) = source.split('\n').nth(self.line - 1).filter(|line| line.len() <= LONGEST_LINE) else {
            return;
        };
        out.push_str(&format!("\n | {}\n | ", line.replace('\t', " ")));
        let wide = |c: char, narrow: char, wide: char| if c.len_utf8() > 1 { wide } else { narrow };
        let mut rest = line.chars();
        out.extend(rest.by_ref().take(self.column - 1).map(|c| wide(c, '.', '\u{ff0e}')));
        out.push(wide(rest.next().unwrap_or(' '), '^', '\u{ff3e}'));
    }
}

impl CompileError {
    pub(crate) fn new(source: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| (problem.line, problem.column));
        let mut text = String::new();
        for (index, problem) in problems.iter().take(TOLD).enumerate() {
            if index > 0 {
                text.push('\n');
            }
            problem.write(source, &mut text);
        }
        if problems.len() > TOLD {
            text.push_str(&format!("\n{} more errors were truncated", problems.len() - TOLD));
        }
        let first = problems.into_iter().next().unwrap_or_else(|| Problem::at_start("no expression".to_owned()));
        Self { line: first.line, column: first.column, message: first.message, text, problem: Kind::Source }
    }

    /// Creates an error for an expression that was parsed but has the wrong type.
    pub(crate) fn of_type(message: &str) -> Self {
        Self { line: 1, column: 1, message: message.to_owned(), text: message.to_owned(), problem: Kind::Other }
    }

    pub(crate) fn without_thread(error: &std::io::Error) -> Self {
        Self { problem: Kind::NoThread, ..Self::of_type(&format!("no thread to compile in: {error}")) }
    }

    /// Reports whether the expression may compile at another time: the system has too few resources now.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.problem == Kind::NoThread
    }

    /// Creates an error for an expression that has this type, but another is expected.
    pub(crate) fn found(found: &Type, message: &str) -> Self {
        // In this case kube-apiserver prints the names that `type()` returns.
        let name = match found {
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Null => "null_type".to_owned(),
            other => other.to_string(),
        };
        Self { problem: Kind::Type(name), ..Self::of_type(message) }
    }

    /// Reports whether the expression is valid but has the wrong type.
    pub(crate) fn is_about_type(&self) -> bool {
        self.problem != Kind::Source
    }

    /// Returns the type of the expression, if the only error is that another type is expected.
    pub fn found_type(&self) -> Option<&str> {
        match &self.problem {
            Kind::Type(found) => Some(found),
            Kind::Source | Kind::NoThread | Kind::Other => None,
        }
    }
}

/// The error of an evaluation. Displays like kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The evaluation failed: a missing key, an overflow, a division by zero.
    #[error("{0}")]
    Failed(String),
    /// The cost limit was exceeded.
    #[error("operation cancelled: actual cost limit exceeded")]
    Exhausted,
}

impl From<EvalFault> for EvaluationError {
    fn from(fault: EvalFault) -> Self {
        match fault {
            EvalFault::Error(message) => Self::Failed(message.to_string()),
            EvalFault::Exhausted => Self::Exhausted,
        }
    }
}

/// The required type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A condition (boolean).
    Bool,
    /// A message (text).
    Text,
    /// A text or null.
    TextOrNull,
    /// An object that the expression constructs.
    Object,
    /// A JSON patch that the expression constructs.
    Patch,
    /// A value of any type.
    Any,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Text => "string",
            Self::TextOrNull => "string or null",
            Self::Object => "Object",
            Self::Patch => "list(JSONPatch)",
            Self::Any => "any type",
        })
    }
}
