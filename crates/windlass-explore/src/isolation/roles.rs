//! The roles of the helper's processes, which their first argument selects.

use std::{
    ffi::OsString,
    io,
    os::fd::AsFd as _,
    process::{Command, ExitCode},
};

use super::{
    Sandbox,
    channel::{Message, send},
    init, supervisor,
};

/// The first argument of the processes of the helper.
pub(super) const SUPERVISOR: &str = "windlass-explore-isolated";
pub(super) const INIT: &str = "windlass-explore-init";

/// Acts as a process of the helper if the arguments begin like those of one.
pub(super) fn play(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let role = arguments.next()?;
    let stdin = io::stdin();
    let channel = stdin.as_fd();
    let outcome = match role.to_str()? {
        SUPERVISOR => supervisor::run(channel, arguments),
        INIT => settings(arguments).and_then(|(sandbox, program)| init::run(channel, &sandbox, program)),
        _ => return None,
    };
    let Err(error) = outcome else { return Some(ExitCode::SUCCESS) };
    // Fails if the exploration has ended.
    let _ = send(channel, &Message::Failed { reason: error.to_string() }, None);
    Some(ExitCode::FAILURE)
}

/// Reads the settings and the program from the arguments of init.
fn settings(mut arguments: impl Iterator<Item = OsString>) -> io::Result<(Sandbox, Command)> {
    let sandbox = arguments.next().unwrap_or_default();
    let sandbox = named("reading the settings", serde_json::from_slice(sandbox.as_encoded_bytes()))?;
    let mut program = Command::new(arguments.next().unwrap_or_default());
    program.args(arguments);
    Ok((sandbox, program))
}

/// Adds the name of an operation to its error.
pub(super) fn named<T>(operation: &str, result: Result<T, impl Into<io::Error>>) -> io::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{operation}: {error}"))
    })
}
