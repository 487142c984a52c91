//! One run: build, tell the cluster, start; and again when files change.

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::Command,
    time::{Instant, timeout},
};
use windlass_client::Client;
use windlass_scaffold::Place;

use super::{
    cargo::{self, Program},
    flags::Flags,
    manifests::{Applied, DEFINITIONS, Manifests},
    probe,
    process::{Process, Stopped},
    snapshot::Snapshot,
    watcher::Watcher,
};
use crate::commands::announce;

/// How long a manager that is to stop may take.
const GRACE: Duration = Duration::from_secs(10);
/// How long one that starts may take to be ready.
const START: Duration = Duration::from_mins(1);
/// So many changed files are named.
const NAMED: usize = 3;

/// What there is of a run.
pub(super) struct Session {
    place: Place,
    client: Client,
    kubeconfig: PathBuf,
    flags: Flags,
    watcher: Watcher,
    /// The files that the last round was made of.
    seen: Snapshot,
    applied: Applied,
    manager: Option<Manager>,
}

/// A manager that runs.
struct Manager {
    process: Process,
    program: Program,
}

/// What a round came to.
enum Done {
    /// Another manager runs now.
    Started,
    /// So many manifests were applied, and the manager is the one of before.
    Kept(usize),
    /// What was started has ended before it was ready.
    Ended,
}

impl Session {
    pub(super) fn new(place: Place, client: Client, kubeconfig: PathBuf, arguments: &[String]) -> Result<Self, String> {
        let (flags, watcher) = (Flags::of(arguments)?, Watcher::of(&place.folder)?);
        let (seen, applied) = (Snapshot::default(), Applied::default());
        Ok(Self { place, client, kubeconfig, flags, watcher, seen, applied, manager: None })
    }

    /// Works until it is dropped. What is wrong with the project is told, and tried again when its files change.
    pub(super) async fn work(&mut self) -> Result<(), String> {
        announce("building\n");
        self.round("ready").await?;
        loop {
            tokio::select! {
                () = self.watcher.changed() => {}
                status = ended(&mut self.manager) => {
                    self.manager = None;
                    tell_end(status);
                    continue;
                }
            }
            let now = Snapshot::of(&self.place.folder)?;
            let changed = now.since(&self.seen);
            if changed.is_empty() {
                continue;
            }
            let mut names: Vec<_> = changed.iter().take(NAMED).map(|path| path.display().to_string()).collect();
            if changed.len() > NAMED {
                names.push(format!("and {} more", changed.len() - NAMED));
            }
            announce(&format!("changed: {}\n", names.join(", ")));
            self.round("restarted").await?;
        }
    }

    /// Stops what runs.
    pub(super) async fn stop(&mut self) {
        if let Some(Manager { process, .. }) = self.manager.take()
            && let Ok(Stopped::Killed) = process.stop(GRACE).await
        {
            announce(&format!("the manager did not stop within {} s, and was killed\n", GRACE.as_secs()));
        }
    }

    /// Does all that a change asks for, and tells what came of it.
    async fn round(&mut self, started: &str) -> Result<(), String> {
        let begun = Instant::now();
        // What changes from here on is for the next round.
        self.seen = Snapshot::of(&self.place.folder)?;
        let told = match self.try_round().await {
            Ok(Done::Started) => format!("{started} in {:.1} s", begun.elapsed().as_secs_f64()),
            Ok(Done::Kept(count)) => format!("applied: {count} manifests; the manager runs on"),
            Ok(Done::Ended) => return Ok(()),
            Err(why) if self.manager.is_some() => format!("{why}; the manager of before runs on"),
            Err(why) => format!("{why}; waiting for a change"),
        };
        announce(&format!("{told}\n"));
        Ok(())
    }

    async fn try_round(&mut self) -> Result<Done, String> {
        let folder = &self.place.folder;
        let built = cargo::build(folder, &self.place.name).await?;
        let mut manifests = Command::new(&built.manifests);
        manifests.arg("crds").current_dir(folder).stdout(Stdio::null());
        let failed = |error| format!("running {}: {error}", built.manifests.display());
        let status = Process::start(manifests).map_err(failed)?.ended().await.map_err(failed)?;
        if !status.success() {
            return Err("the definitions were not written".to_owned());
        }
        self.seen.adopt(DEFINITIONS, &Snapshot::of(folder)?);
        let manifests = Manifests::of(folder, self.flags.webhooks)?;
        manifests.apply(&self.client, &mut self.applied).await?;
        if self.manager.as_ref().is_some_and(|running| running.program == built.manager) {
            return Ok(Done::Kept(manifests.len()));
        }
        self.stop().await;
        self.start(built.manager)?;
        let (client, probes) = (self.client.clone(), self.flags.probes);
        let ready = async {
            if let Some(probes) = probes {
                timeout(START, probe::ready(probes))
                    .await
                    .map_err(|_| format!("the manager was not ready within {} s", START.as_secs()))?;
            }
            manifests.trusted(&client).await
        };
        tokio::select! {
            ready = ready => ready.map(|()| Done::Started),
            status = ended(&mut self.manager) => {
                self.manager = None;
                tell_end(status);
                Ok(Done::Ended)
            }
        }
    }

    fn start(&mut self, program: Program) -> Result<(), String> {
        let mut command = Command::new(&program.path);
        command.args(&self.flags.arguments).current_dir(&self.place.folder).env("KUBECONFIG", &self.kubeconfig);
        let process =
            Process::start(command).map_err(|error| format!("starting {}: {error}", program.path.display()))?;
        self.manager = Some(Manager { process, program });
        Ok(())
    }
}

/// Resolves when the manager ends by itself; never, if none runs. Cancel-safe.
async fn ended(manager: &mut Option<Manager>) -> std::io::Result<ExitStatus> {
    match manager {
        Some(manager) => manager.process.ended().await,
        None => std::future::pending().await,
    }
}

fn tell_end(status: std::io::Result<ExitStatus>) {
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    announce(&format!("the manager has ended ({how}); it starts again after a change\n"));
}
