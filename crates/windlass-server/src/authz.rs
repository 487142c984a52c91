//! Authorization of requests by roles and role bindings (RBAC).
//!
//! Members of `system:masters` may do everything. All other users have the permissions of the roles that they or their
//! groups are bound to, in the whole cluster or in one namespace. No rule denies a permission.
//!
//! Guaranteed: a decision includes every role and binding whose write this server answered before the request arrived.
//! Writes by other servers to the same storage follow as soon as the storage delivers them.
//!
//! Other authorizers can run before and after RBAC: see [`chain`] and [`node`].

mod chain;
mod configuration;
mod coverage;
pub(crate) mod default_roles;
mod node;
mod policy;
mod rule;
mod webhook;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use windlass_api::{GroupResource, Status, StatusDetails, reason};

pub use self::{
    chain::AuthorizerChain,
    configuration::{AuthorizationConfiguration, AuthorizationWebhookOptions, ConfigurationError},
    webhook::AccessReviewer,
};
use self::{
    chain::Link,
    node::{CurrentGraph, Graph, GraphFollower, Verdict},
    policy::{Binding, Current, Follower},
    webhook::Opinion,
};
pub(crate) use self::{
    coverage::{missing, uncovered},
    node::node_name,
    policy::{Grants, RoleName, is_policy, missing_roles_error},
    rule::{Rule, quoted},
};
use crate::{
    codec::go_quote,
    identity::{AUTHENTICATED, MASTERS, User},
    kubernetes::KubernetesVersion,
    request::RequestInfo,
    single_flight::SingleFlight,
    storage::{Storage, last_commits::LastCommits},
};

/// The API group of roles.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The name of the authorizer by roles, if no configuration names it.
const RBAC: &str = "rbac";

/// The number of times that a decision waits for the event of a commit of this server, before it reads all roles again.
const DELIVERY_CHECKS: u32 = 50;

/// The prefixes of roles and bindings, and those of the graph.
static WATCHED: [&str; 7] = {
    let ([a, b], [c, d, e, f, g]) = (policy::WATCHED, node::WATCHED);
    [a, b, c, d, e, f, g]
};

/// The time that it waits each time.
const DELIVERY_PAUSE: Duration = Duration::from_millis(1);

/// The authorization mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// Users have the permissions of their roles, as with `--authorization-mode=RBAC`.
    #[default]
    Rbac,
    /// Authenticated users may do everything. All other users have the permissions of their roles. For tests of
    /// programs that don't depend on roles.
    AlwaysAllow,
}

/// The attributes of a request for authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessAttributes<'a> {
    /// `get`, `list`, …
    pub(crate) verb: &'a str,
    pub(crate) object: Object<'a>,
    /// The node that the field selector of a list or watch requires in `spec.nodeName`.
    pub(crate) selected_node: Option<&'a str>,
}

/// The object or path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Resource {
        group: &'a str,
        /// `*` for any version.
        version: &'a str,
        resource: &'a str,
        /// Empty for the object itself.
        subresource: &'a str,
        /// Empty for cluster-scoped resources or all namespaces.
        namespace: &'a str,
        /// Empty for any name, or if the name is not known yet.
        name: &'a str,
    },
    /// A path that is not a resource.
    Path(&'a str),
}

/// The decision of the authorizers.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The user may do everything.
    Unrestricted,
    /// A rule allows it.
    Allowed(Reason),
    /// A webhook allows it, for this reason.
    Granted(String),
    /// No authorizer allows it, for these reasons.
    Refused(String),
    /// A webhook denies it, regardless of other authorizers.
    Denied(String),
    /// No authorizer allows it, and a webhook could not be called.
    Failed {
        /// The remaining authorizers were skipped.
        denied: bool,
        reason: String,
        problem: String,
    },
}

/// The opinion of the node authorizer.
enum NodeDecision {
    Allowed,
    None(String),
}

/// The binding that grants the permission.
#[derive(Debug)]
pub(crate) struct Reason {
    binding: Arc<Binding>,
    /// The index of the first subject that matches the user.
    subject: usize,
}

/// Decides whether users may do something. Reads the roles with the first decision that needs them, and watches them
/// from then on.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    mode: Authorization,
    /// The authorizers, in order. If `None`, the mode decides.
    chain: Option<AuthorizerChain>,
    /// The version that decides the form of reasons.
    kubernetes: KubernetesVersion,
    /// The cache of roles. `None` before the first decision, and after the watch of the storage ended.
    follower: Mutex<Option<Follower>>,
    /// The graph of the node authorizer, like `follower`.
    graph: Arc<Mutex<Option<GraphFollower>>>,
    /// The start of the graph in progress.
    graph_start: SingleFlight<Result<(), Status>>,
    /// The rules of nodes.
    node_rules: OnceLock<Vec<Rule>>,
    /// The last commits of this server to roles, bindings, and the objects in the graph.
    commits: Arc<LastCommits>,
}

// === impl AccessAttributes ===

impl<'a> AccessAttributes<'a> {
    /// Returns the attributes of a request.
    pub(crate) fn of(request: &'a RequestInfo) -> Self {
        let object = match &request.resource {
            None => Object::Path(&request.path),
            Some(path) => Object::Resource {
                group: &path.group,
                version: &path.version,
                resource: &path.resource,
                subresource: &path.subresource,
                namespace: path.namespace.as_deref().unwrap_or_default(),
                name: path.requested_name(),
            },
        };
        let selected_node = request.resource.as_ref().and_then(|path| path.selected_node.as_deref());
        Self { verb: &request.verb, object, selected_node }
    }

    /// Returns the attributes of a request without a field selector.
    pub(crate) const fn new(verb: &'a str, object: Object<'a>) -> Self {
        Self { verb, object, selected_node: None }
    }

    fn namespace(&self) -> &'a str {
        match self.object {
            Object::Resource { namespace, .. } => namespace,
            Object::Path(_) => "",
        }
    }

    /// Returns the `Status` that rejects the request.
    pub(crate) fn forbidden(&self, user: &User, why: &str) -> Status {
        let (user, verb) = (go_quote(&user.name), self.verb);
        let what = match self.object {
            Object::Path(path) => format!("User {user} cannot {verb} path {}", go_quote(path)),
            Object::Resource { group, resource, subresource, namespace, .. } => {
                let what = match subresource {
                    "" => resource.to_owned(),
                    subresource => format!("{resource}/{subresource}"),
                };
                let location = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", go_quote(namespace)),
                };
                let (what, group) = (go_quote(&what), go_quote(group));
                format!("User {user} cannot {verb} resource {what} in API group {group} {location}")
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

    /// Returns the error of a failed webhook call; empty without one.
    pub(crate) fn problem(&self) -> &str {
        if let Self::Failed { problem, .. } = self { problem } else { "" }
    }

    /// Returns an error in kube-apiserver's words unless the request is allowed.
    pub(crate) fn require(self, user: &User, attempt: &AccessAttributes<'_>) -> Result<(), Status> {
        match self {
            Self::Unrestricted | Self::Allowed(_) | Self::Granted(_) => Ok(()),
            Self::Refused(why) | Self::Denied(why) => Err(attempt.forbidden(user, &why)),
            Self::Failed { problem, .. } => Err(Status::internal(problem)),
        }
    }

    /// Returns the reason, as access reviews report it.
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
    pub(crate) fn new(mode: Authorization, chain: Option<AuthorizerChain>, kubernetes: KubernetesVersion) -> Self {
        let commits = Arc::new(LastCommits::new(&WATCHED));
        Self { mode, chain, kubernetes, commits, ..Self::default() }
    }

    /// Returns the record of this server's commits to roles and bindings.
    pub(crate) fn last_commits(&self) -> Arc<LastCommits> {
        Arc::clone(&self.commits)
    }

    /// Reports whether roles decide about requests, possibly after other authorizers.
    pub(crate) fn has_roles(&self) -> bool {
        self.chain.as_ref().is_none_or(AuthorizerChain::has_rbac)
    }

    /// Reports whether the chain has webhooks. If so, a user's rules don't include all of their permissions.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.chain.as_ref().is_some_and(AuthorizerChain::has_webhooks)
    }

    /// Reports whether the node authorizer decides about the user, in addition to their rules.
    pub(crate) fn is_node(&self, user: &User) -> bool {
        node_name(user).is_some() && self.chain.as_ref().is_some_and(AuthorizerChain::has_node)
    }

    /// Reports whether the user may do everything, regardless of roles.
    pub(crate) fn is_unrestricted(&self, user: &User) -> bool {
        user.is_in(MASTERS) || (self.mode == Authorization::AlwaysAllow && user.is_in(AUTHENTICATED))
    }

    /// Decides whether the user may perform the request.
    pub(crate) async fn decide(
        &self,
        storage: &Arc<dyn Storage>,
        user: &User,
        attempt: &AccessAttributes<'_>,
    ) -> Result<Decision, Status> {
        if self.is_unrestricted(user) {
            return Ok(Decision::Unrestricted);
        }
        match &self.chain {
            Some(chain) => self.run_chain(chain, storage, user, attempt).await,
            None => Ok(match self.decide_by_roles(storage, user, attempt).await? {
                Decision::Refused(why) => Decision::Refused(self.attribute(RBAC, why)),
                decided => decided,
            }),
        }
    }

    async fn decide_by_roles(
        &self,
        storage: &Arc<dyn Storage>,
        user: &User,
        attempt: &AccessAttributes<'_>,
    ) -> Result<Decision, Status> {
        self.with_grants(storage, |grants| grants.decide(user, attempt, attempt.namespace())).await
    }

    /// Returns the reason of an authorizer without an opinion. Since 1.37, it begins with the authorizer's name.
    fn attribute(&self, name: &str, reason: String) -> String {
        if reason.is_empty() || self.kubernetes < KubernetesVersion::V1_37 {
            reason
        } else {
            format!("{name}: {reason}")
        }
    }

    /// Runs the authorizers in order, until one allows or denies the request.
    async fn run_chain(
        &self,
        chain: &AuthorizerChain,
        storage: &Arc<dyn Storage>,
        user: &User,
        attempt: &AccessAttributes<'_>,
    ) -> Result<Decision, Status> {
        let (mut reasons, mut problems) = (Vec::new(), Vec::new());
        for (name, link) in chain.links() {
            let mut add = |reason| reasons.push(self.attribute(name, reason));
            match link {
                Link::AlwaysAllow => return Ok(Decision::Unrestricted),
                Link::AlwaysDeny => add("Everything is forbidden.".to_owned()),
                Link::Node => match self.decide_by_node(storage, user, attempt).await? {
                    NodeDecision::Allowed => return Ok(Decision::Granted(String::new())),
                    NodeDecision::None(why) => add(why),
                },
                Link::Rbac => match self.decide_by_roles(storage, user, attempt).await? {
                    Decision::Refused(why) => add(why),
                    decided => return Ok(decided),
                },
                Link::Webhook(webhook) => match webhook.opinion(user, attempt).await {
                    Opinion::Allows(reason) => return Ok(Decision::Granted(reason)),
                    Opinion::Forbids(reason) => return Ok(Decision::Denied(reason)),
                    Opinion::None(reason) => add(reason),
                    Opinion::Failed { denied: true, reason, problem } => {
                        return Ok(Decision::Failed { denied: true, reason, problem });
                    }
                    Opinion::Failed { denied: false, reason, problem } => {
                        add(reason);
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

    /// Decides about the request of a node.
    async fn decide_by_node(
        &self,
        storage: &Arc<dyn Storage>,
        user: &User,
        attempt: &AccessAttributes<'_>,
    ) -> Result<NodeDecision, Status> {
        let name = match node_name(user) {
            None => return Ok(NodeDecision::None(String::new())),
            Some("") => return Ok(NodeDecision::None(format!("unknown node for user {}", go_quote(&user.name)))),
            Some(name) => name,
        };
        let rules = self.node_rules.get_or_init(|| node::rules(self.kubernetes));
        let vertex = match node::judge(name, attempt, rules, self.kubernetes) {
            Verdict::Allowed => return Ok(NodeDecision::Allowed),
            Verdict::NoOpinion(why) => return Ok(NodeDecision::None(why)),
            Verdict::IfRelated(vertex) => vertex,
        };
        let decided = self.with_graph(storage, |graph| graph.decide(name, vertex)).await?;
        Ok(decided.map_or_else(NodeDecision::None, |()| NodeDecision::Allowed))
    }

    /// Evaluates a question with the current graph.
    async fn with_graph<T>(&self, storage: &Arc<dyn Storage>, evaluate: impl Fn(&Graph) -> T) -> Result<T, Status> {
        let first = policy::WATCHED.len();
        loop {
            for _ in 0..DELIVERY_CHECKS {
                match self.graph.lock().as_mut().map(|follower| follower.current(&self.commits, first)) {
                    Some(CurrentGraph::Graph(graph)) => return Ok(evaluate(graph)),
                    Some(CurrentGraph::Behind(_)) => {}
                    Some(CurrentGraph::Ended) | None => break,
                }
                tokio::time::sleep(DELIVERY_PAUSE).await;
            }
            let is_own = self.start_graph(storage).await?;
            match self.graph.lock().as_mut().map(|follower| follower.current(&self.commits, first)) {
                Some(CurrentGraph::Graph(graph)) => return Ok(evaluate(graph)),
                // Commits after the request arrived need not be included.
                Some(CurrentGraph::Behind(graph)) if is_own => return Ok(evaluate(graph)),
                Some(CurrentGraph::Ended) | None if is_own => {
                    return Err(Status::internal("the watch of the pods in storage has ended"));
                }
                _ => {}
            }
        }
    }

    /// Starts to follow the graph. Requests share a start in progress. Reports whether this call has begun it.
    async fn start_graph(&self, storage: &Arc<dyn Storage>) -> Result<bool, Status> {
        let mut is_own = false;
        let begin = || {
            is_own = true;
            let (graph, storage) = (Arc::clone(&self.graph), Arc::clone(storage));
            let start = async move {
                let follower = GraphFollower::start(&*storage).await?;
                *graph.lock() = Some(follower);
                Ok(())
            };
            start.boxed()
        };
        self.graph_start.join(begin, || Err(Status::internal("the start of the graph has ended"))).await?;
        Ok(is_own)
    }

    /// Returns an error in kube-apiserver's words unless the user may perform the request.
    pub(crate) async fn require(
        &self,
        storage: &Arc<dyn Storage>,
        user: &User,
        attempt: &AccessAttributes<'_>,
    ) -> Result<(), Status> {
        self.decide(storage, user, attempt).await?.require(user, attempt)
    }

    /// Returns all rules for a user in a namespace, and the names of missing roles.
    pub(crate) async fn rules_of(
        &self,
        storage: &Arc<dyn Storage>,
        user: &User,
        namespace: &str,
    ) -> Result<(Vec<Rule>, Vec<RoleName>), Status> {
        if self.mode == Authorization::AlwaysAllow && user.is_in(AUTHENTICATED) {
            return Ok((Rule::everything().into(), Vec::new()));
        }
        self.with_grants(storage, |grants| grants.rules_of(user, namespace)).await
    }

    /// Evaluates a question with the current roles and bindings.
    pub(crate) async fn with_grants<T>(
        &self,
        storage: &Arc<dyn Storage>,
        evaluate: impl Fn(&Grants) -> T,
    ) -> Result<T, Status> {
        for _ in 0..DELIVERY_CHECKS {
            match self.follower.lock().as_mut().map(|follower| follower.current(&self.commits)) {
                Some(Current::Grants(grants)) => return Ok(evaluate(grants)),
                Some(Current::Behind(_)) => {}
                Some(Current::Ended) | None => break,
            }
            tokio::time::sleep(DELIVERY_PAUSE).await;
        }
        let mut follower = Follower::start(&**storage).await.map_err(Status::internal)?;
        let answer = match follower.current(&self.commits) {
            // Commits after the request arrived need not be included.
            Current::Grants(grants) | Current::Behind(grants) => Some(evaluate(grants)),
            Current::Ended => None,
        };
        *self.follower.lock() = Some(follower);
        answer.ok_or_else(|| Status::internal("the watch of the roles in storage has ended"))
    }
}

#[cfg(test)]
mod tests;
