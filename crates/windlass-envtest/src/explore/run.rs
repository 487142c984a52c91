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
    faulty_list_watch::FaultyListWatch,
    faulty_transport::{FaultyTransport, Who, get},
    plan::Plan,
    run_state::{Command, EventSeen, Gate, Incarnation, RunState, WriteSeen},
    scenario::{Act, Scenario},
    state::{How, Reader, State},
    timeline::{Entry, EntryKind},
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
pub(crate) fn run(scenario: &Arc<Scenario>, plan: &Plan, paths: &BTreeMap<String, String>, max_requests: usize) -> Run {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Run { findings: vec![format!("cannot create a runtime: {error}")], ..Run::default() },
    };
    let played = AssertUnwindSafe(|| runtime.block_on(play(Arc::clone(scenario), plan.clone(), paths, max_requests)));
    std::panic::catch_unwind(played).unwrap_or_else(|panic| Run {
        findings: vec![format!("the run panicked: {}", words_of(&*panic))],
        ..Run::default()
    })
}

async fn play(scenario: Arc<Scenario>, plan: Plan, paths: &BTreeMap<String, String>, max_requests: usize) -> Run {
    let env = match Environment::builder().seed(scenario.seed).start().await {
        Ok(env) => env,
        Err(error) => return Run { findings: vec![ErrorChain(&error).to_string()], ..Run::default() },
    };
    let (run_state, orders) = RunState::new(scenario, plan, max_requests);
    let stage = Stage { run_state: Arc::clone(&run_state), transport: env.transport(), env: &env };
    let is_complete = stage.perform(orders, paths).await;
    for (resource, path) in run_state.paths() {
        stage.faulty_transport(Who::User).list(&resource, &path).await;
    }
    let state = run_state.notes().state.clone();
    if is_complete {
        for finding in run_state.scenario.unmet(&state) {
            run_state.add_finding(finding);
        }
    }
    let paths = run_state.paths();
    let notes = std::mem::take(&mut *run_state.notes());
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
    run_state: Arc<RunState>,
}

impl Stage<'_> {
    /// Performs all steps. Returns `false` if a step failed.
    async fn perform(&self, orders: mpsc::UnboundedReceiver<Command>, paths: &BTreeMap<String, String>) -> bool {
        let run_state = &self.run_state;
        for (index, act) in run_state.scenario.prepare.iter().enumerate() {
            if let Err(failure) = self.act(act).await {
                run_state.add_finding(format!("preparation {} has failed: {failure}", index + 1));
                return false;
            }
        }
        for (resource, path) in paths.iter().filter(|(resource, _)| run_state.is_new(resource)) {
            self.faulty_transport(Who::User).list(resource, path).await;
        }
        run_state.notes().history.clear();
        let mut others = JoinSet::new();
        if !run_state.scenario.other_controllers.is_empty() {
            let client = self.client(Who::OtherController);
            let builder = Manager::builder(client).clock(self.env.clock().clone()).entropy(self.env.entropy.clone());
            let mut manager = builder.build();
            run_state.scenario.other_controllers.iter().for_each(|add| add(&mut manager));
            others.spawn(manager.run(std::future::pending()));
        }
        let supervisor = Supervisor {
            run_state: Arc::clone(run_state),
            transport: self.transport.clone(),
            clock: self.env.clock().clone(),
            entropy: self.env.entropy.clone(),
            running: JoinSet::new(),
            incarnations: Vec::new(),
            ends: 0,
        };
        // Dropping the set also aborts the program.
        let mut supervision = JoinSet::new();
        supervision.spawn(supervisor.supervise(orders));

        run_state.log("", EntryKind::Step, "the program is started");
        if !self.settle().await {
            return false;
        }
        for (name, act) in &run_state.scenario.steps {
            run_state.notes().step_version = self.version().await;
            run_state.step.send_modify(|step| *step += 1);
            run_state.log("", EntryKind::Step, name.clone());
            if !self.step(name, act).await || !self.settle().await {
                return false;
            }
        }
        if let Some(ended) = others.try_join_next() {
            run_state.add_finding(format!("a program that runs alongside has stopped: {}", ending(ended)));
        }
        true
    }

    /// A user whose request fails retries later, when the program may have caught up.
    async fn step(&self, name: &str, act: &Act) -> bool {
        let Err(failure) = self.act(act).await else { return true };
        let failure = if self.run_state.plan.is_empty() {
            failure
        } else {
            self.run_state.log("user", EntryKind::Step, format!("{name} has failed and is retried: {failure}"));
            if !self.settle().await {
                return false;
            }
            match self.act(act).await {
                Ok(()) => return true,
                Err(failure) => failure,
            }
        };
        self.run_state.add_finding(format!("step {name:?} has failed: {failure}"));
        false
    }

    /// Performs an action. The error is a message.
    async fn act(&self, act: &Act) -> Result<(), String> {
        let act =
            timeout(self.run_state.scenario.patience, AssertUnwindSafe(act(self.client(Who::User))).catch_unwind());
        match act.await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(ErrorChain(&*error).to_string()),
            Ok(Err(panic)) => Err(words_of(&*panic)),
            Err(_) => Err("it did not finish in time".to_owned()),
        }
    }

    async fn settle(&self) -> bool {
        match self.run_state.settle().await {
            Ok(()) => true,
            Err(not_settled) => {
                self.run_state.add_finding(not_settled.0);
                false
            }
        }
    }

    /// Returns the current resource version of the cluster.
    async fn version(&self) -> Option<String> {
        let list = get(&self.transport, "/api/v1/namespaces").await?;
        Reader::default().read(&list).map(|(_, version)| version)
    }

    fn faulty_transport(&self, who: Who) -> FaultyTransport {
        FaultyTransport { transport: self.transport.clone(), run_state: Arc::clone(&self.run_state), who }
    }

    fn client(&self, who: Who) -> Client {
        self.env.client_over(Transport::new(self.faulty_transport(who)))
    }
}

/// Starts, stops and restarts the program.
struct Supervisor {
    run_state: Arc<RunState>,
    transport: Transport,
    clock: Clock,
    entropy: Entropy,
    running: JoinSet<(usize, windlass_runtime::Result<()>)>,
    incarnations: Vec<(Arc<Incarnation>, AbortHandle)>,
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
                    Command::Crash { incarnation, rewind } => {
                        let _busy = self.run_state.fault();
                        self.end(incarnation);
                        sleep(RESTART).await;
                        self.start(rewind);
                    }
                    Command::Depose { incarnation, arrive } => {
                        self.start(None);
                        let deposed = self.incarnations.iter().find(|(old, _)| old.number == incarnation);
                        let Some((old, abort)) = deposed.cloned() else { continue };
                        let (run_state, busy) = (Arc::clone(&self.run_state), self.run_state.fault());
                        tokio::spawn(async move {
                            sleep(LATE).await;
                            run_state.log(old.name(), EntryKind::Fault, "its delayed write arrives");
                            old.set(Gate::Open);
                            let _ = arrive.send(());
                            sleep(LINGERS).await;
                            old.set(Gate::Closed);
                            abort.abort();
                            run_state.ended(&old);
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
        let (run_state, number) = (&self.run_state, self.incarnations.len() + 1);
        let incarnation = Incarnation::new(number, rewind);
        run_state.log(incarnation.name(), EntryKind::Lifecycle, "is started");
        let transport = FaultyTransport {
            transport: self.transport.clone(),
            run_state: Arc::clone(run_state),
            who: Who::Program(Arc::clone(&incarnation)),
        };
        let client = Client::from_service(transport, crate::environment::NAMESPACE);
        let mut builder = Manager::builder(client.clone()).clock(self.clock.clone()).entropy(self.entropy.clone());
        if run_state.plan.needs_election() {
            let election = LeaderElection::new(LEASE).identity(format!("program-{number}")).lease_duration(HOLDS);
            builder = builder.leader_election(election.renew_deadline(RENEWED_WITHIN).retry_period(ASKED_EVERY));
        }
        if let Some(adjust) = &run_state.scenario.builder {
            builder = adjust(builder);
        }
        let (seen_by, of, caches) =
            (Arc::clone(run_state), Arc::clone(&incarnation), client.without_default_rate_limit());
        builder = builder.list_watch(move |resource, namespace| {
            let inner = Arc::new(caches.list_watch(resource, namespace));
            Arc::new(FaultyListWatch::new(inner, resource, Arc::clone(&seen_by), Arc::clone(&of)))
        });
        let mut manager = builder.build();
        for add in &run_state.scenario.controllers {
            add(&mut manager);
        }
        let (observed_by, of) = (Arc::clone(run_state), Arc::clone(&incarnation));
        manager.on_reconcile(move |event: &windlass_runtime::ReconcileEvent<'_>| observed_by.observe(&of, event));
        let abort = self.running.spawn(async move { (number, manager.run(std::future::pending()).await) });
        self.incarnations.push((incarnation, abort));
    }

    fn end(&mut self, number: usize) {
        if let Some((incarnation, abort)) =
            self.incarnations.iter().find(|(incarnation, _)| incarnation.number == number)
        {
            incarnation.set(Gate::Closed);
            abort.abort();
            self.run_state.ended(incarnation);
            self.run_state.log(incarnation.name(), EntryKind::Lifecycle, "has crashed, and its memory is lost");
        }
    }

    /// Handles the end of a program: it was aborted, or stopped by itself.
    async fn ended(&mut self, ended: Result<(usize, windlass_runtime::Result<()>), JoinError>) {
        let (number, outcome) = match ended {
            Err(error) if error.is_cancelled() => return,
            Err(panicked) => return self.run_state.add_finding(format!("the program has panicked: {panicked}")),
            Ok(ended) => ended,
        };
        let words = ending(Ok(outcome));
        let Some((incarnation, _)) = self.incarnations.iter().find(|(incarnation, _)| incarnation.number == number)
        else {
            return;
        };
        self.run_state.log(incarnation.name(), EntryKind::Lifecycle, format!("has stopped: {words}"));
        self.run_state.ended(incarnation);
        if number < self.incarnations.len() {
            return; // It has been replaced already.
        }
        incarnation.set(Gate::Closed);
        self.ends += 1;
        if self.ends > MOST_ENDS {
            return self.run_state.add_finding(format!("the program stops repeatedly: {words}"));
        }
        let _busy = self.run_state.fault();
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
