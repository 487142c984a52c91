//! One run of a scenario: its cluster, the program with its restarts, the steps, and the final state.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::{
    runtime,
    sync::mpsc,
    task::{AbortHandle, JoinError, JoinSet},
    time::{sleep, timeout},
};
use windlass_api::{Clock, Entropy, ErrorChain};
use windlass_client::{Client, Transport};
use windlass_runtime::{LeaderElection, Manager};

use super::{
    plan::Plan,
    scenario::{Act, Scenario},
    seam::Seam,
    state::{How, Reader, State},
    tap::{Tap, Who, get},
    timeline::{Entry, Sort},
    world::{Command, EventSeen, Gate, Life, World, WriteSeen},
};
use crate::Environment;

/// The lease of programs with several instances.
const LEASE: &str = "exploration";
/// The lease duration, the renewal deadline and the retry interval. Long, because each renewal is a request, and a run
/// may take many minutes of its own time.
const HOLDS: Duration = Duration::from_secs(18);
const RENEWED_WITHIN: Duration = Duration::from_secs(12);
const ASKED_EVERY: Duration = Duration::from_secs(6);
/// The delay before a stopped program is started again.
const RESTART: Duration = Duration::from_secs(1);
/// A program that stops by itself more often than this is broken.
const MOST_ENDS: usize = 5;
/// The delay of a deposed leader's write. Its successor has been active for a while by then.
const LATE: Duration = Duration::from_secs(45);
/// The time that a program keeps running after it has lost its lease.
const LINGERS: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) findings: Vec<String>,
    pub(crate) timeline: Vec<Entry>,
    pub(crate) writes: Vec<WriteSeen>,
    pub(crate) events: Vec<EventSeen>,
    pub(crate) counts: BTreeMap<(String, How), usize>,
    pub(crate) baseline: State,
    pub(crate) end: State,
    pub(crate) paths: BTreeMap<String, String>,
    pub(crate) requests: usize,
    /// The number of the plan's faults that were injected.
    pub(crate) hits: usize,
    /// `true` if all steps were performed.
    pub(crate) is_complete: bool,
}

/// Performs a run in its own runtime. `paths` are the resources to list even if nothing writes to them.
pub(crate) fn run(
    scenario: &Arc<Scenario>,
    plan: &Plan,
    paths: &BTreeMap<String, String>,
    most_requests: usize,
) -> Run {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Run { findings: vec![format!("cannot create a runtime: {error}")], ..Run::default() },
    };
    let played = AssertUnwindSafe(|| runtime.block_on(play(Arc::clone(scenario), plan.clone(), paths, most_requests)));
    std::panic::catch_unwind(played).unwrap_or_else(|panic| Run {
        findings: vec![format!("the run panicked: {}", words_of(&*panic))],
        ..Run::default()
    })
}

async fn play(scenario: Arc<Scenario>, plan: Plan, paths: &BTreeMap<String, String>, most_requests: usize) -> Run {
    let env = match Environment::builder().seed(scenario.seed).start().await {
        Ok(env) => env,
        Err(error) => return Run { findings: vec![ErrorChain(&error).to_string()], ..Run::default() },
    };
    let (world, orders) = World::new(scenario, plan, most_requests);
    let stage = Stage { world: Arc::clone(&world), transport: env.transport(), env: &env };
    let is_complete = stage.perform(orders, paths).await;
    for (resource, path) in world.paths() {
        stage.tap(Who::User).look(&resource, &path).await;
    }
    let state = world.notes().state.clone();
    if is_complete {
        for finding in world.scenario.unmet(&state) {
            world.find(finding);
        }
    }
    let paths = world.paths();
    let notes = std::mem::take(&mut *world.notes());
    Run {
        findings: notes.findings,
        timeline: notes.timeline,
        writes: notes.writes,
        events: notes.events,
        counts: notes.counts,
        baseline: notes.baseline,
        end: notes.state,
        paths,
        requests: notes.requests,
        hits: notes.hits,
        is_complete,
    }
}

/// The environment of a run.
struct Stage<'e> {
    env: &'e Environment,
    transport: Transport,
    world: Arc<World>,
}

impl Stage<'_> {
    /// Performs all steps. Returns `false` if a step failed.
    async fn perform(&self, orders: mpsc::UnboundedReceiver<Command>, paths: &BTreeMap<String, String>) -> bool {
        let world = &self.world;
        for (index, act) in world.scenario.prepare.iter().enumerate() {
            if let Err(failure) = self.act(act).await {
                world.find(format!("preparation {} has failed: {failure}", index + 1));
                return false;
            }
        }
        for (resource, path) in paths.iter().filter(|(resource, _)| world.is_new(resource)) {
            self.tap(Who::User).look(resource, path).await;
        }
        world.notes().history.clear();
        let mut others = JoinSet::new();
        if !world.scenario.beside.is_empty() {
            let client = self.client(Who::Beside);
            let builder = Manager::builder(client).clock(self.env.clock().clone()).entropy(self.env.entropy.clone());
            let mut manager = builder.build();
            world.scenario.beside.iter().for_each(|add| add(&mut manager));
            others.spawn(manager.run(std::future::pending()));
        }
        let supervisor = Supervisor {
            world: Arc::clone(world),
            transport: self.transport.clone(),
            clock: self.env.clock().clone(),
            entropy: self.env.entropy.clone(),
            running: JoinSet::new(),
            lives: Vec::new(),
            ends: 0,
        };
        // Dropping the set also aborts the program.
        let mut supervision = JoinSet::new();
        supervision.spawn(supervisor.supervise(orders));

        world.say("", Sort::Step, "the program is started");
        if !self.settle().await {
            return false;
        }
        for (name, act) in &world.scenario.steps {
            world.notes().step_version = self.version().await;
            world.step.send_modify(|step| *step += 1);
            world.say("", Sort::Step, name.clone());
            if !self.step(name, act).await || !self.settle().await {
                return false;
            }
        }
        if let Some(ended) = others.try_join_next() {
            world.find(format!("a program that runs alongside has stopped: {}", ending(ended)));
        }
        true
    }

    /// A user whose request fails retries later, when the program may have caught up.
    async fn step(&self, name: &str, act: &Act) -> bool {
        let Err(failure) = self.act(act).await else { return true };
        let failure = if self.world.plan.is_empty() {
            failure
        } else {
            self.world.say("user", Sort::Step, format!("{name} has failed and is retried: {failure}"));
            if !self.settle().await {
                return false;
            }
            match self.act(act).await {
                Ok(()) => return true,
                Err(failure) => failure,
            }
        };
        self.world.find(format!("step {name:?} has failed: {failure}"));
        false
    }

    /// Performs an action. The error is a message.
    async fn act(&self, act: &Act) -> Result<(), String> {
        let act = timeout(self.world.scenario.patience, AssertUnwindSafe(act(self.client(Who::User))).catch_unwind());
        match act.await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(ErrorChain(&*error).to_string()),
            Ok(Err(panic)) => Err(words_of(&*panic)),
            Err(_) => Err("it did not finish in time".to_owned()),
        }
    }

    async fn settle(&self) -> bool {
        match self.world.settle().await {
            Ok(()) => true,
            Err(restless) => {
                self.world.find(restless.0);
                false
            }
        }
    }

    /// Returns the current resource version of the cluster.
    async fn version(&self) -> Option<String> {
        let list = get(&self.transport, "/api/v1/namespaces").await?;
        Reader::default().read(&list).map(|(_, version)| version)
    }

    fn tap(&self, who: Who) -> Tap {
        Tap { transport: self.transport.clone(), world: Arc::clone(&self.world), who }
    }

    fn client(&self, who: Who) -> Client {
        self.env.client_over(Transport::new(self.tap(who)))
    }
}

/// Starts, stops and restarts the program.
struct Supervisor {
    world: Arc<World>,
    transport: Transport,
    clock: Clock,
    entropy: Entropy,
    running: JoinSet<(usize, windlass_runtime::Result<()>)>,
    lives: Vec<(Arc<Life>, AbortHandle)>,
    /// The number of times that it has stopped by itself.
    ends: usize,
}

impl Supervisor {
    async fn supervise(mut self, mut orders: mpsc::UnboundedReceiver<Command>) {
        self.start(None);
        loop {
            tokio::select! {
                biased;
                Some(command) = orders.recv() => match command {
                    Command::Crash { life, rewind } => {
                        let _busy = self.world.fault();
                        self.end(life);
                        sleep(RESTART).await;
                        self.start(rewind);
                    }
                    Command::Depose { life, arrive } => {
                        self.start(None);
                        let Some((old, abort)) = self.lives.iter().find(|(old, _)| old.number == life).cloned() else {
                            continue;
                        };
                        let (world, busy) = (Arc::clone(&self.world), self.world.fault());
                        tokio::spawn(async move {
                            sleep(LATE).await;
                            world.say(old.name(), Sort::Fault, "its delayed write arrives");
                            old.set(Gate::Open);
                            let _ = arrive.send(());
                            sleep(LINGERS).await;
                            old.set(Gate::Dead);
                            abort.abort();
                            world.ended(&old);
                            drop(busy);
                        });
                    }
                },
                Some(ended) = self.running.join_next() => self.ended(ended).await,
                else => std::future::pending().await,
            }
        }
    }

    fn start(&mut self, rewind: Option<String>) {
        let (world, number) = (&self.world, self.lives.len() + 1);
        let life = Life::new(number, rewind);
        world.say(life.name(), Sort::Life, "is started");
        let tap =
            Tap { transport: self.transport.clone(), world: Arc::clone(world), who: Who::Program(Arc::clone(&life)) };
        let client = Client::from_service(tap, crate::environment::NAMESPACE);
        let mut builder = Manager::builder(client.clone()).clock(self.clock.clone()).entropy(self.entropy.clone());
        if world.plan.needs_election() {
            let election = LeaderElection::new(LEASE).identity(format!("program-{number}")).lease_duration(HOLDS);
            builder = builder.leader_election(election.renew_deadline(RENEWED_WITHIN).retry_period(ASKED_EVERY));
        }
        if let Some(adjust) = &world.scenario.builder {
            builder = adjust(builder);
        }
        let (seen_by, of, caches) = (Arc::clone(world), Arc::clone(&life), client.without_default_rate_limit());
        builder = builder.list_watch(move |resource, namespace| {
            let inner = Arc::new(caches.list_watch(resource, namespace));
            Arc::new(Seam::new(inner, resource, Arc::clone(&seen_by), Arc::clone(&of)))
        });
        let mut manager = builder.build();
        for add in &world.scenario.controllers {
            add(&mut manager);
        }
        let (observed_by, of) = (Arc::clone(world), Arc::clone(&life));
        manager.on_reconcile(move |event: &windlass_runtime::ReconcileEvent<'_>| observed_by.observe(&of, event));
        let abort = self.running.spawn(async move { (number, manager.run(std::future::pending()).await) });
        self.lives.push((life, abort));
    }

    fn end(&mut self, number: usize) {
        if let Some((life, abort)) = self.lives.iter().find(|(life, _)| life.number == number) {
            life.set(Gate::Dead);
            abort.abort();
            self.world.ended(life);
            self.world.say(life.name(), Sort::Life, "has crashed, and its memory is lost");
        }
    }

    /// Handles the end of a program: it was aborted, or stopped by itself.
    async fn ended(&mut self, ended: Result<(usize, windlass_runtime::Result<()>), JoinError>) {
        let (number, outcome) = match ended {
            Err(error) if error.is_cancelled() => return,
            Err(panicked) => return self.world.find(format!("the program has panicked: {panicked}")),
            Ok(ended) => ended,
        };
        let words = ending(Ok(outcome));
        let Some((life, _)) = self.lives.iter().find(|(life, _)| life.number == number) else { return };
        self.world.say(life.name(), Sort::Life, format!("has stopped: {words}"));
        self.world.ended(life);
        if number < self.lives.len() {
            return; // It has been replaced already.
        }
        life.set(Gate::Dead);
        self.ends += 1;
        if self.ends > MOST_ENDS {
            return self.world.find(format!("the program stops repeatedly: {words}"));
        }
        let _busy = self.world.fault();
        sleep(RESTART).await;
        self.start(None);
    }
}

fn ending(ended: Result<windlass_runtime::Result<()>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "without an error".to_owned(),
        Ok(Err(error)) => ErrorChain(&error).to_string(),
        Err(error) => error.to_string(),
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
