//! One run of a project: builds it, applies its manifests and starts the manager, and repeats this when files change.

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
use windlass_scaffold::ProjectLocation;

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

/// The grace period of a manager that is stopped.
const GRACE: Duration = Duration::from_secs(10);
/// The time within which a started manager must become ready.
const START: Duration = Duration::from_mins(1);
/// The number of changed files that are listed.
const NAMED: usize = 3;

/// The state of a run.
pub(super) struct Session {
    location: ProjectLocation,
    client: Client,
    kubeconfig: PathBuf,
    flags: Flags,
    watcher: Watcher,
    /// The files that the last round used.
    seen: Snapshot,
    applied: Applied,
    manager: Option<Manager>,
}

/// A running manager.
struct Manager {
    process: Process,
    program: Program,
    state: State,
}

/// The readiness of a manager.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Started, but not ready yet.
    Starting,
    Ready,
}

/// The result of a round.
enum RoundOutcome {
    /// A new manager runs.
    Started,
    /// This many manifests were applied, and the manager is unchanged.
    Kept(usize),
    /// The new manager ended before it was ready.
    Ended,
    /// The new manager is not ready, for this reason.
    Unready(String),
}

impl Session {
    pub(super) fn new(
        location: ProjectLocation,
        client: Client,
        kubeconfig: PathBuf,
        arguments: &[String],
    ) -> Result<Self, String> {
        let (flags, watcher) = (Flags::of(arguments)?, Watcher::of(&location.folder)?);
        let (seen, applied) = (Snapshot::default(), Applied::default());
        Ok(Self { location, client, kubeconfig, flags, watcher, seen, applied, manager: None })
    }

    /// Runs until it is dropped. Errors in the project are printed; the next round starts when its files change.
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
            let now = Snapshot::of(&self.location.folder)?;
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

    /// Stops the manager.
    pub(super) async fn stop(&mut self) {
        if let Some(Manager { process, .. }) = self.manager.take()
            && let Ok(Stopped::Killed) = process.stop(GRACE).await
        {
            announce(&format!("the manager did not stop within {} s, and was killed\n", GRACE.as_secs()));
        }
    }

    /// Runs one round and prints its result.
    async fn round(&mut self, started: &str) -> Result<(), String> {
        let begun = Instant::now();
        // Later changes belong to the next round.
        self.seen = Snapshot::of(&self.location.folder)?;
        let outcome = self.try_round().await;
        if let Some(told) = self.told(outcome, started, begun) {
            announce(&format!("{told}\n"));
        }
        Ok(())
    }

    /// Returns the message for the result of a round; `None` if it has been printed already.
    fn told(&self, outcome: Result<RoundOutcome, String>, started: &str, begun: Instant) -> Option<String> {
        Some(match outcome {
            Ok(RoundOutcome::Started) => format!("{started} in {:.1} s", begun.elapsed().as_secs_f64()),
            Ok(RoundOutcome::Kept(count)) => format!("applied: {count} manifests; the manager keeps running"),
            Ok(RoundOutcome::Ended) => return None,
            Ok(RoundOutcome::Unready(why)) => format!("{why}; waiting for a change"),
            Err(why) => match &self.manager {
                Some(Manager { state: State::Ready, .. }) => format!("{why}; the previous manager keeps running"),
                Some(Manager { state: State::Starting, .. }) => {
                    format!("{why}; the previous manager is not ready; waiting for a change")
                }
                None => format!("{why}; waiting for a change"),
            },
        })
    }

    async fn try_round(&mut self) -> Result<RoundOutcome, String> {
        let folder = &self.location.folder;
        let built = cargo::build(folder, &self.location.name).await?;
        let mut manifests = Command::new(&built.manifests);
        manifests.arg("crds").current_dir(folder).stdout(Stdio::null());
        let failed = |error| format!("running {}: {error}", built.manifests.display());
        let status = Process::start(manifests).map_err(failed)?.ended().await.map_err(failed)?;
        if !status.success() {
            return Err("the CustomResourceDefinitions were not written".to_owned());
        }
        self.seen.adopt(DEFINITIONS, &Snapshot::of(folder)?);
        let manifests = Manifests::of(folder, self.flags.webhooks)?;
        manifests.apply(&self.client, &mut self.applied).await?;
        match &self.manager {
            Some(Manager { program, state, .. }) if *program == built.manager => {
                if *state == State::Ready {
                    return Ok(RoundOutcome::Kept(manifests.len()));
                }
            }
            _ => {
                self.stop().await;
                self.start(built.manager)?;
            }
        }
        Ok(self.come_up(&manifests).await)
    }

    /// Waits until the manager is ready or has ended, or the timeout has passed.
    async fn come_up(&mut self, manifests: &Manifests) -> RoundOutcome {
        let (client, probes) = (self.client.clone(), self.flags.probes);
        let ready = async {
            if let Some(probes) = probes {
                timeout(START, probe::ready(probes))
                    .await
                    .map_err(|_| format!("the manager was not ready within {} s", START.as_secs()))?;
            }
            manifests.trusted(&client).await
        };
        let ready = tokio::select! {
            ready = ready => ready,
            status = ended(&mut self.manager) => {
                self.manager = None;
                tell_end(status);
                return RoundOutcome::Ended;
            }
        };
        match (ready, &mut self.manager) {
            (Ok(()), manager) => {
                if let Some(manager) = manager {
                    manager.state = State::Ready;
                }
                RoundOutcome::Started
            }
            (Err(why), _) => RoundOutcome::Unready(why),
        }
    }

    fn start(&mut self, program: Program) -> Result<(), String> {
        let mut command = Command::new(&program.path);
        command.args(&self.flags.arguments).current_dir(&self.location.folder).env("KUBECONFIG", &self.kubeconfig);
        let process =
            Process::start(command).map_err(|error| format!("starting {}: {error}", program.path.display()))?;
        self.manager = Some(Manager { process, program, state: State::Starting });
        Ok(())
    }
}

/// Waits until the manager ends by itself; never ready if none runs. Cancel-safe.
async fn ended(manager: &mut Option<Manager>) -> std::io::Result<ExitStatus> {
    match manager {
        Some(manager) => manager.process.ended().await,
        None => std::future::pending().await,
    }
}

fn tell_end(status: std::io::Result<ExitStatus>) {
    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
    announce(&format!("the manager exited ({how}); it restarts after a change\n"));
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, net::Ipv4Addr};

    use windlass_api::Entropy;

    use super::*;

    /// Creates a session with a running manager that does not listen.
    #[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
    fn session(state: State) -> Session {
        let folder = std::env::temp_dir().join(format!("windlass-session-{}", Entropy::os().uuid()));
        fs::create_dir_all(folder.join("src")).unwrap();
        windlass_scaffold::Init::new("example.com", "shop").unwrap().plan(&folder).unwrap().write().unwrap();
        let location = ProjectLocation::above(&folder).unwrap();
        let nobody = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let arguments = [format!("--health-probe-bind-address={nobody}")];
        let mut session =
            Session::new(location, crate::testing::client(), folder.join("kubeconfig"), &arguments).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let process = Process::start(command).unwrap();
        session.manager = Some(Manager { process, program: Program::at("sleep".into()), state });
        session
    }

    #[tokio::test(start_paused = true)]
    async fn session_reports_unready_and_previous_manager() {
        let mut session = session(State::Starting);
        let outcome = session.come_up(&Manifests::default()).await;
        let told = session.told(Ok(outcome), "ready", Instant::now()).unwrap();
        assert_eq!(told, "the manager was not ready within 60 s; waiting for a change");
        let told = |session: &Session| session.told(Err("the build failed".to_owned()), "", Instant::now()).unwrap();
        assert_eq!(told(&session), "the build failed; the previous manager is not ready; waiting for a change");
        session.manager.as_mut().unwrap().state = State::Ready;
        assert_eq!(told(&session), "the build failed; the previous manager keeps running");
        fs::remove_dir_all(&session.location.folder).unwrap();
    }
}
