//! `windlass up` in a separate process.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::Result;

const KUBECONFIG: &str = "kubeconfig";

/// A running `windlass up`. It is stopped, and its data is removed, on drop.
#[derive(Debug)]
pub(crate) struct Embedded {
    process: Child,
    directory: PathBuf,
    /// The address of its console, if enabled.
    console: Option<String>,
}

impl Embedded {
    /// Starts the control plane on a free loopback port and waits until it is ready.
    pub(crate) fn start(windlass: &Path, flags: &[&str]) -> Result<Self> {
        let mut embedded = Self::spawn(windlass, flags)?;
        embedded.wait(flags)?;
        Ok(embedded)
    }

    /// Starts the control plane without waiting.
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
        // The pipe closes when the process exits, so the wait always ends.
        for line in BufReader::new(output).lines() {
            let line = line?;
            self.console = line.strip_prefix("CONSOLE=").map(str::to_owned);
            if line.starts_with(last) {
                return Ok(());
            }
        }
        Err("windlass up ended before it was ready".into())
    }

    /// Returns the future path of [`Self::kubeconfig`] of the next control plane.
    pub(crate) fn kubeconfig_to_be() -> PathBuf {
        directory(STARTED.load(Ordering::Relaxed)).join(KUBECONFIG)
    }

    /// Returns a data directory for the next control plane, which is removed with it.
    pub(crate) fn data_to_be() -> PathBuf {
        directory(STARTED.load(Ordering::Relaxed)).join("data")
    }

    /// Returns the path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join(KUBECONFIG)
    }

    /// Returns the process ID.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address of its console.
    pub(crate) fn console(&self) -> Option<&str> {
        self.console.as_deref()
    }
}

/// The number of control planes that this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Returns the directory of the control plane with this number.
fn directory(number: u32) -> PathBuf {
    env::temp_dir().join(format!("windlass-up-{}-{number}", std::process::id()))
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
