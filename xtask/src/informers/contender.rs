//! The measured informers: a program and its flags for each.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Replay, part::Part};
use crate::{
    Result,
    bench_programs::{self, Figures},
    table::TableEntry,
};

/// A measured informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// With the defaults.
    Windlass,
    /// Protobuf, for built-in types only.
    Protobuf,
    /// With a memory budget of 0.
    Compressed,
    /// Protobuf, with a memory budget of 0.
    CompressedProtobuf,
    ClientGo,
    /// Protobuf, for built-in types only.
    ClientGoProtobuf,
    KubeRs,
}

/// The paths of the programs.
pub(super) struct Programs {
    windlass: PathBuf,
    client_go: PathBuf,
    /// `None` if no part needs it.
    kube_rs: Option<PathBuf>,
}

// === impl Contender ===

impl TableEntry for Contender {
    fn name(&self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Protobuf => "windlass, protobuf",
            Self::Compressed => "windlass, all compressed",
            Self::CompressedProtobuf => "windlass, protobuf, all compressed",
            Self::ClientGo => "client-go, JSON",
            Self::ClientGoProtobuf => "client-go, protobuf",
            Self::KubeRs => "kube-rs",
        }
    }
}

impl Contender {
    pub(super) fn uses_protobuf(self) -> bool {
        matches!(self, Self::Protobuf | Self::CompressedProtobuf | Self::ClientGoProtobuf)
    }

    /// Runs once with a new server.
    pub(super) fn measure(self, part: &Part, programs: &Programs) -> Result<Figures> {
        let updates = part.updates.to_string();
        let updates = ["--updates", &updates];
        let mut served: Vec<&OsStr> = part.replay.iter().chain(&updates).map(OsStr::new).collect();
        if self.uses_protobuf() {
            served.extend([OsStr::new("--protobuf"), programs.client_go.as_os_str()]);
        }
        let replay = Replay::start(&programs.windlass, served)?;
        let mut command = self.command(part, programs);
        command.args(part.follow).args(updates).args(&replay.target);
        bench_programs::run(&mut command)
    }

    fn command(self, part: &Part, programs: &Programs) -> Command {
        let mut command = self.program(programs);
        if matches!(self, Self::Windlass | Self::Protobuf | Self::Compressed | Self::CompressedProtobuf) {
            command.args(part.ours);
        }
        command
    }

    /// Returns the command without the flags of a part.
    pub(super) fn program(self, programs: &Programs) -> Command {
        let ours = |more: &[&str]| {
            let mut command = programs.bench();
            command.arg("informer").args(more);
            command
        };
        match self {
            Self::Windlass => ours(&[]),
            Self::Protobuf => ours(&["--encoding", "protobuf"]),
            Self::Compressed => ours(&["--budget", "0"]),
            Self::CompressedProtobuf => ours(&["--encoding", "protobuf", "--budget", "0"]),
            Self::ClientGo => Command::new(&programs.client_go),
            Self::ClientGoProtobuf => {
                let mut command = Command::new(&programs.client_go);
                command.args(["--accept", "application/vnd.kubernetes.protobuf"]);
                command
            }
            Self::KubeRs => Command::new(programs.kube_rs.as_deref().unwrap_or(Path::new("kube-rs-peer"))),
        }
    }
}

// === impl Programs ===

impl Programs {
    /// Returns the command of `windlass-bench`.
    pub(super) fn bench(&self) -> Command {
        Command::new(&self.windlass)
    }

    /// Builds the other programs that these contenders need; `windlass` is already built.
    pub(super) fn build(windlass: &Path, contenders: &[Contender]) -> Result<Self> {
        let kube_rs = contenders.contains(&Contender::KubeRs).then(|| bench_programs::kube_rs("kube-rs-peer"));
        Ok(Self {
            windlass: windlass.to_path_buf(),
            client_go: bench_programs::client_go(".", "bench-client-go")?,
            kube_rs: kube_rs.transpose()?,
        })
    }
}
