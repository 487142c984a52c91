//! A small shell interpreter for the commands of simulated containers.
//!
//! Supported: lists with `;`, `&&`, `||`, `!` and pipes; `if`, `while`, `until`, `for`, functions, groups and
//! subshells; variables, `${NAME:-word}`, `$(…)`, `$((…))`, quotes and redirections; and the commands in [`builtins`].
//! No program is ever executed: files are entries of a [`Disk`], and sleep times are added up.
//!
//! Guaranteed: a script takes bounded time and memory, whatever its content. A script that does not end counts as
//! running forever.

mod builtins;
mod expand;
mod machine;
mod syntax;

use std::{collections::BTreeMap, time::Duration};

use self::{
    machine::{Machine, Stop},
    syntax::Command,
};
use super::disk::View;

/// The maximum size of a script, in bytes.
const LONGEST_SCRIPT: usize = 64 * 1024;
/// The maximum total sleep time; a longer script counts as running forever.
const LONGEST_SLEEP: Duration = Duration::from_hours(24 * 365);

/// The result of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptOutcome {
    /// The total sleep time; `None` if it did not sleep.
    pub(super) slept: Option<Duration>,
    /// The exit code; `None` if it does not end.
    pub(super) code: Option<i32>,
    /// The result of its handler for SIGTERM.
    pub(super) on_term: Option<Box<Self>>,
}

/// The environment of a script.
#[derive(Debug)]
pub(super) struct ScriptEnvironment<'s> {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) files: View<'s>,
    /// The seed of `$RANDOM`.
    pub(super) seed: u64,
}

/// Runs a command line without a shell. Returns `None` if the program is not supported.
pub(super) fn run_program(words: &[String], environment: ScriptEnvironment<'_>) -> Option<ScriptOutcome> {
    let name = words.first()?.rsplit('/').next()?;
    if !builtins::is_program(name) {
        return None;
    }
    let mut machine = Machine::new(environment, Vec::new());
    let mut words = words.to_vec();
    name.clone_into(&mut words[0]);
    let outcome = machine.call(&words, "");
    Some(machine.ran(outcome))
}

/// Runs a script with its arguments; the first one is `$0`. Returns `None` if the script cannot be parsed.
pub(super) fn run_script(
    script: &str,
    arguments: Vec<String>,
    exit_on_error: bool,
    environment: ScriptEnvironment<'_>,
) -> Option<ScriptOutcome> {
    if script.len() > LONGEST_SCRIPT {
        return None;
    }
    let list = syntax::parse(script)?;
    let mut machine = Machine::new(environment, arguments);
    machine.exits_on_error = exit_on_error;
    let outcome = machine.list(&list);
    let mut ran = machine.ran(outcome);
    if let Some(handler) = machine.trap.take().and_then(|handler| syntax::parse(&handler)) {
        machine.begin_anew();
        let outcome = machine.list(&handler);
        ran.on_term = Some(Box::new(machine.ran(outcome)));
    }
    Some(ran)
}

impl Machine<'_> {
    fn ran(&self, outcome: Result<i32, Stop>) -> ScriptOutcome {
        let code = match outcome {
            Ok(code) | Err(Stop::Exit(code) | Stop::Return(code)) => Some(code & 0xff),
            Err(Stop::Break | Stop::Continue) => Some(self.status & 0xff),
            Err(Stop::Endless) => None,
        };
        ScriptOutcome { slept: self.slept, code, on_term: None }
    }
}

#[cfg(test)]
mod tests;
