//! Plans: the faults or the mutation of a run, named by content, so that the names survive reordered requests.
//!
//! The text of a plan has one fault, or two with ` & ` between them:
//!
//! ```text
//! crash@2:update:statefulsets.apps/default/db:spec.replicas
//! lost-response@1:create:pods/default/web-*#2
//! rewind(pods,before 2:delete:pods/default/web-0)@2:create:pods/default/web-0
//! ```
//!
//! A point consists of the step, the verb of the change, the object, the changed fields of an update, joined by `+`, and
//! the number of the change among those of the same content, if it is not the first. Generated parts of names are `*`.
//! Characters of names and fields that have a meaning in this syntax are percent-encoded.
//!
//! A plan can also be a mutation of a custom resource, with the path of a field and a value in JSON:
//!
//! ```text
//! set(spec/replicas,3)@websites.example.dev/default/site
//! append(spec/pages,{"title":"a"})@websites.example.dev/default/site
//! remove(spec/pages/0)@websites.example.dev/default/site
//! reverse(spec/pages)@websites.example.dev/default/site
//! ```

use serde::{Deserialize, Serialize};

mod mutation;
mod text;

pub use mutation::{Edit, Json, Mutation};
pub use text::PlanError;

/// The faults or the mutation of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plan {
    /// Faults, in the order in which they strike. Without faults, it is a run without faults.
    Faults(Vec<Fault>),
    /// A change of one field of a custom resource.
    Mutation(Mutation),
}

impl Default for Plan {
    fn default() -> Self {
        Self::Faults(Vec::new())
    }
}

/// A fault at a point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The change at which it strikes.
    pub point: Point,
    /// The effect.
    pub effect: Effect,
}

/// The effect of a fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The program is killed after its write at the point is stored, and before the response. It is started again.
    Crash,
    /// The write is stored, and the connection is closed instead of a response.
    LostResponse,
    /// The write is stored, and the response arrives only after everything else has settled.
    Stalled,
    /// The write is refused with this status code and not stored.
    Refused(Refusal),
    /// The request waits, and is then executed.
    Delayed,
    /// Another client writes to the object directly before the program's write.
    Conflict,
    /// The write waits while another process of the program becomes the leader, and is then executed.
    Deposed,
    /// Events of the resource at the point and later ones reach the program only after everything else has settled.
    Lag,
    /// Events of the resource are held from the point until the other point, also over the end of a step. Then the watches
    /// end with code 410, so the program lists again and does not see the states in between.
    Gap {
        /// The change at which the watches end.
        until: Point,
    },
    /// After the change at the point, the program is killed and started again. Until everything else has settled, it sees
    /// the resource, or all resources, as of an earlier revision.
    Rewind {
        /// The resources that are served as of the earlier revision.
        scope: Scope,
        /// The revision just before the other change, or that of the other change.
        side: Side,
        /// The earlier change.
        to: Point,
    },
}

/// A status code with which a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// 409
    Conflict,
    /// 429
    TooManyRequests,
    /// 500
    InternalError,
    /// 504
    GatewayTimeout,
}

/// The resources that a rewind applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One resource, such as `statefulsets.apps`.
    Resource(String),
    /// All resources.
    All,
}

impl Scope {
    /// Returns `true` for one custom resource. The groups of built-in resources have no dot, or end in `.k8s.io`.
    pub(crate) fn is_custom(&self) -> bool {
        let Self::Resource(resource) = self else { return false };
        resource.split_once('.').is_some_and(|(_, group)| group.contains('.') && !group.ends_with(".k8s.io"))
    }
}

/// The revision just before a change, or that of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The revision just before the change.
    Before,
    /// The revision of the change.
    After,
}

/// A place in a run: a change, named by its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The number of the step. Step 0 is the start of the program.
    pub step: usize,
    /// The kind of the change.
    pub verb: ChangeVerb,
    /// The resource with its group, such as `deployments.apps`.
    pub resource: String,
    /// Empty for objects without a namespace.
    pub namespace: String,
    /// The name; a generated part is replaced by `*`.
    pub name: String,
    /// The changed fields of an update, at most two levels deep, sorted: `metadata.finalizers`, `spec.replicas`.
    pub fields: Vec<String>,
    /// The number of this change among the changes of the run with equal content. The first one is 1.
    pub occurrence: usize,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeVerb {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is removed. Setting the deletion timestamp is an update.
    Delete,
}

impl ChangeVerb {
    /// Returns the verb in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl Refusal {
    /// Returns the HTTP status code.
    pub const fn code(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::TooManyRequests => 429,
            Self::InternalError => 500,
            Self::GatewayTimeout => 504,
        }
    }
}

impl Plan {
    /// Creates a plan with one fault.
    #[must_use]
    pub fn of(effect: Effect, point: Point) -> Self {
        Self::Faults(vec![Fault { point, effect }])
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Faults(faults) => faults,
            Self::Mutation(_) => &[],
        }
    }

    /// Returns the mutation.
    #[must_use]
    pub const fn mutation(&self) -> Option<&Mutation> {
        match self {
            Self::Faults(_) => None,
            Self::Mutation(mutation) => Some(mutation),
        }
    }

    /// Returns `true` if the plan has neither faults nor a mutation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Faults(faults) if faults.is_empty())
    }

    /// Returns a description of the plan for readers.
    #[must_use]
    pub fn explained(&self) -> String {
        match self {
            Self::Faults(faults) if faults.is_empty() => "no fault".to_owned(),
            Self::Faults(faults) => faults.iter().map(Fault::explained).collect::<Vec<_>>().join("; "),
            Self::Mutation(mutation) => mutation.explained(),
        }
    }
}

impl Fault {
    /// Returns a description of the fault for readers.
    #[must_use]
    pub fn explained(&self) -> String {
        let Self { point, effect } = self;
        let at = point.explained();
        match effect {
            Effect::Crash => format!("the program is killed after it has made this change and restarted: {at}"),
            Effect::LostResponse => format!("the response to this write is lost: {at}"),
            Effect::Stalled => {
                format!("the response to this write arrives only after everything else has settled: {at}")
            }
            Effect::Refused(refusal) => format!("this write is refused with {}: {at}", refusal.code()),
            Effect::Delayed => format!("this write is delayed: {at}"),
            Effect::Conflict => format!("another client writes to the object just before this write: {at}"),
            Effect::Deposed => format!("another process becomes the leader before this write: {at}"),
            Effect::Lag => {
                format!("events of {} reach the program late, beginning with this change: {at}", point.resource)
            }
            Effect::Gap { until } => {
                let resource = &point.resource;
                format!(
                    "the program does not see the states of {resource} from this change: {at}; until: {}",
                    until.explained()
                )
            }
            Effect::Rewind { scope, side, to } => {
                let scope = match scope {
                    Scope::Resource(resource) => resource.as_str(),
                    Scope::All => "all resources",
                };
                let (side, to) = (side.as_str(), to.explained());
                format!(
                    "after this change: {at}, the program is restarted and first sees {scope} as {side} this change: {to}"
                )
            }
        }
    }
}

impl Effect {
    /// Returns the name of the effect, as in the text of a plan.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::LostResponse => "lost-response",
            Self::Stalled => "stalled",
            Self::Refused(_) => "refused",
            Self::Delayed => "delayed",
            Self::Conflict => "conflict",
            Self::Deposed => "deposed",
            Self::Lag => "lag",
            Self::Gap { .. } => "gap",
            Self::Rewind { .. } => "rewind",
        }
    }
}

impl Side {
    /// Returns the side as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl Point {
    /// Returns a description of the change for readers.
    #[must_use]
    pub fn explained(&self) -> String {
        let Self { step, verb, resource, namespace, name, fields, occurrence } = self;
        let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
        let occurrence = if *occurrence > 1 { format!(", number {occurrence}") } else { String::new() };
        format!("{verb} of {resource} {namespace}{name}{fields} in step {step}{occurrence}", verb = verb.as_str())
    }
}
