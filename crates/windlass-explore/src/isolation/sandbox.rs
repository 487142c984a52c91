//! The settings of the namespaces, and the running helper.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    path::PathBuf,
    process::{ExitCode, ExitStatus, Stdio},
};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
};

use super::{
    Isolation,
    channel::{self, Channel, Message},
    connector::Connector,
    init, supervisor,
};

/// The first argument of the processes of the helper.
const SUPERVISOR: &str = "windlass-explore-isolated";
pub(super) const INIT: &str = "windlass-explore-init";

/// The directory for temporary files that each process has for itself.
pub(crate) const TEMPORARY: &str = "/tmp";

/// The settings of the namespaces of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    /// The port of the gateway in the network namespace; 0 for any.
    pub(crate) port: u16,
    /// The entries of [`TEMPORARY`] that the process sees; `None` if it sees and shares all.
    pub(crate) visible: Option<BTreeSet<String>>,
    /// Files and directories that are mounted elsewhere.
    pub(crate) bindings: Vec<Binding>,
    /// The host name; by default that of this machine.
    pub(crate) host: Option<String>,
}

/// A file or directory that is mounted at another path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

/// A running helper. Dropping it kills the program with all processes of its namespace.
#[derive(Debug)]
pub(crate) struct Helper {
    /// Dropped before the supervisor is killed: init ends then, even if it does not know the supervisor yet.
    channel: Channel,
    supervisor: Child,
    /// The process group of init and the program. Its ID remains valid as long as the channel is open.
    group: Pid,
    listener: Option<TcpListener>,
    connector: Connector,
    /// The exit status of the program, once it has ended.
    status: Option<ExitStatus>,
    /// `true` once all processes of the namespace have ended.
    has_ended: bool,
}

impl Sandbox {
    /// Adds the entries of [`TEMPORARY`] to which a text refers to the visible ones.
    pub(crate) fn show(visible: &mut BTreeSet<String>, text: &str) {
        let directory = format!("{TEMPORARY}/");
        for (start, _) in text.match_indices(&directory) {
            let before = text[..start].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "-_.".contains(before)) {
                continue;
            }
            let entry = text[start + directory.len()..].split('/').next().unwrap_or_default();
            // The text may be a list of paths, or contain one in quotes.
            let shorter = entry.split([':', ',', ';', '"', '\'', ' ', '\n']).next().unwrap_or_default();
            visible.extend([entry, shorter].into_iter().filter(|name| is_name(name)).map(str::to_owned));
        }
    }
}

/// Reports whether a text can be the name of an entry.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && text.len() < 256 && !text.contains('\0')
}

impl Helper {
    /// Starts a program in namespaces of its own. Without a program, only creates the namespaces.
    ///
    /// # Errors
    ///
    /// If the namespaces cannot be created, or if the program cannot be started, with the code of the system.
    pub(crate) async fn start(isolation: &Isolation, sandbox: &Sandbox, command: &Command) -> io::Result<Self> {
        let (channel, theirs) = channel::channel()?;
        let mut supervisor = isolation.command(sandbox, command, theirs)?.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("starting the helper {}: {error}", isolation.helper.display()))
        })?;
        let is_check = command.as_std().get_program().is_empty();
        let (mut created, mut listener) = (None, None);
        let mut is_started = false;
        while created.is_none() || listener.is_none() || !is_started && !is_check {
            match channel.receive().await? {
                Some((Message::Created { init }, Some(socket))) => {
                    created = Pid::from_raw(init).zip(Some(Connector::new(socket)?));
                }
                Some((Message::Prepared, Some(socket))) => listener = Some(accepting(socket)?),
                Some((Message::Started, _)) => is_started = true,
                Some((Message::Failed { reason }, _)) => return Err(io::Error::other(reason)),
                Some((Message::NotStarted { reason, code }, _)) => {
                    let error = code.map(io::Error::from_raw_os_error);
                    return Err(error.unwrap_or_else(|| io::Error::other(reason)));
                }
                Some(_) => {}
                None => {
                    let status = supervisor.wait().await?;
                    let helper = isolation.helper.display();
                    return Err(io::Error::other(format!("the helper {helper} ended with {status}")));
                }
            }
        }
        let (group, connector) = created.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Self { channel, supervisor, group, listener, connector, status: None, has_ended: false })
    }

    /// Returns the process group of the program.
    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    /// Returns the supervisor, which has the pipes of the program.
    pub(crate) const fn supervisor(&mut self) -> &mut Child {
        &mut self.supervisor
    }

    /// Takes the listener of the gateway in the network namespace.
    pub(crate) const fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    pub(crate) const fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Waits until all processes of the namespace have ended. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        while !self.has_ended {
            match self.channel.receive().await? {
                Some((Message::Exited { status }, _)) => self.status = Some(ExitStatus::from_raw(status)),
                Some((Message::Ended, _)) | None => self.has_ended = true,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Kills all processes of the namespace, and waits for their end. Returns the exit status of the program if it has
    /// ended by itself.
    pub(crate) async fn kill(self) -> io::Result<ExitStatus> {
        let Self { channel, mut supervisor, status, .. } = self;
        // The supervisor kills the others, and waits for them.
        drop(channel);
        let killed = supervisor.wait().await?;
        Ok(status.unwrap_or(killed))
    }
}

impl Isolation {
    /// Returns the command that starts a program in namespaces of its own.
    fn command(&self, sandbox: &Sandbox, program: &Command, channel: OwnedFd) -> io::Result<Command> {
        let program = program.as_std();
        let mut command = Command::new(&self.helper);
        command.arg(SUPERVISOR).arg(serde_json::to_string(sandbox)?);
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        command.stdin(Stdio::from(channel)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        Ok(command)
    }
}

/// Acts as a process of the helper if the arguments begin like those of one.
pub(super) fn helper(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
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
    let _ = channel::send(channel, &Message::Failed { reason: error.to_string() }, None);
    Some(ExitCode::FAILURE)
}

/// Reads the settings and the program from the arguments of init.
fn settings(mut arguments: impl Iterator<Item = OsString>) -> io::Result<(Sandbox, std::process::Command)> {
    let sandbox = arguments.next().unwrap_or_default();
    let sandbox = named("reading the settings", serde_json::from_slice(sandbox.as_encoded_bytes()))?;
    let mut program = std::process::Command::new(arguments.next().unwrap_or_default());
    program.args(arguments);
    Ok((sandbox, program))
}

fn accepting(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Adds the name of an operation to its error.
pub(super) fn named<T>(operation: &str, result: Result<T, impl Into<io::Error>>) -> io::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{operation}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_texts_are_visible() {
        let shown = |text: &str| {
            let mut visible = BTreeSet::new();
            Sandbox::show(&mut visible, text);
            visible.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(shown("/tmp/build/manager"), ["build"]);
        assert_eq!(shown("--config=/tmp/config.yaml"), ["config.yaml"]);
        assert_eq!(shown("/usr/bin:/tmp/a/bin:/tmp/b"), ["a", "b"]);
        assert_eq!(shown("file:///tmp/a b/c"), ["a", "a b"]);
        for other in ["/var/tmp/a", "/tmp", "/tmp/", "/tmp/../etc"] {
            assert!(shown(other).is_empty(), "{other}");
        }
    }
}
