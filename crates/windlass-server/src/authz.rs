//! Whether somebody may do something: by roles, and who has them.
//!
//! Members of `system:masters` may do everything. All others may do what the rules of the roles say that they, or a group
//! of theirs, are bound to: in the whole cluster, or in one namespace. There is no rule that forbids.
//!
//! Guaranteed: a decision takes account of every role and binding whose write was answered by this server before the
//! request came. Others can be asked before and after the roles: see [`chain`]. Not here: the node authorizer (a kubelet has
//! what its roles give it, whatever runs on it).

mod chain;
mod configuration;
mod coverage;
mod policy;
mod rule;
mod webhook;

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_api::{GroupResource, Status, StatusDetails, reason};

pub use self::{
    chain::AuthorizerChain,
    configuration::{AuthorizationConfiguration, ConfigurationError},
    webhook::AccessReviewer,
};
use self::{
    chain::Link,
    policy::{Binding, Follower},
    webhook::Opinion,
};
pub(crate) use self::{
    coverage::missing,
    policy::{Grants, RoleName, complaint, is_policy},
    rule::{Rule, quoted},
};
use crate::{
    authn::{AUTHENTICATED, User},
    codec::go_quote,
    http::RequestInfo,
    storage::Storage,
};

/// Members of this group may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// The group of the API of roles.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// What roles give them, as with `--authorization-mode=RBAC`.
    #[default]
    Rbac,
    /// Whoever has proven who they are may do everything; all others what roles give them. For tests of programs whose
    /// roles do not matter.
    AlwaysAllow,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt<'a> {
    /// `get`, `list`, …
    pub(crate) verb: &'a str,
    pub(crate) object: Object<'a>,
}

/// What they want to do it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Resource {
        group: &'a str,
        /// `*`: whichever.
        version: &'a str,
        resource: &'a str,
        /// Empty: the object itself.
        subresource: &'a str,
        /// Empty: the cluster, or all namespaces.
        namespace: &'a str,
        /// Empty: any, or not known yet.
        name: &'a str,
    },
    /// A path that is no resource.
    Path(&'a str),
}

/// The answer.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Whoever asks may do everything.
    Unrestricted,
    /// A rule allows it.
    Allowed(Reason),
    /// A webhook allows it, for a reason of its own.
    Granted(String),
    /// No authorizer allows it, for these reasons.
    Refused(String),
    /// A webhook forbids it, whoever else might allow it.
    Denied(String),
    /// No authorizer allows it, and a webhook could not be asked.
    Failed {
        /// The authorizers that come after the webhook were not asked either.
        denied: bool,
        reason: String,
        problem: String,
    },
}

/// The binding that makes the difference.
#[derive(Debug)]
pub(crate) struct Reason {
    binding: Arc<Binding>,
    /// Place of the first subject that the user is.
    subject: usize,
}

/// Decides. Roles are read with the first decision that needs them, and followed from then on.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    mode: Authorization,
    /// The authorizers, in turn; `None`: the mode decides.
    chain: Option<AuthorizerChain>,
    /// None: nobody has asked yet, or the storage could not be followed any further.
    follower: Mutex<Option<Follower>>,
}

// === impl Attempt ===

impl<'a> Attempt<'a> {
    /// What a request asks for.
    pub(crate) fn of(request: &'a RequestInfo) -> Self {
        let object = match &request.resource {
            None => Object::Path(&request.path),
            Some(path) => Object::Resource {
                group: &path.group,
                version: &path.version,
                resource: &path.resource,
                subresource: &path.subresource,
                namespace: path.namespace.as_deref().unwrap_or_default(),
                name: if path.name.is_empty() { &path.selected } else { &path.name },
            },
        };
        Self { verb: &request.verb, object }
    }

    fn namespace(&self) -> &'a str {
        match self.object {
            Object::Resource { namespace, .. } => namespace,
            Object::Path(_) => "",
        }
    }

    /// The refusal of it.
    pub(crate) fn forbidden(&self, user: &User, why: &str) -> Status {
        let (user, verb) = (go_quote(&user.name), self.verb);
        let what = match self.object {
            Object::Path(path) => format!("User {user} cannot {verb} path {}", go_quote(path)),
            Object::Resource { group, resource, subresource, namespace, .. } => {
                let what = match subresource {
                    "" => resource.to_owned(),
                    subresource => format!("{resource}/{subresource}"),
                };
                let whereabouts = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", go_quote(namespace)),
                };
                let (what, group) = (go_quote(&what), go_quote(group));
                format!("User {user} cannot {verb} resource {what} in API group {group} {whereabouts}")
            }
        };
        let mut message = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !why.is_empty() {
            message = format!("{message}: {why}");
        }
        match self.object {
            Object::Resource { group, resource, name, .. } => {
                Status::forbidden(&GroupResource::new(group.to_owned(), resource.to_owned()), name, message)
            }
            Object::Path(_) => Status::failure(403, reason::FORBIDDEN, format!("forbidden: {message}"))
                .with_details(StatusDetails::default()),
        }
    }
}

// === impl Decision ===

impl Decision {
    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, Self::Unrestricted | Self::Allowed(_) | Self::Granted(_))
    }

    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::Failed { denied: true, .. })
    }

    /// Returns the error on the way to the decision; empty without one.
    pub(crate) fn problem(&self) -> &str {
        if let Self::Failed { problem, .. } = self { problem } else { "" }
    }

    /// Why, as reviews tell it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unrestricted => String::new(),
            Self::Allowed(Reason { binding, subject }) => format!("RBAC: allowed by {}", binding.describe(*subject)),
            Self::Granted(why) | Self::Refused(why) | Self::Denied(why) | Self::Failed { reason: why, .. } => {
                why.clone()
            }
        }
    }
}

// === impl Authorizer ===

impl Authorizer {
    pub(crate) fn new(mode: Authorization, chain: Option<AuthorizerChain>) -> Self {
        Self { mode, chain, ..Self::default() }
    }

    /// Reports whether webhooks are asked, so that rules do not hold everything that a user may do.
    pub(crate) fn asks_webhooks(&self) -> bool {
        self.chain.as_ref().is_some_and(AuthorizerChain::asks_webhooks)
    }

    /// Whether the user may do everything, whatever the roles say.
    pub(crate) fn trusts(&self, user: &User) -> bool {
        user.is_in(MASTERS) || (self.mode == Authorization::AlwaysAllow && user.is_in(AUTHENTICATED))
    }

    /// Whether the user may do it.
    pub(crate) async fn decide(
        &self,
        storage: &dyn Storage,
        user: &User,
        attempt: &Attempt<'_>,
    ) -> Result<Decision, Status> {
        if self.trusts(user) {
            return Ok(Decision::Unrestricted);
        }
        match &self.chain {
            Some(chain) => self.decide_in_turn(chain, storage, user, attempt).await,
            None => self.ask(storage, |grants| grants.decide(user, attempt, attempt.namespace())).await,
        }
    }

    /// Asks one after the other, until one allows or forbids it.
    async fn decide_in_turn(
        &self,
        chain: &AuthorizerChain,
        storage: &dyn Storage,
        user: &User,
        attempt: &Attempt<'_>,
    ) -> Result<Decision, Status> {
        let (mut reasons, mut problems) = (Vec::new(), Vec::new());
        for link in chain.links() {
            match link {
                Link::AlwaysAllow => return Ok(Decision::Unrestricted),
                Link::AlwaysDeny => reasons.push("Everything is forbidden.".to_owned()),
                Link::Node => {}
                Link::Rbac => {
                    match self.ask(storage, |grants| grants.decide(user, attempt, attempt.namespace())).await? {
                        Decision::Refused(why) => reasons.push(why),
                        decided => return Ok(decided),
                    }
                }
                Link::Webhook(webhook) => match webhook.opinion(user, attempt).await {
                    Opinion::Allows(reason) => return Ok(Decision::Granted(reason)),
                    Opinion::Forbids(reason) => return Ok(Decision::Denied(reason)),
                    Opinion::None(reason) => reasons.push(reason),
                    Opinion::Failed { denied: true, reason, problem } => {
                        return Ok(Decision::Failed { denied: true, reason, problem });
                    }
                    Opinion::Failed { denied: false, reason, problem } => {
                        reasons.push(reason);
                        problems.push(problem);
                    }
                },
            }
        }
        reasons.retain(|reason| !reason.is_empty());
        let reason = reasons.join("\n");
        Ok(match problems.as_slice() {
            [] => Decision::Refused(reason),
            [problem] => Decision::Failed { denied: false, reason, problem: problem.clone() },
            several => Decision::Failed { denied: false, reason, problem: format!("[{}]", several.join(", ")) },
        })
    }

    /// Fails, in the words of the real server, unless the user may do it.
    pub(crate) async fn require(
        &self,
        storage: &dyn Storage,
        user: &User,
        attempt: &Attempt<'_>,
    ) -> Result<(), Status> {
        match self.decide(storage, user, attempt).await? {
            Decision::Unrestricted | Decision::Allowed(_) | Decision::Granted(_) => Ok(()),
            Decision::Refused(why) | Decision::Denied(why) => Err(attempt.forbidden(user, &why)),
            Decision::Failed { problem, .. } => Err(Status::internal(problem)),
        }
    }

    /// All that a user may do in a namespace; and the roles that are not there.
    pub(crate) async fn rules_of(
        &self,
        storage: &dyn Storage,
        user: &User,
        namespace: &str,
    ) -> Result<(Vec<Rule>, Vec<RoleName>), Status> {
        if self.mode == Authorization::AlwaysAllow && user.is_in(AUTHENTICATED) {
            return Ok((Rule::everything().into(), Vec::new()));
        }
        self.ask(storage, |grants| grants.rules_of(user, namespace)).await
    }

    /// Asks the roles and bindings as they are now.
    pub(crate) async fn ask<T>(&self, storage: &dyn Storage, question: impl Fn(&Grants) -> T) -> Result<T, Status> {
        if let Some(grants) = self.follower.lock().as_mut().and_then(Follower::now) {
            return Ok(question(grants));
        }
        let mut follower = Follower::start(storage).await.map_err(Status::internal)?;
        let answer = follower.now().map(&question);
        *self.follower.lock() = Some(follower);
        answer.ok_or_else(|| Status::internal("the roles cannot be followed in storage"))
    }
}

#[cfg(test)]
mod tests;
