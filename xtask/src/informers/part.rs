//! The parts of the benchmark: the replayed objects, the measured informers, and the reported figures.

use super::{columns, contender::Contender};
use crate::table::Column;

/// A part of the benchmark, with its table.
#[derive(Debug)]
pub(super) struct Part {
    /// The name for `--only`.
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    /// The flags of `windlass-bench replay`.
    pub(super) replay: &'static [&'static str],
    /// The flags that all informers support.
    pub(super) follow: &'static [&'static str],
    /// The flags that only windlass supports.
    pub(super) ours: &'static [&'static str],
    pub(super) updates: u64,
    pub(super) contenders: &'static [Contender],
    pub(super) columns: &'static [Column],
    /// The maximum number of rounds.
    pub(super) rounds: usize,
}

/// All informers of built-in types.
const ALL: &[Contender] = &[
    Contender::Windlass,
    Contender::Protobuf,
    Contender::Compressed,
    Contender::CompressedProtobuf,
    Contender::ClientGo,
    Contender::ClientGoProtobuf,
    Contender::KubeRs,
];
/// Custom resources have no protobuf encoding.
const OF_CUSTOM: &[Contender] = &[Contender::Windlass, Contender::Compressed, Contender::ClientGo, Contender::KubeRs];
/// client-go's heap does not depend on the encoding.
const EXCEPT_JSON: &[Contender] =
    &[Contender::Windlass, Contender::Protobuf, Contender::Compressed, Contender::ClientGoProtobuf, Contender::KubeRs];
const OURS: &[Contender] = &[Contender::Windlass, Contender::Compressed];

/// The base of most parts: uniform pods, in a burst.
const PODS: Part = Part {
    name: "uniform",
    heading: "Uniform pods",
    replay: &["--workload", "uniform"],
    follow: &[],
    ours: &[],
    updates: 50_000,
    contenders: ALL,
    columns: columns::ALL,
    rounds: usize::MAX,
};

pub(super) const PARTS: &[Part] = &[
    PODS,
    Part { name: "varied", heading: "Varied pods", replay: &["--workload", "varied"], ..PODS },
    Part {
        name: "churn",
        heading: "Uniform pods, each changed five times",
        replay: &["--workload", "uniform", "--over", "10000"],
        contenders: EXCEPT_JSON,
        columns: columns::UPDATES,
        ..PODS
    },
    Part {
        name: "decode",
        heading: "Uniform pods, every event decoded",
        ours: &["--handler", "decode"],
        updates: 20_000,
        columns: columns::UPDATES,
        ..PODS
    },
    Part {
        name: "view",
        heading: "Uniform pods, five fields of every event read",
        ours: &["--handler", "view"],
        updates: 20_000,
        columns: columns::UPDATES,
        ..PODS
    },
    Part {
        name: "trickle",
        heading: "Uniform pods, 1,000 events a second",
        replay: &["--workload", "uniform", "--rate", "1000"],
        updates: 8_000,
        columns: columns::UPDATES,
        ..PODS
    },
    Part {
        name: "tls",
        heading: "Uniform pods over TLS",
        replay: &["--workload", "uniform", "--tls", "target/bench-tls"],
        updates: 20_000,
        ..PODS
    },
    Part {
        name: "custom",
        heading: "Custom resources",
        replay: &["--workload", "custom"],
        follow: &["--resource", "widgets"],
        contenders: OF_CUSTOM,
        ..PODS
    },
    Part {
        name: "secrets",
        heading: "Secrets",
        replay: &["--workload", "secrets"],
        follow: &["--resource", "secrets"],
        updates: 20_000,
        ..PODS
    },
    Part {
        name: "config-maps",
        heading: "ConfigMaps",
        replay: &["--workload", "config-maps"],
        follow: &["--resource", "configmaps"],
        updates: 20_000,
        ..PODS
    },
    Part {
        name: "reads",
        heading: "Reads of 10,000 uniform pods",
        ours: &["--reads", "throughout"],
        contenders: OURS,
        columns: columns::READS,
        ..PODS
    },
    Part {
        name: "million",
        heading: "1,000,000 uniform pods, indexed by node, 130,000 events a second offered",
        replay: &[
            "--workload",
            "uniform",
            "--objects",
            "1000000",
            "--over",
            "1000000",
            "--rate",
            "130000",
            "--per-write",
            "100",
        ],
        ours: &["--reads", "after"],
        updates: 2_000_000,
        contenders: &[Contender::Compressed],
        columns: columns::MILLION,
        rounds: 1,
        ..PODS
    },
];
