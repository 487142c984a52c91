//! The rounds.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use windlass_api::Entropy;

use crate::{
    NAMESPACE, Result, Settings,
    cluster::{Cluster, PROBE},
    compaction,
    counter::{self, COUNTER, Increments},
    effects,
    fault::Fault,
    follower::{Counts, Follower},
    history::History,
    network::Host,
    operation::{Operation, Outcome, Request},
    report::{Report, Row},
    watching::{Received, Watching},
    workload::Workload,
};

/// The time before a fault and after it, in which the clients work.
const BEFORE: Duration = Duration::from_millis(500);
const AFTER: Duration = Duration::from_millis(500);

/// The time in which all watches, and the history of etcd, reach the end of a round.
const PATIENCE: Duration = Duration::from_mins(1);

/// The time without events after which a client restarts a watch: that of the watches that continue whatever happens,
/// and that of the others.
const PATIENT: Duration = Duration::from_secs(45);
const IMPATIENT: Duration = Duration::from_secs(1);

/// A run, with the state that lasts from round to round.
pub(crate) struct Run<'s> {
    settings: &'s Settings,
    random: Entropy,
    cluster: Cluster,
    history: History,
    watches: Vec<(Watching, Follower)>,
    increments: Increments,
    report: Report,
    /// The data, the logs and the histories.
    folder: PathBuf,
}

impl<'s> Run<'s> {
    /// Runs all rounds, and prints their results. Returns an error if there is a violation. Then all files remain.
    pub(crate) async fn all_rounds(settings: &'s Settings) -> Result {
        let folder = TempDir::with_prefix("windlass-faults-")?;
        let result = Self::rounds_in(settings, folder.path()).await;
        if result.is_err() {
            let folder = folder.keep();
            eprintln!("the histories and logs are in {}", folder.display());
        }
        result
    }

    async fn rounds_in(settings: &'s Settings, folder: &Path) -> Result {
        let began = Instant::now();
        let mut run = Self::start(settings, folder).await?;
        let total = settings.rounds * settings.faults.len();
        for cycle in 0..settings.rounds {
            for (place, fault) in shuffled(&settings.faults, &run.random)?.into_iter().enumerate() {
                let round = cycle * settings.faults.len() + place + 1;
                run.round(round, total, fault).await.map_err(|error| format!("round {round}: {error}"))?;
            }
        }
        let counted = run.history.read(|history| effects::check_counter(run.increments, history));
        println!("{}", run.report);
        let Increments { acknowledged, unknown, .. } = run.increments;
        let count = counted?;
        run.history.read(effects::check_once)?;
        let (seed, seconds) = (settings.seed, began.elapsed().as_secs());
        println!("the counter is {count}: {acknowledged} increments were acknowledged, {unknown} are unknown");
        println!("{total} rounds with seed {seed} in {seconds} s");
        match run.report.violations() {
            0 => Ok(()),
            violations => Err(format!("{violations} violations").into()),
        }
    }

    /// Starts the cluster, and the watches before anything is written.
    async fn start(settings: &'s Settings, folder: &Path) -> Result<Self> {
        let (etcd, windlass) = (fs::canonicalize(&settings.etcd)?, fs::canonicalize(&settings.windlass)?);
        let cluster = Cluster::start(&etcd, &windlass, folder).await?;
        let client = cluster.endpoints()[0].client()?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        client.create(&namespace).await?;
        let list = client.list::<ConfigMap>().within(NAMESPACE).await?;
        let start = list.metadata.resource_version.to_string().parse()?;
        let mut watches = Vec::new();
        for (index, endpoint) in cluster.endpoints().iter().enumerate() {
            for (kind, patience) in [("patient", PATIENT), ("impatient", IMPATIENT)] {
                let name = format!("the {kind} watch on {}", Host::Server(index));
                let watch = Watching::start(name, endpoint.clone(), patience, start);
                watches.push((watch, Follower::new(start)));
            }
        }
        for (name, value) in [(PROBE, "probe".to_owned()), (COUNTER, counter::value(0, "start"))] {
            let created = Request::Create(value).send(&client, name).await;
            if !matches!(created, Outcome::Found(_)) {
                return Err(format!("{name} cannot be created: {created:?}").into());
            }
        }
        Ok(Self {
            settings,
            random: Entropy::seeded(settings.seed),
            cluster,
            history: History::start(),
            watches,
            increments: Increments::default(),
            report: Report::default(),
            folder: folder.to_owned(),
        })
    }

    async fn round(&mut self, round: usize, total: usize, fault: Fault) -> Result {
        let began = Instant::now();
        let random = Entropy::seeded(self.random.next_u64());
        let endpoints = self.cluster.endpoints().to_vec();
        let start = self.history.reached();
        let workload = Workload::start(round, &endpoints, &random);
        sleep(BEFORE).await;
        let (what, mut violations) = if fault == Fault::Compaction {
            let watches: Vec<_> = self.watches.iter().map(|(watch, _)| watch).collect();
            compaction::run(&endpoints, &self.history, &watches, &random).await?
        } else {
            (fault.run(&mut self.cluster, &random).await?, Vec::new())
        };
        let recovery = self.cluster.until_available().await?;
        sleep(AFTER).await;
        let executed = workload.finish(&endpoints).await?;
        self.increments += executed.increments;
        let (watched, seen) = self.settle(&executed.registers).await?;
        violations.extend(seen);
        violations.extend(self.history.read(|history| effects::check(&executed.operations, start, history)));
        violations.extend(self.linearizable(round, &executed.operations)?);
        let row = Row::of(&executed, watched, violations.len());
        let (fault_name, gap) = (fault.name(), executed.longest_gap.as_millis());
        let (operations, events) = (executed.operations.len(), watched.events);
        println!(
            "{round}/{total} {fault_name}: {what}; {operations} operations, {events} watch events, {gap} ms without an \
             answer, all servers after {} ms, round {:.1} s",
            recovery.as_millis(),
            began.elapsed().as_secs_f64()
        );
        for violation in &violations {
            println!("  VIOLATION: {violation}");
        }
        self.report.add(fault, row);
        Ok(())
    }

    /// Deletes the registers of a round, waits until all watches have seen it, and checks what they have received.
    async fn settle(&mut self, registers: &[String]) -> Result<(Counts, Vec<String>)> {
        let client = self.cluster.endpoints()[0].client()?;
        for register in registers {
            if let Outcome::Found(object) = Request::Read.send(&client, register).await {
                let deleted = Request::Delete(object).send(&client, register).await;
                if !matches!(deleted, Outcome::Deleted) {
                    return Err(format!("{register} cannot be deleted: {deleted:?}").into());
                }
            }
        }
        let marker = Request::Overwrite("end-of-round".into()).send(&client, PROBE).await;
        let Outcome::Found(marker) = marker else {
            return Err(format!("{PROBE} cannot be written after the round: {marker:?}").into());
        };
        let (mut counts, mut violations, mut batches) = (Counts::default(), Vec::new(), Vec::new());
        for (watch, _) in &self.watches {
            batches.push(watch.until(marker.version, PATIENCE).await?);
        }
        // Operations that are still executed can follow the marker.
        let last = batches.iter().flatten().filter_map(Received::revision).max();
        self.history.until(last.unwrap_or(marker.version).max(marker.version), PATIENCE).await?;
        for ((watch, follower), batch) in self.watches.iter_mut().zip(batches) {
            let checked =
                self.history.read(|history| batch.iter().try_for_each(|received| follower.accept(received, history)));
            if let Err(error) = checked {
                violations.push(format!("{}: {error}", watch.name));
                // The check of the next round starts from here.
                let reached = batch.iter().filter_map(Received::revision).max().unwrap_or(marker.version);
                let counts = follower.counts;
                *follower = self.history.read(|history| Follower::at(reached, history));
                follower.counts = counts;
            }
            counts += std::mem::take(&mut follower.counts);
        }
        Ok((counts, violations))
    }

    /// Writes the history of the clients to a file, and checks it.
    fn linearizable(&self, round: usize, operations: &[Operation]) -> Result<Option<String>> {
        let path = self.folder.join(format!("round{round}.jsonl"));
        let mut file = BufWriter::new(File::create(&path)?);
        for line in operations.iter().filter_map(Operation::line) {
            writeln!(file, "{line}")?;
        }
        file.flush()?;
        let checker = &self.settings.checker;
        let output = Command::new(checker).arg(&path).output().map_err(|error| format!("run {checker}: {error}"))?;
        let message = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok((!output.status.success()).then(message))
    }
}

/// Returns the faults in a random order.
fn shuffled(faults: &[Fault], random: &Entropy) -> Result<Vec<Fault>> {
    let mut rest = faults.to_vec();
    let mut order = Vec::new();
    while !rest.is_empty() {
        let next = usize::try_from(random.below(u64::try_from(rest.len())?))?;
        order.push(rest.swap_remove(next));
    }
    Ok(order)
}
