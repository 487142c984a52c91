//! The server that replays, as a process.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{Result, upstream::root};

/// `windlass-bench replay`; stopped when dropped.
pub(super) struct Replay {
    process: Child,
    /// The flag, and its value, that leads a client here.
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
        let line: Value = serde_json::from_str(&line).map_err(|error| format!("the replay said {line:?}: {error}"))?;
        let told = ["kubeconfig", "server"].into_iter().find_map(|name| Some((name, line[name].as_str()?)));
        let (name, value) = told.ok_or("the replay did not say where it is")?;
        replay.target = [format!("--{name}"), value.to_owned()];
        Ok(replay)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
