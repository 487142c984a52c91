//! `windlass up`, as a process of its own: what its users run.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::Result;

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
        let directory = env::temp_dir().join(format!("windlass-up-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let process = Command::new(windlass)
            .args(["up", "--bind", "127.0.0.1:0", "--kubeconfig"])
            .arg(directory.join("kubeconfig"))
            .args(flags)
            .env("WINDLASS_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting {}: {error}", windlass.display()))?;
        let mut embedded = Self { process, directory, console: None };
        let output = embedded.process.stdout.take().ok_or("windlass up has no output")?;
        let last = if flags.contains(&"--console") { "CONSOLE=" } else { "ready" };
        // The pipe closes when the process ends: the wait is over either way.
        for line in BufReader::new(output).lines() {
            let line = line?;
            embedded.console = line.strip_prefix("CONSOLE=").map(str::to_owned);
            if line.starts_with(last) {
                return Ok(embedded);
            }
        }
        Err(format!("{} up ended before it was ready", windlass.display()).into())
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

impl Embedded {
    /// Where its console is.
    pub(crate) fn console(&self) -> Option<&str> {
        self.console.as_deref()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
