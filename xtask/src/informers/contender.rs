//! Those that follow: ours and the peers, each a program and its flags.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Figures, Replay, part::Part};
use crate::{Result, cargo::cargo, peers, upstream::root};

/// A follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// As it is by default.
    Windlass,
    /// Without a budget for bodies.
    Compressed,
    ClientGo,
    /// For what has protobuf: built-in types, that is.
    ClientGoProtobuf,
    KubeRs,
}

/// What is run.
pub(super) struct Programs {
    windlass: PathBuf,
    client_go: PathBuf,
    kube_rs: PathBuf,
}

/// A run that takes longer hangs.
const LONGEST: Duration = Duration::from_mins(5);

// === impl Contender ===

impl Contender {
    /// As the tables have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Compressed => "windlass, all compressed",
            Self::ClientGo => "client-go, JSON",
            Self::ClientGoProtobuf => "client-go, protobuf",
            Self::KubeRs => "kube-rs",
        }
    }

    /// One run against a server of its own.
    pub(super) fn measure(self, part: &Part, programs: &Programs) -> Result<Figures> {
        let updates = part.updates.to_string();
        let updates = ["--updates", &updates];
        let mut served: Vec<&OsStr> = part.replay.iter().chain(&updates).map(OsStr::new).collect();
        if self == Self::ClientGoProtobuf {
            served.extend([OsStr::new("--protobuf"), programs.client_go.as_os_str()]);
        }
        let replay = Replay::start(&programs.windlass, served)?;
        let mut command = self.command(part, programs);
        command.args(part.follow).args(updates).args(&replay.target);
        let output = finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)?;
        if !output.status.success() {
            return Err(format!("{} failed ({})", self.name(), output.status).into());
        }
        let mut figures = Figures::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let line: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let bench = line["bench"].as_str().unwrap_or_default();
            let numbers =
                line.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_f64()?)));
            figures.extend(numbers.map(|(name, value)| (format!("{bench}.{name}"), value)));
        }
        Ok(figures)
    }

    fn command(self, part: &Part, programs: &Programs) -> Command {
        let ours = |more: &[&str]| {
            let mut command = Command::new(&programs.windlass);
            command.arg("informer").args(more).args(part.ours);
            command
        };
        match self {
            Self::Windlass => ours(&[]),
            Self::Compressed => ours(&["--budget", "0"]),
            Self::ClientGo => Command::new(&programs.client_go),
            Self::ClientGoProtobuf => {
                let mut command = Command::new(&programs.client_go);
                command.args(["--accept", "application/vnd.kubernetes.protobuf"]);
                command
            }
            Self::KubeRs => Command::new(&programs.kube_rs),
        }
    }
}

/// Waits for the end, but not for ever. What is written is little, and fits into the pipe.
fn finish(mut process: Child) -> Result<Output> {
    let started = Instant::now();
    while process.try_wait()?.is_none() {
        if started.elapsed() > LONGEST {
            process.kill()?;
            process.wait()?;
            return Err(format!("did not end within {} s", LONGEST.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(process.wait_with_output()?)
}

// === impl Programs ===

impl Programs {
    /// Builds the peers; `windlass` is built.
    pub(super) fn build(windlass: &Path) -> Result<Self> {
        Ok(Self {
            windlass: windlass.to_path_buf(),
            client_go: peers::client_go(".", "bench-client-go")?,
            kube_rs: kube_rs()?,
        })
    }
}

fn kube_rs() -> Result<PathBuf> {
    let target = root().join("target/bench-kube-rs");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--manifest-path"]).arg(root().join("bench/kube-rs/Cargo.toml"));
    let status = build.arg("--target-dir").arg(&target).status()?;
    if !status.success() {
        return Err(format!("bench/kube-rs does not build ({status})").into());
    }
    Ok(target.join("release/kube-rs-peer"))
}
