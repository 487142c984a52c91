//! Execution of parsed scripts, within a budget.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    Command, LONGEST_SLEEP, ScriptEnvironment, builtins,
    syntax::{AndOr, Connector, List, Pipeline, Redirect, RedirectKind},
};
use crate::nodes::disk::View;

/// The maximum number of steps of a script. A step is a command, or a kilobyte of text.
const FUEL: u32 = 10_000;
/// The maximum size of a variable, an argument or an output, in bytes.
pub(super) const LONGEST_TEXT: usize = 16 * 1024;
/// The maximum depth of nested function calls.
const DEEPEST: u32 = 16;

/// A reason to end more than one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Exit(i32),
    Return(i32),
    Break,
    Continue,
    /// The script sleeps forever, or has used up its budget.
    Endless,
}

/// A shell that runs a script.
#[derive(Debug)]
pub(super) struct Machine<'s> {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) arguments: Vec<String>,
    pub(super) files: View<'s>,
    pub(super) status: i32,
    pub(super) slept: Option<Duration>,
    /// `set -e`
    pub(super) exits_on_error: bool,
    /// The handler of SIGTERM.
    pub(super) trap: Option<String>,
    /// The output of the running commands.
    pub(super) output: String,
    functions: HashMap<String, Arc<Command>>,
    /// The nesting depth of conditions, in which commands may fail despite `set -e`.
    conditions: u32,
    depth: u32,
    fuel: u32,
    random: u64,
}

impl<'s> Machine<'s> {
    pub(super) fn new(environment: ScriptEnvironment<'s>, arguments: Vec<String>) -> Self {
        Self {
            variables: environment.variables,
            arguments,
            files: environment.files,
            status: 0,
            slept: None,
            exits_on_error: false,
            trap: None,
            output: String::new(),
            functions: HashMap::new(),
            conditions: 0,
            depth: 0,
            fuel: FUEL,
            random: environment.seed,
        }
    }

    /// Refills the budget, for a handler.
    pub(super) fn begin_anew(&mut self) {
        (self.fuel, self.slept, self.depth, self.conditions) = (FUEL, None, 0, 0);
    }

    /// Deducts the cost of a step that handles this many bytes.
    pub(super) fn pay(&mut self, bytes: usize) -> Result<(), Stop> {
        let price = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).saturating_add(1);
        self.fuel = self.fuel.checked_sub(price).ok_or(Stop::Endless)?;
        Ok(())
    }

    pub(super) fn sleep(&mut self, time: Duration) -> Result<(), Stop> {
        let slept = self.slept.unwrap_or_default().saturating_add(time);
        self.slept = Some(slept);
        if slept > LONGEST_SLEEP { Err(Stop::Endless) } else { Ok(()) }
    }

    /// Returns the next number of `$RANDOM` (a linear congruential generator).
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) & 0x7fff
    }

    pub(super) fn write(&mut self, text: &str) -> Result<(), Stop> {
        self.pay(text.len())?;
        if self.output.len() + text.len() <= LONGEST_TEXT {
            self.output.push_str(text);
        }
        Ok(())
    }

    pub(super) fn list(&mut self, list: &List) -> Result<i32, Stop> {
        for and_or in list {
            self.and_or(and_or)?;
        }
        Ok(self.status)
    }

    fn and_or(&mut self, and_or: &AndOr) -> Result<(), Stop> {
        let last = and_or.rest.len();
        self.step(&and_or.first, last == 0)?;
        for (index, (connector, pipeline)) in and_or.rest.iter().enumerate() {
            if (self.status == 0) == (*connector == Connector::And) {
                self.step(pipeline, index + 1 == last)?;
            }
        }
        Ok(())
    }

    /// Runs a part of a list; only the failure of the last part counts for `set -e`.
    fn step(&mut self, pipeline: &Pipeline, is_last: bool) -> Result<(), Stop> {
        let excused = !is_last || pipeline.negated;
        self.conditions += u32::from(excused);
        let outcome = self.pipeline(pipeline);
        self.conditions -= u32::from(excused);
        self.status = outcome?;
        if self.exits_on_error && self.conditions == 0 && !excused && self.status != 0 {
            return Err(Stop::Exit(self.status));
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<i32, Stop> {
        let mut input = String::new();
        let (last, before) = pipeline.commands.split_last().expect("a pipeline has a command");
        for command in before {
            let kept = std::mem::take(&mut self.output);
            let outcome = self.subshell(|machine| machine.command(command, &input));
            input = std::mem::replace(&mut self.output, kept);
            outcome?;
        }
        let status = self.command(last, &input)?;
        Ok(if pipeline.negated { i32::from(status == 0) } else { status })
    }

    fn command(&mut self, command: &Command, input: &str) -> Result<i32, Stop> {
        self.pay(0)?;
        match command {
            Command::Simple { assignments, words, redirects } => self.simple(assignments, words, redirects, input),
            Command::Group(list) => self.list(list),
            Command::Subshell(list) => self.subshell(|machine| machine.list(list)),
            Command::Function { name, body } => {
                self.functions.insert(name.clone(), Arc::clone(body));
                Ok(0)
            }
            Command::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.holds(condition)? {
                        return self.list(body);
                    }
                }
                self.status = 0;
                self.list(otherwise)
            }
            Command::Loop { until, condition, body } => {
                while self.holds(condition)? != *until {
                    if self.turn(body)? {
                        break;
                    }
                }
                Ok(0)
            }
            Command::For { name, words, body } => {
                let values = match words {
                    Some(words) => self.words(words)?,
                    None => self.arguments.get(1..).unwrap_or_default().to_vec(),
                };
                for value in values {
                    self.variables.insert(name.clone(), value);
                    if self.turn(body)? {
                        break;
                    }
                }
                Ok(self.status)
            }
        }
    }

    /// Runs the body of a loop once. Returns `true` to leave the loop.
    fn turn(&mut self, body: &List) -> Result<bool, Stop> {
        self.pay(0)?;
        match self.list(body) {
            Ok(_) | Err(Stop::Continue) => Ok(false),
            Err(Stop::Break) => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    fn holds(&mut self, condition: &List) -> Result<bool, Stop> {
        self.conditions += 1;
        let status = self.list(condition);
        self.conditions -= 1;
        Ok(status? == 0)
    }

    /// Runs a function in a subshell, with its own variables and exit.
    pub(super) fn subshell(&mut self, run: impl FnOnce(&mut Self) -> Result<i32, Stop>) -> Result<i32, Stop> {
        if self.depth >= DEEPEST {
            return Err(Stop::Endless);
        }
        let size = self.variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.pay(size)?;
        let kept = (self.variables.clone(), self.exits_on_error, self.trap.clone());
        self.depth += 1;
        let outcome = run(self);
        self.depth -= 1;
        (self.variables, self.exits_on_error, self.trap) = kept;
        match outcome {
            Err(Stop::Exit(status) | Stop::Return(status)) => Ok(status),
            Err(Stop::Break | Stop::Continue) => Ok(self.status),
            other => other,
        }
    }

    fn simple(
        &mut self,
        assignments: &[(String, super::syntax::Word)],
        words: &[super::syntax::Word],
        redirects: &[Redirect],
        input: &str,
    ) -> Result<i32, Stop> {
        let words = self.words(words)?;
        let mut before = Vec::new();
        for (name, word) in assignments {
            let status = self.status;
            let value = self.joined(word)?;
            // The status is that of the last substitution.
            if status == self.status && words.is_empty() {
                self.status = 0;
            }
            before.push((name.clone(), self.variables.insert(name.clone(), value)));
        }
        let mut read = None;
        let mut write = None;
        for redirect in redirects {
            let path = self.joined(&redirect.path)?;
            match redirect.kind {
                RedirectKind::Read => match self.files.read(&path) {
                    Some(text) => read = Some(text.to_owned()),
                    None if path == "/dev/null" => read = Some(String::new()),
                    None => return Ok(1),
                },
                kind => write = Some((kind, path)),
            }
        }
        let kept = write.is_some().then(|| std::mem::take(&mut self.output));
        let outcome = match words.as_slice() {
            [] => Ok(self.status),
            words => self.call(words, read.as_deref().unwrap_or(input)),
        };
        if let (Some(kept), Some((kind, path))) = (kept, write) {
            let written = std::mem::replace(&mut self.output, kept);
            self.pay(written.len())?;
            let text = match self.files.read(&path) {
                Some(before) if kind == RedirectKind::Append => format!("{before}{written}"),
                _ => written,
            };
            if path != "/dev/null" && !self.files.write(&path, text) {
                return outcome.and(Ok(1));
            }
        }
        if !words.is_empty() {
            for (name, value) in before {
                match value {
                    Some(value) => drop(self.variables.insert(name, value)),
                    None => drop(self.variables.remove(&name)),
                }
            }
        }
        outcome
    }

    /// Runs a function or a command.
    pub(super) fn call(&mut self, words: &[String], input: &str) -> Result<i32, Stop> {
        let Some(body) = words.first().and_then(|name| self.functions.get(name).cloned()) else {
            return builtins::run(self, words, input);
        };
        if self.depth >= DEEPEST {
            return Err(Stop::Endless);
        }
        let mut arguments = words.to_vec();
        std::mem::swap(&mut self.arguments, &mut arguments);
        self.depth += 1;
        let outcome = self.command(&body, input);
        self.depth -= 1;
        self.arguments = arguments;
        match outcome {
            Err(Stop::Return(status)) => Ok(status),
            other => other,
        }
    }
}
