//! Runs Kubernetes' own end-to-end tests, built from the pinned module, against `windlass up`: `cargo xtask long e2e`.
//!
//! Three groups run: the conformance tests of the SIGs whose tests need the control plane only, those of other SIGs that
//! exercise the API, and the tests outside of conformance that pass with the real control plane and simulated nodes. The
//! tests that are expected to fail are listed in `conformance/E2E.md`, each with its reason. A test that fails and is not
//! listed is an error, and so is one that is listed and passes. `--record` plays the third group with the real control
//! plane, and writes its outcomes.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::Args;

use crate::{
    Result,
    embedded::Embedded,
    kubectl,
    upstream::{Profile, Upstream, build, build_e2e, root},
};

mod list;
mod program;

use list::{LIST, List};
use program::{Outcome, Outcomes, Play};

const GROUPS: &[Group] = &[
    Group {
        name: "control plane",
        focus: r"\[sig-(api-machinery|auth|cli|architecture|apps|scheduling)\].*\[Conformance\]",
    },
    Group { name: "API of nodes, networks and volumes", focus: API_ONLY },
];

/// The conformance tests of other SIGs that need no running container and no traffic between containers.
const API_ONLY: &str = concat!(
    r"(\[sig-instrumentation\] Events",
    r"|\[sig-network\] (API Server|EndpointSlice|Endpoints|EndpointsController|Ingress API|IngressClass API|ServiceCIDR)",
    r"|\[sig-network\] Services should (be able to change the type|complete|delete|find)",
    r"|\[sig-node\] (Ephemeral Containers .* should update|InitContainer|Lease|Node Lifecycle|NoExecuteTaintManager|PodTemplates)",
    r"|\[sig-node\] (Pods Extended|RuntimeClass|\[DRA\] CRUD|Sysctls .* should reject)",
    r"|\[sig-node\] ConfigMap should (fail|run|update)|\[sig-node\] Secrets should (fail|patch)",
    r"|\[sig-node\] Ephemeral Containers .* will start",
    r"|\[sig-node\] Pods should (allow|be|delete|get|patch|run)",
    r"|\[sig-node\] Kubelet when scheduling a busybox command that always fails",
    r"|\[sig-storage\] (CSI|PersistentVolumes|StorageClasses|VolumeAttachment|VolumeAttributesClass)",
    r"|\[sig-storage\] (ConfigMap|Secrets) should be immutable)",
    r".*\[Conformance\]",
);

/// The tests of the third group.
const OUTSIDE_OF_CONFORMANCE: &str = r"\[sig-(api-machinery|auth|cli)\]";

/// The tests of these SIGs that are in the first group, that need a running container or a kubelet's port, that restart
/// the control plane, or that need a feature that is off by default.
const NOT_IN_THIRD_GROUP: &str = concat!(
    r"(\[Conformance\]|\[Disruptive\]|OffByDefault|NodeAuthenticator|InClusterConfig|BoundServiceAccountTokenVolume",
    r"|Simple pod|Port forwarding|Kubectl exec|Kubectl copy|Kubectl logs|kubectl debug",
    r"|sample-apiserver|Aggregated APIServer|set ownership and permission)",
);

/// The plugin that the real control plane of the third group has, as most clusters.
const LIKE_UPSTREAM: &str = "--enable-admission-plugins=NodeRestriction";

/// The options of `cargo xtask long e2e`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The windlass to run
    pub(crate) windlass: PathBuf,
    /// Play the tests outside of conformance with the real control plane instead, and write the outcomes
    #[arg(long)]
    pub(crate) record: bool,
    /// Only the tests whose name contains this, or one of several that `|` separates
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// How many control planes run tests side by side
    #[arg(long, default_value = "4")]
    pub(crate) shards: NonZeroUsize,
    /// Where the reports of ginkgo and the output of the tests are kept
    #[arg(long, default_value = "target/e2e")]
    pub(crate) reports: PathBuf,
}

/// A selection of conformance tests.
struct Group {
    name: &'static str,
    /// The regular expression that a name has to match.
    focus: &'static str,
}

/// A part of the tests, with its own control plane.
struct Shard {
    play: Play,
    _embedded: Embedded,
}

/// Runs all groups, and compares the failures with the list.
pub(crate) fn run(options: &Options) -> Result {
    // The tests of sig-cli use its kubectl.
    build()?;
    let program = build_e2e()?;
    let reports = root().join(&options.reports);
    fs::create_dir_all(&reports)?;
    let mut list = List::read()?;
    if options.record {
        let outcomes = play_with_upstream(&program, options, &reports)?;
        list.record(outcomes.iter());
        return list.write();
    }
    let mut unexpected = Vec::new();
    let mut groups = Vec::new();
    for group in GROUPS {
        groups.push((group.name, program::names(&program, group.focus, "", &reports)?));
    }
    groups.push(("outside of conformance", list.other()));
    for (group, names) in groups {
        let names = selected(names, &options.only);
        if names.is_empty() {
            continue;
        }
        println!("=== {group}: {} tests", names.len());
        let outcomes = play(&program, &names, options, &reports)?;
        unexpected.extend(judge(group, &names, &outcomes, &list));
    }
    if unexpected.is_empty() {
        return Ok(());
    }
    Err(format!("{} end-to-end tests do not end as listed in {LIST}:\n{}", unexpected.len(), unexpected.join("\n"))
        .into())
}

/// Selects the names that contain one of the parts.
fn selected(names: Vec<String>, only: &str) -> Vec<String> {
    names.into_iter().filter(|name| only.split('|').any(|part| name.contains(part))).collect()
}

/// Prints the counts and returns the outcomes that differ from the list.
fn judge(group: &str, names: &[String], outcomes: &Outcomes, list: &List) -> Vec<String> {
    let mut unexpected = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for name in names {
        let is_listed = list.is_failing(name);
        match outcomes.get(name) {
            Some(Outcome::Passed) => {
                passed += 1;
                if is_listed {
                    unexpected.push(format!("passes, but is listed: {name}"));
                }
            }
            Some(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("skipped: {name}\n         {reason}");
            }
            Some(Outcome::Failed(reason)) => {
                failed += 1;
                println!("failed{}: {name}\n         {reason}", if is_listed { ", as listed" } else { "" });
                if !is_listed {
                    unexpected.push(format!("failed: {name}"));
                }
            }
            None => {
                failed += 1;
                unexpected.push(format!("did not run: {name}"));
            }
        }
    }
    println!("=== {group}: {passed} of {} passed, {failed} failed, {skipped} skipped by themselves", names.len());
    unexpected
}

/// Runs the tests, spread over control planes that run side by side.
fn play(program: &Path, names: &[String], options: &Options, reports: &Path) -> Result<Outcomes> {
    let shards = (0..options.shards.get().min(names.len()))
        .map(|index| {
            let part: Vec<&str> = names.iter().skip(index).step_by(options.shards.get()).map(String::as_str).collect();
            Shard::start(program, &options.windlass, &part, reports, index)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut outcomes = Outcomes::new();
    for shard in shards {
        outcomes.extend(shard.play.finish()?);
    }
    Ok(outcomes)
}

/// Runs the tests of the third group with the real control plane and simulated nodes.
fn play_with_upstream(program: &Path, options: &Options, reports: &Path) -> Result<Outcomes> {
    let names = program::names(program, OUTSIDE_OF_CONFORMANCE, NOT_IN_THIRD_GROUP, reports)?;
    let names = selected(names, &options.only);
    let upstream = Upstream::start(Profile::Identity)?;
    let _nodes = kubectl::simulate_nodes(&kubectl::build_nodes()?, &upstream.kubeconfig())?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Play::start(program, &upstream.kubeconfig(), &names, reports, "upstream")?.finish()
}

// === impl Shard ===

impl Shard {
    fn start(program: &Path, windlass: &Path, names: &[&str], reports: &Path, index: usize) -> Result<Self> {
        let embedded = Embedded::start(windlass, &[LIKE_UPSTREAM])?;
        let play = Play::start(program, &embedded.kubeconfig(), names, reports, &format!("shard-{index}"))?;
        Ok(Self { play, _embedded: embedded })
    }
}
