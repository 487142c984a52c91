//! The running helper, from the point of view of the exploration.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
};

use super::{
    Isolation, Sandbox,
    channel::{self, Channel, Message},
    connector::Connector,
    roles::SUPERVISOR,
};

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
    /// The exit status of the program, once it has ended by itself.
    status: Option<ExitStatus>,
    /// `true` once all processes of the namespace have ended.
    has_ended: bool,
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
        let (mut created, mut listener, mut status) = (None, None, None);
        let mut is_started = false;
        // Supervisor and init send at the same time.
        while created.is_none() || listener.is_none() || !is_started && !is_check {
            match channel.receive().await? {
                Some((Message::Created { init }, Some(socket))) => {
                    created = Pid::from_raw(init).zip(Some(Connector::new(socket)?));
                }
                Some((Message::Prepared, Some(socket))) => listener = Some(accepting(socket)?),
                Some((Message::Started, _)) => is_started = true,
                Some((Message::Exited { status: raw }, _)) => status = Some(ExitStatus::from_raw(raw)),
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
        Ok(Self { channel, supervisor, group, listener, connector, status, has_ended: false })
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

    /// Kills all processes of the namespace, and waits for their end. Returns the exit status of the program.
    pub(crate) async fn kill(self) -> io::Result<ExitStatus> {
        let Self { channel, mut supervisor, status, .. } = self;
        // The supervisor kills the others, and waits for them.
        drop(channel);
        supervisor.wait().await?;
        Ok(status.unwrap_or_else(|| ExitStatus::from_raw(Signal::KILL.as_raw())))
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

fn accepting(socket: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
