//! Scenarios: a program, the steps of its users, and the conditions that must hold.

use std::{collections::BTreeSet, fmt, future::Future, path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use windlass_api::{BoxError, ErrorChain, Resource};
use windlass_client::Client;
use windlass_runtime::{Manager, ManagerBuilder};

use super::{
    run_state::usually_ignored,
    state::{How, State, resource_name},
};
use crate::definitions;

/// The result of a step.
pub type StepResult = Result<(), BoxError>;

/// A program, the steps of its users, and the conditions that must hold: see [`explore`](super::explore()).
///
/// All closures run again in every run, so a closure that creates a controller also creates its memory.
#[must_use = "a scenario is explored by `explore`"]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) prepare: Vec<Act>,
    pub(crate) builder: Option<Box<dyn Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync>>,
    pub(crate) controllers: Vec<Box<AddControllers>>,
    pub(crate) other_controllers: Vec<Box<AddControllers>>,
    pub(crate) steps: Vec<(String, Act)>,
    always: Vec<(String, Box<dyn Fn(&State) -> bool + Send + Sync>)>,
    settled: Vec<(String, Box<dyn Fn(&State) -> bool + Send + Sync>)>,
    orders: Vec<(ObjectChange, ObjectChange)>,
    pub(crate) ignored: BTreeSet<String>,
    /// The resource and the JSON pointer.
    pub(crate) hidden: Vec<(String, String)>,
    pub(crate) churning: BTreeSet<String>,
    pub(crate) seed: u64,
    pub(crate) pairs: usize,
    pub(crate) max_runs: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) quiet: Duration,
    pub(crate) patience: Duration,
}

pub(crate) type Act = Box<dyn Fn(Client) -> BoxFuture<'static, StepResult> + Send + Sync>;
pub(crate) type AddControllers = dyn Fn(&mut Manager) + Send + Sync;

/// A creation or removal of objects of a kind, for [`Scenario::order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    resource: String,
    how: How,
}

impl ObjectChange {
    /// The creation of an object of the kind.
    #[must_use]
    pub fn created<K: Resource>() -> Self {
        Self { resource: resource_name(&K::api_resource()), how: How::Created }
    }

    /// The removal of an object of the kind.
    #[must_use]
    pub fn removed<K: Resource>() -> Self {
        Self { resource: resource_name(&K::api_resource()), how: How::Removed }
    }
}

impl fmt::Display for ObjectChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {} {}", self.resource, self.how.words())
    }
}

impl Scenario {
    /// Creates a scenario. Its name is part of the setting that replays a run.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            prepare: Vec::new(),
            builder: None,
            controllers: Vec::new(),
            other_controllers: Vec::new(),
            steps: Vec::new(),
            always: Vec::new(),
            settled: Vec::new(),
            orders: Vec::new(),
            ignored: usually_ignored(),
            hidden: Vec::new(),
            churning: BTreeSet::new(),
            seed: 0,
            pairs: 0,
            max_runs: 2_000,
            threads: None,
            quiet: Duration::from_secs(45),
            patience: Duration::from_mins(20),
        }
    }

    /// Adds a preparation that runs before the program starts, such as the creation of CustomResourceDefinitions or
    /// namespaces.
    pub fn prepare<F>(mut self, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StepResult> + Send + 'static,
    {
        self.prepare.push(Box::new(move |client| Box::pin(act(client))));
        self
    }

    /// Installs the CustomResourceDefinitions in a file, or in the files of a folder, before the program starts. An
    /// error is a finding of the first run.
    pub fn crds(self, path: impl AsRef<Path>) -> Self {
        let read = definitions::read(path.as_ref()).and_then(|files| {
            let each = files.into_iter().map(|(file, text)| definitions::definitions_in(&text, Some(file)));
            Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect::<Vec<_>>())
        });
        let read = Arc::new(read.map_err(|error| ErrorChain(&error).to_string()));
        self.prepare(move |client| {
            let read = Arc::clone(&read);
            async move {
                for definition in read.as_ref().as_ref().map_err(Clone::clone)? {
                    definitions::establish(&client, definition, Duration::from_mins(1)).await?;
                }
                Ok(())
            }
        })
    }

    /// Adds a controller of the program under test to its manager. Called at each start of the program.
    pub fn controller(mut self, add: impl Fn(&mut Manager) + Send + Sync + 'static) -> Self {
        self.controllers.push(Box::new(add));
        self
    }

    /// Adjusts the manager of the program under test. The source of its caches' objects cannot be changed.
    pub fn manager(mut self, adjust: impl Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync + 'static) -> Self {
        self.builder = Some(Box::new(adjust));
        self
    }

    /// Adds a controller of another program that the program under test needs. No faults are injected into it. The
    /// Events that it writes are discarded.
    pub fn other_controller(mut self, add: impl Fn(&mut Manager) + Send + Sync + 'static) -> Self {
        self.other_controllers.push(Box::new(add));
        self
    }

    /// Adds a user's action. The next step starts when everything has [settled](super#when-a-run-has-settled).
    pub fn step<F>(mut self, name: impl Into<String>, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StepResult> + Send + 'static,
    {
        self.steps.push((name.into(), Box::new(move |client| Box::pin(act(client)))));
        self
    }

    /// Adds a condition that must hold after every write of any client.
    pub fn always(mut self, what: impl Into<String>, holds: impl Fn(&State) -> bool + Send + Sync + 'static) -> Self {
        self.always.push((what.into(), Box::new(holds)));
        self
    }

    /// Adds a condition that must hold at the end.
    pub fn settled(mut self, what: impl Into<String>, holds: impl Fn(&State) -> bool + Send + Sync + 'static) -> Self {
        self.settled.push((what.into(), Box::new(holds)));
        self
    }

    /// Requires that `then` does not happen before `first`.
    pub fn order(mut self, first: ObjectChange, then: ObjectChange) -> Self {
        self.orders.push((first, then));
        self
    }

    /// Ignores objects of this kind, and injects no faults into writes of them. Events, leases and
    /// CustomResourceDefinitions are always ignored.
    pub fn ignoring<K: Resource>(mut self) -> Self {
        self.ignored.insert(resource_name(&K::api_resource()));
        self
    }

    /// Ignores a field of this kind in the comparison of final states. The field is a JSON pointer such as
    /// `/spec/nodeName`.
    pub fn ignoring_field<K: Resource>(mut self, pointer: impl Into<String>) -> Self {
        self.hidden.push((resource_name(&K::api_resource()), pointer.into()));
        self
    }

    /// Allows the creation and deletion of additional objects of this kind, for controllers that do not guarantee exact
    /// numbers.
    pub fn may_churn<K: Resource>(mut self) -> Self {
        self.churning.insert(resource_name(&K::api_resource()));
        self
    }

    /// Sets the seed of all randomness. Defaults to 0.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds this number of runs with two faults, chosen by the seed. Defaults to none.
    pub const fn pairs(mut self, runs: usize) -> Self {
        self.pairs = runs;
        self
    }

    /// Sets the maximum number of runs; the seed selects among more. Defaults to 2,000.
    pub const fn max_runs(mut self, runs: usize) -> Self {
        self.max_runs = runs;
        self
    }

    /// Sets the number of runs in parallel. Defaults to the number of cores.
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the time without changes after which a step is over, in the time of the run. Defaults to 45 seconds.
    pub const fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// Sets the maximum time for a step to settle, in the time of the run. Defaults to 20 minutes.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    // === conditions ===

    /// Returns the violated conditions of a state or of the history so far.
    pub(crate) fn broken<'s>(
        &'s self,
        state: &'s State,
        history: &'s [(String, How)],
    ) -> impl Iterator<Item = String> + 's {
        let always = self.always.iter().filter(|(_, holds)| !holds(state));
        let always = always.map(|(what, _)| format!("violated condition: {what}"));
        let at = |change: &ObjectChange| {
            history.iter().position(|(resource, how)| *resource == change.resource && *how == change.how)
        };
        let orders = self.orders.iter().filter(move |(first, then)| match (at(first), at(then)) {
            (Some(first), Some(then)) => then < first,
            (None, Some(_)) => true,
            (_, None) => false,
        });
        always.chain(orders.map(|(first, then)| format!("out of order: {then} before {first}")))
    }

    /// Returns the violated conditions of the final state.
    pub(crate) fn unmet<'s>(&'s self, state: &'s State) -> impl Iterator<Item = String> + 's {
        let unmet = self.settled.iter().filter(|(_, holds)| !holds(state));
        unmet.map(|(what, _)| format!("violated final condition: {what}"))
    }

    pub(crate) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<_> = self.steps.iter().map(|(name, _)| name).collect();
        f.debug_struct("Scenario").field("name", &self.name).field("steps", &steps).finish_non_exhaustive()
    }
}
