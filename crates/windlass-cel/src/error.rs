//! What is wrong with an expression.

use std::fmt;

use crate::types::Type;

/// An expression that cannot be used. Shows as the real server tells it: every problem with the line that it is in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CompileError {
    /// The line of the first problem, counted from one.
    pub line: usize,
    /// The column of the first problem in characters, counted from one.
    pub column: usize,
    /// What the first problem is.
    pub message: String,
    text: String,
    problem: Kind,
}

/// What kind of problem an expression has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Something in its text.
    Source,
    /// It has this type, and should have another.
    Type(String),
    /// Something else.
    Other,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
}

/// So many problems are told.
const TOLD: usize = 100;
/// Longer lines are not shown.
const LONGEST_LINE: usize = 16_384;

impl Problem {
    pub(crate) fn at_start(message: String) -> Self {
        Self { line: 1, column: 1, message }
    }

    /// At a position in the source, counted in characters.
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

    /// It was read, but is of the wrong type.
    pub(crate) fn of_type(message: &str) -> Self {
        Self { line: 1, column: 1, message: message.to_owned(), text: message.to_owned(), problem: Kind::Other }
    }

    /// It was read, and gives another type than it should.
    pub(crate) fn found(found: &Type, message: &str) -> Self {
        // Here the real server uses the names that `type()` gives.
        let name = match found {
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Null => "null_type".to_owned(),
            other => other.to_string(),
        };
        Self { problem: Kind::Type(name), ..Self::of_type(message) }
    }

    /// Whether the expression itself is fine, but cannot be used as what it should be.
    pub(crate) fn is_about_type(&self) -> bool {
        self.problem != Kind::Source
    }

    /// The type that the expression has, if all that is wrong is that it should have another.
    pub fn found_type(&self) -> Option<&str> {
        match &self.problem {
            Kind::Type(found) => Some(found),
            Kind::Source | Kind::Other => None,
        }
    }
}

/// An evaluation that gave no value. Shows as the real server tells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// Something went wrong: a missing key, an overflow, a division by zero.
    #[error("{0}")]
    Failed(String),
    /// It cost more than it may.
    #[error("operation cancelled: actual cost limit exceeded")]
    Exhausted,
}

impl From<crate::eval::Fault> for EvaluationError {
    fn from(fault: crate::eval::Fault) -> Self {
        match fault {
            crate::eval::Fault::Error(message) => Self::Failed(message.to_string()),
            crate::eval::Fault::Exhausted => Self::Exhausted,
        }
    }
}

/// The kind of value that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A condition.
    Bool,
    /// A message.
    Text,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Text => "string",
        })
    }
}
