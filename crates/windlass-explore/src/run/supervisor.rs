//! The processes of a run: the first one, those after faults, and those after exits.

use std::{collections::BTreeMap, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{self, BoxFuture},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};
use windlass_api::k8s_openapi::api::coordination::v1::Lease;
use windlass_client::{Client, WatchEvent};

use crate::{
    cluster::{Cluster, Command},
    error::Result,
    program::{Process, Program},
    record,
};

/// The delays before the restart of a program that ended by itself.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// The running time after which the next delay is the first one again.
const STABLE: Duration = Duration::from_secs(10);
/// The number of processes in a row that end by themselves soon after their start, after which a program is not expected to
/// run any more.
const EXITS: usize = 4;
/// The time for another process to become the leader: a lease of 15 s, with retries and the start of the process.
const ELECTION: Duration = Duration::from_secs(45);

/// The time for the gateway to execute the write of a deposed leader. A process that continued earlier could end first, and
/// take its write with it.
const EXECUTION: Duration = Duration::from_secs(1);

/// Starts, kills and restarts the processes of the program.
pub(super) struct Supervisor<'r> {
    cluster: &'r Cluster,
    program: Program,
    commands: mpsc::UnboundedReceiver<Command>,
    /// The running processes in the order of their start. A second one runs only beside a deposed leader.
    running: Vec<Process>,
    ended: Vec<record::Process>,
    /// The time of the next start, if the program has ended by itself.
    restart: Option<Instant>,
    delay: Duration,
    /// The number of processes in a row that have ended by themselves soon after their start.
    exits: usize,
    deposition: Option<Deposition>,
    /// The time for a new leader to work before the write of the deposed one.
    pause: Duration,
}

/// A leader that another process replaces while it is suspended.
struct Deposition {
    /// The number of the suspended process.
    process: usize,
    /// Completes when the next thing can be done.
    ready: BoxFuture<'static, ()>,
    /// Executes the write of the suspended process; `None` if it is being executed.
    write: Option<oneshot::Sender<()>>,
}

/// Something that the supervisor has to react to.
pub(super) enum Event {
    Command(Command),
    /// The process at this index has ended.
    Ended(usize),
    /// The time of the restart has come.
    Restart,
    /// The deposition in progress can continue.
    Deposition,
}

impl<'r> Supervisor<'r> {
    pub(super) fn new(
        cluster: &'r Cluster,
        program: Program,
        commands: mpsc::UnboundedReceiver<Command>,
        pause: Duration,
    ) -> Self {
        Self {
            cluster,
            program,
            commands,
            running: Vec::new(),
            ended: Vec::new(),
            restart: None,
            delay: FIRST_DELAY,
            exits: 0,
            deposition: None,
            pause,
        }
    }

    /// Starts the next process.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.restart = None;
        let number = self.running.len() + self.ended.len() + 1;
        let mut process = self.program.start(number, &self.cluster.access(number)).await?;
        if let Some(listener) = process.take_listener() {
            process.serve(self.cluster.serve(listener));
        }
        self.running.push(process);
        Ok(())
    }

    /// Returns `true` if a process is about to start or to be elected.
    pub(super) const fn is_waiting(&self) -> bool {
        self.restart.is_some() || self.deposition.is_some()
    }

    /// Returns `true` if the program ends by itself again and again.
    pub(super) const fn keeps_ending(&self) -> bool {
        self.exits >= EXITS
    }

    /// Waits for the next event. Cancel-safe; each event must be passed to [`Self::handle`].
    pub(super) async fn next(&mut self) -> Event {
        let ended = async {
            if self.running.is_empty() {
                return future::pending().await;
            }
            // A process whose state is unknown is as good as ended: it is killed then.
            let ended = self.running.iter_mut().map(|process| process.ended().boxed());
            future::select_all(ended).await.1
        };
        let restart = async {
            match self.restart {
                Some(at) => sleep_until(at).await,
                None => future::pending().await,
            }
        };
        let deposition = async {
            match &mut self.deposition {
                Some(deposition) => (&mut deposition.ready).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            // The end of a process that a fault kills is no exit of its own.
            biased;
            Some(command) = self.commands.recv() => Event::Command(command),
            index = ended => Event::Ended(index),
            () = deposition => Event::Deposition,
            () = restart => Event::Restart,
        }
    }

    /// Reacts to an event.
    pub(super) async fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Command(Command::Crash { process }) => {
                self.kill(process).await;
                self.start().await
            }
            Event::Command(Command::Rewind { process }) => {
                self.kill(process).await;
                self.cluster.rewind();
                self.start().await
            }
            Event::Command(Command::Depose { process, resume }) => self.depose(process, resume).await,
            Event::Deposition => {
                self.continue_deposition();
                Ok(())
            }
            Event::Ended(index) => {
                self.collect(index).await;
                Ok(())
            }
            Event::Restart => self.start().await,
        }
    }

    /// Suspends a leader, and starts the process that replaces it.
    async fn depose(&mut self, number: usize, write: oneshot::Sender<()>) -> Result<()> {
        // A process that has ended gets no answer anyway.
        let Some(process) = self.running.iter().find(|process| process.number() == number) else { return Ok(()) };
        // A leader that runs would renew its lease.
        process.suspend();
        let client = self.cluster.client();
        let ready = succeeded(client.clone(), holders(client).await, self.pause).boxed();
        self.deposition = Some(Deposition { process: number, ready, write: Some(write) });
        self.start().await
    }

    /// Executes the write of the deposed leader once another process has led for a while, and continues its process after that.
    fn continue_deposition(&mut self) {
        let Some(mut deposition) = self.deposition.take() else { return };
        if let Some(write) = deposition.write.take() {
            // Fails if the gateway no longer waits.
            let _ = write.send(());
            deposition.ready = sleep(EXECUTION).boxed();
            self.deposition = Some(deposition);
        } else if let Some(process) = self.running.iter().find(|process| process.number() == deposition.process) {
            process.resume();
        }
    }

    /// Requests all processes to end, and kills them after the grace period. Returns the records of all processes of the
    /// run.
    pub(super) async fn stop(mut self, grace: Duration) -> Vec<record::Process> {
        let stopped = self.running.drain(..).map(|process| process.stop(grace));
        self.ended.extend(future::join_all(stopped).await);
        self.ended.sort_by_key(|process| process.number);
        self.ended
    }

    /// Kills a process, unless it has ended.
    async fn kill(&mut self, number: usize) {
        if let Some(index) = self.running.iter().position(|process| process.number() == number) {
            let killed = self.running.remove(index).kill().await;
            self.ended.push(killed);
        }
    }

    /// Records a process that has ended by itself, and plans a restart unless another one runs.
    async fn collect(&mut self, index: usize) {
        let process = self.running.remove(index);
        self.cluster.close(process.number());
        let process = process.collect().await;
        if self.running.is_empty() {
            let ran = process.ended.as_ref().map_or(Duration::ZERO, |(ended, _)| ended.saturating_sub(process.started));
            if ran >= STABLE {
                (self.delay, self.exits) = (FIRST_DELAY, 0);
            }
            self.exits += 1;
            self.restart = Some(Instant::now() + self.delay);
            self.delay = (self.delay * 2).min(LONGEST_DELAY);
        }
        self.ended.push(process);
    }
}

/// The holder of each lease.
type Holders = BTreeMap<(Option<String>, Option<String>), String>;

/// Returns the holders of all held leases, and the version of the list. `None` if the server does not answer.
async fn holders(client: &Client) -> Option<(Holders, String)> {
    let leases = client.list::<Lease>().within("").await.ok()?;
    let held = leases.items.iter().filter_map(|lease| Some((key(lease), holder(lease)?.to_owned())));
    Some((held.collect(), leases.metadata.resource_version.to_string()))
}

/// Waits until a lease has another holder than before, which had some time to work. Completes at the time limit, too.
async fn succeeded(client: Client, before: Option<(Holders, String)>, pause: Duration) {
    let Some((before, version)) = before else { return };
    let changed = async {
        let mut events = client.watch::<Lease>().within("").resource_version(version).retrying();
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(lease) | WatchEvent::Modified(lease) = event
                && let (Some(holder), Some(earlier)) = (holder(&lease), before.get(&key(&lease)))
                && holder != earlier
            {
                break;
            }
        }
    };
    if timeout(ELECTION, changed).await.is_ok() {
        sleep(pause).await;
    }
}

fn key(lease: &Lease) -> (Option<String>, Option<String>) {
    (lease.metadata.namespace.clone(), lease.metadata.name.clone())
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}
