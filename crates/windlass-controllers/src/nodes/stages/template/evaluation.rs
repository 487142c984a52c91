//! Evaluates a parsed template.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    Block, Command, Environment, Keyword, MOST_OUTPUT, MOST_STEPS, Node, Operand, Pipeline, Root, SyntaxError,
    functions::{self, Argument, Function},
};

/// A value: borrowed from the object, or made by the template. Go's templates get the numbers of an object as text, so
/// that a borrowed zero counts as true.
type Val<'d> = Cow<'d, Value>;

/// Renders nodes.
pub(super) fn render(nodes: &[Node], data: &Value, environment: &dyn Environment) -> Result<String, SyntaxError> {
    let variables = vec![("", Cow::Borrowed(data))];
    let mut evaluation = Evaluation { environment, variables, output: String::new(), steps: 0 };
    evaluation.nodes(nodes, &Cow::Borrowed(data))?;
    Ok(evaluation.output)
}

struct Evaluation<'t, 'd> {
    environment: &'t dyn Environment,
    variables: Vec<(&'t str, Val<'d>)>,
    output: String,
    steps: usize,
}

/// The reason why a list of nodes ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t, 'd> Evaluation<'t, 'd> {
    fn nodes(&mut self, nodes: &'t [Node], dot: &Val<'d>) -> Result<Flow, SyntaxError> {
        let scope = self.variables.len();
        let mut flow = Flow::Next;
        for node in nodes {
            flow = match node {
                Node::Text(text) => {
                    self.write(text, 0)?;
                    Flow::Next
                }
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.targets.is_empty() {
                        self.write(&functions::printed(&value), pipeline.line)?;
                    } else {
                        self.set(pipeline, value);
                    }
                    Flow::Next
                }
                Node::Block(block) => self.block(block, dot)?,
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn block(&mut self, block: &'t Block, dot: &Val<'d>) -> Result<Flow, SyntaxError> {
        let value = self.pipeline(&block.pipeline, dot)?;
        if block.keyword == Keyword::Range {
            return self.range(block, dot, value);
        }
        let scope = self.variables.len();
        let is_true = is_true(&value);
        let inner = (block.keyword == Keyword::With && is_true).then(|| value.clone());
        self.set(&block.pipeline, value);
        let nodes = if is_true { &block.body } else { &block.otherwise };
        let flow = self.nodes(nodes, inner.as_ref().unwrap_or(dot));
        self.variables.truncate(scope);
        flow
    }

    fn range(&mut self, block: &'t Block, dot: &Val<'d>, value: Val<'d>) -> Result<Flow, SyntaxError> {
        let line = block.pipeline.line;
        let entries: Vec<(Value, Val<'d>)> = match value {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).enumerate().map(numbered).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).enumerate().map(numbered).collect(),
            Cow::Borrowed(Value::Object(fields)) => {
                sorted(fields.iter().map(|(key, value)| (key.clone(), Cow::Borrowed(value))))
            }
            Cow::Owned(Value::Object(fields)) => {
                sorted(fields.into_iter().map(|(key, value)| (key, Cow::Owned(value))))
            }
            Cow::Owned(Value::Number(count)) if count.is_i64() => {
                let count = count.as_i64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                self.step(count, line)?;
                (0..count).map(|index| numbered((index, Cow::Owned(Value::from(index))))).collect()
            }
            value if value.is_null() => Vec::new(),
            value => return Err(SyntaxError::new(line, format!("range over {}", functions::kind(&value)))),
        };
        if entries.is_empty() {
            return self.nodes(&block.otherwise, dot);
        }
        let scope = self.variables.len();
        for (key, item) in entries {
            self.step(1, line)?;
            match &*block.pipeline.targets {
                [] => {}
                [one] => self.set_one(one, block.pipeline.assigns, item.clone()),
                [index, one, ..] => {
                    self.set_one(index, block.pipeline.assigns, Cow::Owned(key));
                    self.set_one(one, block.pipeline.assigns, item.clone());
                }
            }
            let flow = self.nodes(&block.body, &item)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn set(&mut self, pipeline: &'t Pipeline, value: Val<'d>) {
        if let Some(name) = pipeline.targets.first() {
            self.set_one(name, pipeline.assigns, value);
        }
    }

    fn set_one(&mut self, name: &'t str, assigns: bool, value: Val<'d>) {
        let known = if assigns { self.variables.iter_mut().rev().find(|(known, _)| *known == name) } else { None };
        match known {
            Some((_, known)) => *known = value,
            None => self.variables.push((name, value)),
        }
    }

    fn pipeline(&mut self, pipeline: &'t Pipeline, dot: &Val<'d>) -> Result<Val<'d>, SyntaxError> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, value.take(), dot, pipeline.line)?);
        }
        Ok(value.unwrap_or_default())
    }

    fn command(
        &mut self,
        command: &'t Command,
        last: Option<Val<'d>>,
        dot: &Val<'d>,
        line: usize,
    ) -> Result<Val<'d>, SyntaxError> {
        let Operand::Function(function) = &command.head else { return self.operand(&command.head, dot, line) };
        if let Function::And | Function::Or = function {
            return self.decide(*function == Function::Or, command, last, dot, line);
        }
        let mut arguments = Vec::with_capacity(command.arguments.len() + 1);
        for argument in &command.arguments {
            arguments.push(self.operand(argument, dot, line)?);
        }
        arguments.extend(last);
        self.call(*function, &arguments, line)
    }

    /// Evaluates `and` and `or`, which skip arguments that do not matter.
    fn decide(
        &mut self,
        until: bool,
        command: &'t Command,
        last: Option<Val<'d>>,
        dot: &Val<'d>,
        line: usize,
    ) -> Result<Val<'d>, SyntaxError> {
        let mut value = None;
        for argument in &command.arguments {
            let found = self.operand(argument, dot, line)?;
            if is_true(&found) == until {
                return Ok(found);
            }
            value = Some(found);
        }
        last.or(value).ok_or_else(|| SyntaxError::new(line, "\"and\" and \"or\" need an argument"))
    }

    fn call(&mut self, function: Function, arguments: &[Val<'d>], line: usize) -> Result<Val<'d>, SyntaxError> {
        let failed = |message: String| SyntaxError::new(line, format!("the function {:?}: {message}", function.name()));
        let value = match function {
            Function::Own(name) => {
                let arguments: Vec<&Value> = arguments.iter().map(|value| &**value).collect();
                self.environment.call(name, &arguments)
            }
            function => {
                let arguments = arguments.iter().map(|value| Argument { value, is_true: is_true(value) });
                functions::call(function, &arguments.collect::<Vec<_>>())
            }
        };
        let value = value.map_err(failed)?;
        self.step(size(&value), line)?;
        Ok(Cow::Owned(value))
    }

    fn operand(&mut self, operand: &'t Operand, dot: &Val<'d>, line: usize) -> Result<Val<'d>, SyntaxError> {
        self.step(1, line)?;
        let (root, fields) = match operand {
            Operand::Function(function) => return self.call(*function, &[], line),
            Operand::Literal(value) => return Ok(Cow::Owned(value.clone())),
            Operand::Path(root, fields) => (root, fields),
        };
        let mut value = match root {
            Root::Dot => dot.clone(),
            Root::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map(|(_, value)| value.clone()).unwrap_or_default()
            }
            Root::Pipeline(pipeline) => self.pipeline(pipeline, dot)?,
        };
        if let Cow::Owned(made) = &value {
            self.step(size(made), line)?;
        }
        for name in fields {
            value = match value {
                Cow::Borrowed(Value::Object(fields)) => fields.get(name).map(Cow::Borrowed).unwrap_or_default(),
                Cow::Owned(Value::Object(mut fields)) => fields.remove(name).map(Cow::Owned).unwrap_or_default(),
                value if value.is_null() => value,
                value => {
                    let kind = functions::kind(&value);
                    return Err(SyntaxError::new(line, format!("{kind} has no field {name:?}")));
                }
            };
        }
        Ok(value)
    }

    fn step(&mut self, steps: usize, line: usize) -> Result<(), SyntaxError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MOST_STEPS {
            return Err(SyntaxError::new(line, format!("the template takes more than {MOST_STEPS} steps")));
        }
        Ok(())
    }

    fn write(&mut self, text: &str, line: usize) -> Result<(), SyntaxError> {
        if self.output.len() + text.len() > MOST_OUTPUT {
            return Err(SyntaxError::new(line.max(1), format!("the output is larger than {MOST_OUTPUT} bytes")));
        }
        self.output.push_str(text);
        Ok(())
    }
}

fn numbered((index, item): (usize, Val<'_>)) -> (Value, Val<'_>) {
    (Value::from(index), item)
}

fn sorted<'d>(entries: impl Iterator<Item = (String, Val<'d>)>) -> Vec<(Value, Val<'d>)> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().map(|(key, value)| (Value::String(key), value)).collect()
}

fn is_true(value: &Val<'_>) -> bool {
    match value {
        Cow::Borrowed(Value::Number(_)) => true,
        value => functions::is_true(value),
    }
}

/// Returns the number of elements of a value. Long strings count as several.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(key, value)| 1 + key.len() / 64 + size(value)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        _ => 1,
    }
}
