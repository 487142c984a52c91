//! A small interpreter of the shell, for the commands of simulated containers.
//!
//! Understood: lists with `;`, `&&`, `||`, `!` and pipes; `if`, `while`, `until`, `for`, functions, groups and subshells;
//! variables, `${NAME:-word}`, `$(…)`, `$((…))`, quotes and redirections; and the commands in [`builtins`]. Nothing is ever
//! executed: files are entries of a [`Disk`], and time that a script sleeps is added up.
//!
//! Guaranteed: a script takes bounded time and memory, whatever it says. One that does not end counts as running for ever.

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

/// The longest script that is read, in bytes.
const LONGEST_SCRIPT: usize = 64 * 1024;
/// The longest time that a script may sleep and still be said to end.
const LONGEST_SLEEP: Duration = Duration::from_hours(24 * 365);

/// The result of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// How long it slept; `None` if it did not sleep.
    pub(super) slept: Option<Duration>,
    /// The exit code; `None` if it does not end.
    pub(super) code: Option<i32>,
    /// The result of the handler that it has set for SIGTERM.
    pub(super) on_term: Option<Box<Self>>,
}

/// The surroundings of a script.
#[derive(Debug)]
pub(super) struct Surroundings<'s> {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) files: View<'s>,
    /// The seed of `$RANDOM`.
    pub(super) seed: u64,
}

/// Runs a command line without a shell. Returns `None` if the program is not known.
pub(super) fn run_program(words: &[String], surroundings: Surroundings<'_>) -> Option<Ran> {
    let name = words.first()?.rsplit('/').next()?;
    if !builtins::is_program(name) {
        return None;
    }
    let mut machine = Machine::new(surroundings, Vec::new());
    let mut words = words.to_vec();
    name.clone_into(&mut words[0]);
    let outcome = machine.call(&words, "");
    Some(machine.ran(outcome))
}

/// Runs a script with its arguments, of which the first is `$0`. Returns `None` if the script cannot be read.
pub(super) fn run_script(
    script: &str,
    arguments: Vec<String>,
    exit_on_error: bool,
    surroundings: Surroundings<'_>,
) -> Option<Ran> {
    if script.len() > LONGEST_SCRIPT {
        return None;
    }
    let list = syntax::parse(script)?;
    let mut machine = Machine::new(surroundings, arguments);
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
    fn ran(&self, outcome: Result<i32, Stop>) -> Ran {
        let code = match outcome {
            Ok(code) | Err(Stop::Exit(code) | Stop::Return(code)) => Some(code & 0xff),
            Err(Stop::Break | Stop::Continue) => Some(self.status & 0xff),
            Err(Stop::Endless) => None,
        };
        Ran { slept: self.slept, code, on_term: None }
    }
}

#[cfg(test)]
mod tests;
