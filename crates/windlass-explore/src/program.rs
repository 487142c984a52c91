//! The processes of the program: start, log and end.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    process::Command,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    cluster::{Access, PodName},
    error::{Error, Result},
    isolation::Isolation,
    record::{self, ProcessEnd},
};

#[cfg(target_os = "linux")]
mod forward;
mod group;
mod log;
mod panics;
mod ports;
mod running;
#[cfg(target_os = "linux")]
mod surroundings;

#[cfg(target_os = "linux")]
use self::forward::Forward;
pub(crate) use self::{group::ProcessGroup, log::Log};
use self::{ports::Port, running::Running};

/// The placeholders in arguments and variables.
const KUBECONFIG: &str = "{kubeconfig}";
const PORT: &str = "{port}";

/// The variables with the address of the server in a pod.
const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
const SERVICE_PORT: &str = "KUBERNETES_SERVICE_PORT";

/// The options of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramOptions<'r> {
    /// The program and its arguments.
    pub(crate) arguments: &'r [String],
    /// Variables in addition to those of this process.
    pub(crate) variables: &'r BTreeMap<String, String>,
    pub(crate) directory: Option<&'r Path>,
    pub(crate) isolation: Option<&'r Isolation>,
    /// The pod of the program in the cluster. Only with isolation.
    pub(crate) pod: Option<&'r PodName>,
    /// The number of the run.
    pub(crate) run: usize,
}

/// The program of a run. Each of its processes has a kubeconfig of its own.
#[derive(Debug)]
pub(crate) struct Program {
    /// The program and its arguments. Not empty.
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    directory: Option<PathBuf>,
    isolation: Option<Isolation>,
    pod: Option<PodName>,
    /// The number of the run.
    run: usize,
    /// The time from which all times count.
    zero: Instant,
    /// Contains the kubeconfigs. Other users cannot read it.
    files: TempDir,
    /// The port for the placeholder, if it is used.
    port: Option<Port>,
    /// Forwards the port to an isolated process.
    #[cfg(target_os = "linux")]
    forward: Option<Forward>,
}

/// A process of the program. Dropping it kills the process with its children.
#[derive(Debug)]
pub(crate) struct Process {
    number: usize,
    started: Duration,
    zero: Instant,
    running: Running,
    log: Log,
    /// The gateway in the network namespace of the process.
    serving: JoinSet<usize>,
}

impl Program {
    /// Prepares the files and the port of a run. All times count from `zero`.
    pub(crate) fn new(options: ProgramOptions<'_>, zero: Instant) -> Result<Self> {
        let ProgramOptions { arguments, variables, directory, isolation, pod, run } = options;
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
        let port = uses_port.then(Port::choose).transpose().map_err(failed)?;
        Ok(Self {
            variables: variables.clone(),
            directory: directory.map(Path::to_owned),
            isolation: isolation.cloned(),
            pod: pod.cloned(),
            run,
            zero,
            files: tempfile::Builder::new().prefix("windlass-explore-").tempdir().map_err(failed)?,
            #[cfg(target_os = "linux")]
            forward: match &port {
                Some(port) if isolation.is_some() => Some(Forward::start(port.number()).map_err(failed)?),
                _ => None,
            },
            port,
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
    pub(crate) async fn start(&self, number: usize, access: &Access) -> Result<Process> {
        let kubeconfig = self.write(&format!("kubeconfig-{number}"), &access.kubeconfig)?;
        let filled = |text: &String| self.filled(text, &kubeconfig);
        let mut command = Command::new(filled(&self.arguments[0]));
        command.args(self.arguments[1..].iter().map(filled));
        command.env("WINDLASS_RUN", self.run.to_string());
        if let Some(PodName { namespace, name }) = &self.pod {
            // Clients would prefer a kubeconfig.
            command.env_remove("KUBECONFIG");
            command.env(SERVICE_HOST, "127.0.0.1").env(SERVICE_PORT, access.port.to_string());
            command.env("POD_NAMESPACE", namespace).env("POD_NAME", name).env("HOSTNAME", name);
        } else {
            command.env("KUBECONFIG", &kubeconfig);
            // In a pod, clients would prefer its service account.
            command.env_remove(SERVICE_HOST).env_remove(SERVICE_PORT);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, filled(value))));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let running = self.execute(&mut command, number, access).await;
        let mut running = running.map_err(|source| Error::Start { program: self.arguments[0].clone(), source })?;
        let (zero, started) = (self.zero, self.zero.elapsed());
        let log = Log::read(running.take_output(), zero);
        Ok(Process { number, started, zero, running, log, serving: JoinSet::new() })
    }

    #[cfg(target_os = "linux")]
    async fn execute(&self, command: &mut Command, number: usize, access: &Access) -> io::Result<Running> {
        let Some(isolation) = &self.isolation else { return Running::start(command).await };
        let sandbox = self.sandbox(number, access, command.as_std())?;
        let running = Running::start_isolated(isolation, &sandbox, &*command).await?;
        if let Some(forward) = &self.forward {
            forward.forward_to(running.connector());
        }
        Ok(running)
    }

    #[cfg(not(target_os = "linux"))]
    async fn execute(&self, command: &mut Command, _: usize, _: &Access) -> io::Result<Running> {
        Running::start(command).await
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

    /// Takes the listener of the gateway in the network namespace of the process. Returns `None` if the process is not
    /// isolated.
    pub(crate) fn take_listener(&mut self) -> Option<TcpListener> {
        self.running.take_listener()
    }

    /// Runs the gateway of that listener until the process has ended.
    pub(crate) fn serve(&mut self, gateway: impl Future<Output = usize> + Send + 'static) {
        self.serving.spawn(gateway);
    }

    /// Waits until the process has ended. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> io::Result<()> {
        self.running.ended().await
    }

    /// Suspends the process with its children, as if its machine had a pause.
    pub(crate) fn suspend(&self) {
        self.running.suspend();
    }

    /// Continues a suspended process.
    pub(crate) fn resume(&self) {
        self.running.resume();
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
        self.running.terminate();
        // A suspended process cannot end.
        self.running.resume();
        // After the grace period, it is killed like its children.
        let _ = timeout(grace, self.running.ended()).await;
        self.end(|_| ProcessEnd::Stopped).await
    }

    async fn end(self, end: impl FnOnce(io::Result<std::process::ExitStatus>) -> ProcessEnd) -> record::Process {
        let Self { number, started, zero, running, log, serving } = self;
        let end = end(running.kill().await);
        drop(serving);
        let ended = zero.elapsed();
        let log::Lines { lines, dropped, panics } = log.finish().await;
        let log = lines.into();
        record::Process { number, started, ended: Some((ended, end)), log, dropped_lines: dropped, panics }
    }
}

#[cfg(all(test, unix))]
mod tests;
