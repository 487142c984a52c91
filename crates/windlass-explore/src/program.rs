//! The processes of the program: start, log and end.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    process::Command,
    time::{Instant, timeout},
};

use crate::{
    error::{Error, Result},
    record::{self, ProcessEnd},
};

mod group;
mod log;
mod panics;
mod ports;

use self::ports::Port;
pub(crate) use self::{group::ProcessGroup, log::Log};

/// The placeholders in arguments and variables.
const KUBECONFIG: &str = "{kubeconfig}";
const PORT: &str = "{port}";

/// The program of a run. Each of its processes has a kubeconfig of its own.
#[derive(Debug)]
pub(crate) struct Program {
    /// The program and its arguments. Not empty.
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    directory: Option<PathBuf>,
    /// The number of the run.
    run: usize,
    /// The time from which all times count.
    zero: Instant,
    /// Contains the kubeconfigs. Other users cannot read it.
    files: TempDir,
    /// The port for the placeholder, if it is used.
    port: Option<Port>,
}

/// A process of the program. Dropping it kills the process with its children.
#[derive(Debug)]
pub(crate) struct Process {
    number: usize,
    started: Duration,
    zero: Instant,
    group: ProcessGroup,
    log: Log,
}

impl Program {
    /// Prepares the files and the port of a run.
    pub(crate) fn new(
        arguments: &[String],
        variables: &BTreeMap<String, String>,
        directory: Option<&Path>,
        run: usize,
        zero: Instant,
    ) -> Result<Self> {
        let failed = |source| Error::Start { program: arguments.first().cloned().unwrap_or_default(), source };
        let Some(program) = arguments.first() else {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "no program is specified")));
        };
        // A failed start does not tell a missing directory from a missing program.
        if let Some(directory) = directory
            && let Err(source) = std::fs::read_dir(directory)
        {
            return Err(Error::Read { path: directory.to_owned(), source });
        }
        let mut arguments = arguments.to_vec();
        // The system looks for a relative path in the working directory of this process or of the new one.
        if program.contains('/') && !program.contains('{') {
            arguments[0] = std::path::absolute(program).map_err(failed)?.to_string_lossy().into_owned();
        }
        let uses_port = arguments.iter().chain(variables.values()).any(|text| text.contains(PORT));
        Ok(Self {
            variables: variables.clone(),
            directory: directory.map(Path::to_owned),
            run,
            zero,
            files: tempfile::Builder::new().prefix("windlass-explore-").tempdir().map_err(failed)?,
            port: uses_port.then(Port::choose).transpose().map_err(failed)?,
            arguments,
        })
    }

    /// Writes a file that only this user can read, and returns its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.files.path().join(name);
        match std::fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::Start { program: self.arguments[0].clone(), source }),
        }
    }

    /// Starts a process of the program.
    pub(crate) async fn start(&self, number: usize, kubeconfig: &str) -> Result<Process> {
        let kubeconfig = self.write(&format!("kubeconfig-{number}"), kubeconfig)?;
        let filled = |text: &String| self.filled(text, &kubeconfig);
        let mut command = Command::new(filled(&self.arguments[0]));
        command.args(self.arguments[1..].iter().map(filled));
        command.env("KUBECONFIG", &kubeconfig).env("WINDLASS_RUN", self.run.to_string());
        // In a pod, clients would prefer its service account.
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBERNETES_SERVICE_PORT");
        command.envs(self.variables.iter().map(|(name, value)| (name, filled(value))));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut group = ProcessGroup::start(&mut command)
            .await
            .map_err(|source| Error::Start { program: self.arguments[0].clone(), source })?;
        let (zero, started) = (self.zero, self.zero.elapsed());
        Ok(Process { number, started, zero, log: Log::read(&mut group, zero), group })
    }

    fn filled(&self, text: &str, kubeconfig: &Path) -> String {
        let text = text.replace(KUBECONFIG, &kubeconfig.to_string_lossy());
        match &self.port {
            Some(port) => text.replace(PORT, &port.number().to_string()),
            None => text,
        }
    }
}

impl Process {
    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Waits until the process has ended. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        self.group.ended().await
    }

    /// Suspends the process with its children, as if its machine had a pause.
    pub(crate) fn suspend(&self) {
        self.group.suspend();
    }

    /// Continues a suspended process.
    pub(crate) fn resume(&self) {
        self.group.resume();
    }

    /// Kills the process with its children.
    pub(crate) async fn kill(self) -> record::Process {
        self.end(|_| ProcessEnd::Killed).await
    }

    /// Returns the record of a process that has ended by itself. Kills its children.
    pub(crate) async fn collect(self) -> record::Process {
        let text = |status: io::Result<std::process::ExitStatus>| match status {
            Ok(status) => status.to_string(),
            Err(error) => format!("unknown exit status: {error}"),
        };
        self.end(|status| ProcessEnd::Exited(text(status))).await
    }

    /// Requests the process to end, and kills it with its children after the grace period.
    pub(crate) async fn stop(mut self, grace: Duration) -> record::Process {
        self.group.terminate();
        // A suspended process cannot end.
        self.group.resume();
        // After the grace period, it is killed like its children.
        let _ = timeout(grace, self.group.ended()).await;
        self.end(|_| ProcessEnd::Stopped).await
    }

    async fn end(self, end: impl FnOnce(io::Result<std::process::ExitStatus>) -> ProcessEnd) -> record::Process {
        let Self { number, started, zero, group, log } = self;
        let end = end(group.kill().await);
        let ended = zero.elapsed();
        let log::Lines { lines, dropped, panics } = log.finish().await;
        let log = lines.into();
        record::Process { number, started, ended: Some((ended, end)), log, dropped_lines: dropped, panics }
    }
}

#[cfg(all(test, unix))]
mod tests;
