//! What is explored: a program, what is done to it, and what must hold.

use std::{collections::BTreeSet, fmt, future::Future, path::Path, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use windlass_api::{BoxError, ErrorChain, Resource};
use windlass_client::Client;
use windlass_runtime::{Manager, ManagerBuilder};

use super::{
    state::{How, State, resource_name},
    world::usually_ignored,
};
use crate::definitions;

/// What comes of a step.
pub type StepResult = Result<(), BoxError>;

/// A program, what is done to it, and what must hold: see [`explore`](super::explore()).
///
/// Everything in it is done anew in every run: a closure that makes a controller makes its memory, too.
#[must_use = "a scenario is explored by `explore`"]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) prepare: Vec<Act>,
    pub(crate) builder: Option<Box<dyn Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync>>,
    pub(crate) controllers: Vec<Box<Furnish>>,
    pub(crate) beside: Vec<Box<Furnish>>,
    pub(crate) steps: Vec<(String, Act)>,
    always: Vec<(String, Box<dyn Fn(&State) -> bool + Send + Sync>)>,
    settled: Vec<(String, Box<dyn Fn(&State) -> bool + Send + Sync>)>,
    orders: Vec<(Happening, Happening)>,
    pub(crate) ignored: BTreeSet<String>,
    /// Resource and JSON pointer.
    pub(crate) hidden: Vec<(String, String)>,
    pub(crate) churning: BTreeSet<String>,
    pub(crate) seed: u64,
    pub(crate) pairs: usize,
    pub(crate) most_runs: usize,
    pub(crate) threads: Option<usize>,
    pub(crate) quiet: Duration,
    pub(crate) patience: Duration,
}

pub(crate) type Act = Box<dyn Fn(Client) -> BoxFuture<'static, StepResult> + Send + Sync>;
pub(crate) type Furnish = dyn Fn(&mut Manager) + Send + Sync;

/// Something that happens to objects of a kind, for [`Scenario::order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    resource: String,
    how: How,
}

impl Happening {
    /// An object of the kind comes into being.
    #[must_use]
    pub fn created<K: Resource>() -> Self {
        Self { resource: resource_name(&K::api_resource()), how: How::Created }
    }

    /// An object of the kind is no longer there.
    #[must_use]
    pub fn removed<K: Resource>() -> Self {
        Self { resource: resource_name(&K::api_resource()), how: How::Removed }
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {} {}", self.resource, self.how.words())
    }
}

impl Scenario {
    /// A scenario of a name, which is part of what replays a run.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            prepare: Vec::new(),
            builder: None,
            controllers: Vec::new(),
            beside: Vec::new(),
            steps: Vec::new(),
            always: Vec::new(),
            settled: Vec::new(),
            orders: Vec::new(),
            ignored: usually_ignored(),
            hidden: Vec::new(),
            churning: BTreeSet::new(),
            seed: 0,
            pairs: 0,
            most_runs: 2_000,
            threads: None,
            quiet: Duration::from_secs(45),
            patience: Duration::from_mins(20),
        }
    }

    /// What is there before the program starts: definitions of kinds, namespaces.
    pub fn prepare<F>(mut self, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StepResult> + Send + 'static,
    {
        self.prepare.push(Box::new(move |client| Box::pin(act(client))));
        self
    }

    /// Installs the CustomResourceDefinitions in a file, or in the files of a folder, before the program starts. What is wrong with
    /// them is a finding of the first run.
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

    /// Adds a controller of the program under test to its manager. Called for each life of the program.
    pub fn controller(mut self, add: impl Fn(&mut Manager) + Send + Sync + 'static) -> Self {
        self.controllers.push(Box::new(add));
        self
    }

    /// Has the last word about the manager of the program under test. Where its caches get their objects is not for it to say.
    pub fn manager(mut self, adjust: impl Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync + 'static) -> Self {
        self.builder = Some(Box::new(adjust));
        self
    }

    /// Adds a controller of another program, to which nothing happens: what the one under test needs around it. The Events that
    /// it writes are thrown away.
    pub fn beside(mut self, add: impl Fn(&mut Manager) + Send + Sync + 'static) -> Self {
        self.beside.push(Box::new(add));
        self
    }

    /// What a user does then. The next step begins when everything has [settled](super#when-a-run-has-settled).
    pub fn step<F>(mut self, name: impl Into<String>, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = StepResult> + Send + 'static,
    {
        self.steps.push((name.into(), Box::new(move |client| Box::pin(act(client)))));
        self
    }

    /// Something that must hold after every write, whoever's it is.
    pub fn always(mut self, what: impl Into<String>, holds: impl Fn(&State) -> bool + Send + Sync + 'static) -> Self {
        self.always.push((what.into(), Box::new(holds)));
        self
    }

    /// Something that must hold in the end.
    pub fn settled(mut self, what: impl Into<String>, holds: impl Fn(&State) -> bool + Send + Sync + 'static) -> Self {
        self.settled.push((what.into(), Box::new(holds)));
        self
    }

    /// The one may not happen before the other has.
    pub fn order(mut self, first: Happening, then: Happening) -> Self {
        self.orders.push((first, then));
        self
    }

    /// Objects of this kind do not matter, and writes of them are not disturbed. Events, leases and definitions of kinds do
    /// not matter anyway.
    pub fn ignoring<K: Resource>(mut self) -> Self {
        self.ignored.insert(resource_name(&K::api_resource()));
        self
    }

    /// A field of this kind may end otherwise than in the undisturbed run: a JSON pointer, `/spec/nodeName`.
    pub fn ignoring_field<K: Resource>(mut self, pointer: impl Into<String>) -> Self {
        self.hidden.push((resource_name(&K::api_resource()), pointer.into()));
        self
    }

    /// Objects of this kind may be created and deleted again that the undisturbed run never made: for controllers that make no
    /// promise about that.
    pub fn may_churn<K: Resource>(mut self) -> Self {
        self.churning.insert(resource_name(&K::api_resource()));
        self
    }

    /// What all randomness of the runs is made of; 0 by default.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// So many runs in which two things go wrong, chosen by the seed, beside those in which one does; none by default.
    pub const fn pairs(mut self, runs: usize) -> Self {
        self.pairs = runs;
        self
    }

    /// So many runs at most, chosen by the seed if there could be more; 2,000 by default.
    pub const fn most_runs(mut self, runs: usize) -> Self {
        self.most_runs = runs;
        self
    }

    /// How many runs go on at the same time; by default as many as there are cores.
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// For how long nothing may change before a step is over, in the time of the run; 45 seconds by default.
    pub const fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// How long it may take to come to rest, in the time of the run; 20 minutes by default.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    // === what must hold ===

    /// What does not hold of a state, or of what has happened so far.
    pub(crate) fn broken<'s>(
        &'s self,
        state: &'s State,
        history: &'s [(String, How)],
    ) -> impl Iterator<Item = String> + 's {
        let always = self.always.iter().filter(|(_, holds)| !holds(state));
        let always = always.map(|(what, _)| format!("what must always hold did not: {what}"));
        let at = |happening: &Happening| {
            history.iter().position(|(resource, how)| *resource == happening.resource && *how == happening.how)
        };
        let orders = self.orders.iter().filter(move |(first, then)| match (at(first), at(then)) {
            (Some(first), Some(then)) => then < first,
            (None, Some(_)) => true,
            (_, None) => false,
        });
        always.chain(orders.map(|(first, then)| format!("out of order: {then} before {first}")))
    }

    /// What does not hold of a state in the end.
    pub(crate) fn unmet<'s>(&'s self, state: &'s State) -> impl Iterator<Item = String> + 's {
        let unmet = self.settled.iter().filter(|(_, holds)| !holds(state));
        unmet.map(|(what, _)| format!("what must hold in the end does not: {what}"))
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
