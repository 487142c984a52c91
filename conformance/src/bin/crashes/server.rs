//! The server to kill.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};

use crate::Result;

/// A running `windlass up`. It always has the same port.
pub(crate) struct Server {
    windlass: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    pub(crate) fn start(windlass: &str, folder: &Path, history: &str) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (windlass, folder) = (fs::canonicalize(windlass)?, folder.to_owned());
        let child = spawn(&windlass, &folder, port, history)?;
        Ok(Self { windlass, folder, port, child })
    }

    /// Ends the process without a chance to write anything more.
    pub(crate) fn kill(&mut self) -> Result {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts the killed server with a history of this length, and returns the time until it was ready.
    pub(crate) fn start_again(&mut self, history: &str) -> Result<Duration> {
        let begun = Instant::now();
        self.child = spawn(&self.windlass, &self.folder, self.port, history)?;
        Ok(begun.elapsed())
    }

    /// Returns a client that stays valid after each start.
    pub(crate) fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read(self.folder.join("kubeconfig"))?;
        Ok(Client::new(Config::from_kubeconfig(&kubeconfig, &Selection::default())?)?.without_rate_limit())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.kill();
    }
}

/// Starts the process and waits until it is ready.
fn spawn(windlass: &Path, folder: &Path, port: u16, history: &str) -> Result<Child> {
    let mut command = Command::new(windlass);
    command.args(["up", "--nodes", "0", "--controllers", "none", "--bind"]).arg(format!("127.0.0.1:{port}"));
    command
        .args(["--history", history, "--data-dir"])
        .arg(folder.join("data"))
        .arg("--kubeconfig")
        .arg(folder.join("kubeconfig"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the output is not piped")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    if lines.any(|line| line == "ready") { Ok(child) } else { Err("windlass up ended before it was ready".into()) }
}
