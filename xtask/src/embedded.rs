//! `windlass up`, as a process of its own: what its users run.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::Result;

const KUBECONFIG: &str = "kubeconfig";

/// A running `windlass up`; stopped, and its data removed, when dropped.
#[derive(Debug)]
pub(crate) struct Embedded {
    process: Child,
    directory: PathBuf,
    /// Where its console is, if it was asked for one.
    console: Option<String>,
}

impl Embedded {
    /// Starts the control plane on a free loopback port and waits until it says that it is ready.
    pub(crate) fn start(windlass: &Path, flags: &[&str]) -> Result<Self> {
        let mut embedded = Self::spawn(windlass, flags)?;
        embedded.wait(flags)?;
        Ok(embedded)
    }

    /// The same, without waiting.
    pub(crate) fn spawn(windlass: &Path, flags: &[&str]) -> Result<Self> {
        let directory = directory(STARTED.fetch_add(1, Ordering::Relaxed));
        fs::create_dir_all(&directory)?;
        let process = Command::new(windlass)
            .args(["up", "--bind", "127.0.0.1:0", "--kubeconfig"])
            .arg(directory.join(KUBECONFIG))
            .args(flags)
            .env("WINDLASS_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting {}: {error}", windlass.display()))?;
        Ok(Self { process, directory, console: None })
    }

    fn wait(&mut self, flags: &[&str]) -> Result {
        let output = self.process.stdout.take().ok_or("windlass up has no output")?;
        let last = if flags.contains(&"--console") { "CONSOLE=" } else { "ready" };
        // The pipe closes when the process ends: the wait is over either way.
        for line in BufReader::new(output).lines() {
            let line = line?;
            self.console = line.strip_prefix("CONSOLE=").map(str::to_owned);
            if line.starts_with(last) {
                return Ok(());
            }
        }
        Err("windlass up ended before it was ready".into())
    }

    /// Where [`Self::kubeconfig`] of the next one will be.
    pub(crate) fn kubeconfig_to_be() -> PathBuf {
        directory(STARTED.load(Ordering::Relaxed)).join(KUBECONFIG)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join(KUBECONFIG)
    }

    /// The id of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Where its console is.
    pub(crate) fn console(&self) -> Option<&str> {
        self.console.as_deref()
    }
}

/// The number of control planes that this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// The directory of the control plane that is started as this number.
fn directory(number: u32) -> PathBuf {
    env::temp_dir().join(format!("windlass-up-{}-{number}", std::process::id()))
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
