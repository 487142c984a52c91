//! The templates of stages and of answers for pods: the part of Go's text/template that stages use.
//!
//! Supported are actions, pipelines, variables, `if`, `with`, `range`, `else`, `break`, `continue`, comments, trim
//! markers, and the [`functions`]. Named templates and methods are not. Everything that is not supported is an error
//! when the template is parsed, as far as it can be known then.
//!
//! A template cannot run for long: its steps, its nesting and the size of its output are limited.

mod evaluation;
pub(super) mod functions;
mod lexer;
mod parser;

use serde_json::Value;

use self::functions::Function;

/// The maximum number of tokens of a template.
const MOST_TOKENS: usize = 20_000;
/// The maximum nesting of actions and parentheses.
const MOST_NESTED: usize = 64;
/// The maximum number of evaluated actions, operands and elements of values.
const MOST_STEPS: usize = 500_000;
/// The maximum size of the output, which is also that of a request to etcd.
const MOST_OUTPUT: usize = 1_500_000;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::nodes) struct Template {
    nodes: Vec<Node>,
}

/// An error in the text of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nodes) struct SyntaxError {
    /// The line in the template; the first one is 1.
    pub(in crate::nodes) line: usize,
    pub(in crate::nodes) message: String,
}

/// The functions that depend on the object of the stage.
pub(in crate::nodes) trait Environment {
    /// Calls the function `name`.
    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String>;
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Action(Pipeline),
    Block(Box<Block>),
    Break,
    Continue,
}

/// An `if`, `with` or `range`.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    keyword: Keyword,
    pipeline: Pipeline,
    body: Vec<Node>,
    otherwise: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyword {
    If,
    With,
    Range,
}

/// Commands, each of which gets the value of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
struct Pipeline {
    line: usize,
    /// The variables that get the value.
    targets: Vec<String>,
    /// `true` if the variables exist.
    assigns: bool,
    commands: Vec<Command>,
}

#[derive(Clone, Debug, PartialEq)]
struct Command {
    /// A function or a value.
    head: Operand,
    arguments: Vec<Operand>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Function(Function),
    Literal(Value),
    /// A value with the names of its fields.
    Path(Root, Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
enum Root {
    Dot,
    Variable(String),
    Pipeline(Box<Pipeline>),
}

impl Template {
    /// Parses a template. `own` are the names of the functions of the environment.
    pub(in crate::nodes) fn parse(text: &str, own: &[&'static str]) -> Result<Self, SyntaxError> {
        parser::parse(text, own).map(|nodes| Self { nodes })
    }

    /// Renders the template for `data`.
    pub(in crate::nodes) fn render(&self, data: &Value, environment: &dyn Environment) -> Result<String, SyntaxError> {
        evaluation::render(&self.nodes, data, environment)
    }
}

impl SyntaxError {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

#[cfg(test)]
mod tests;
