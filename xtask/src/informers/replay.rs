//! The replay server in a separate process.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{Result, upstream::root};

/// A running `windlass-bench replay`. It is killed on drop.
pub(super) struct Replay {
    process: Child,
    /// The flag and value that connect a client to this server.
    pub(super) target: [String; 2],
}

impl Replay {
    pub(super) fn start<'a>(bench: &Path, flags: impl IntoIterator<Item = &'a OsStr>) -> Result<Self> {
        let mut process = Command::new(bench)
            .arg("replay")
            .args(flags)
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting {}: {error}", bench.display()))?;
        let output = process.stdout.take().ok_or("the replay has no output")?;
        let mut replay = Self { process, target: [String::new(), String::new()] };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let line: Value = serde_json::from_str(&line).map_err(|error| format!("replay printed {line:?}: {error}"))?;
        let told = ["kubeconfig", "server"].into_iter().find_map(|name| Some((name, line[name].as_str()?)));
        let (name, value) = told.ok_or("the replay did not print its address")?;
        replay.target = [format!("--{name}"), value.to_owned()];
        Ok(replay)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
