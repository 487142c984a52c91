//! Access checks: the questions of expressions to the authorizer, and the answers.
//!
//! The evaluation does not call an authorizer. It stops at the first check without a known decision. The caller obtains
//! the decision and evaluates again.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// A question to the authorizer: may a user perform a request?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessCheck {
    /// The namespace and the name of a service account. `None` for the user of the request.
    pub account: Option<(String, String)>,
    /// The verb, such as `get`.
    pub verb: String,
    /// The object or path of the request.
    pub target: AccessTarget,
}

/// The object or path of an access check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessTarget {
    /// A path that is not a resource.
    Path(String),
    /// A resource.
    Resource(ResourceTarget),
}

/// The resource of an access check. Empty fields mean the same as in a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceTarget {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field selector, as written.
    pub field_selector: String,
    /// The label selector, as written.
    pub label_selector: String,
}

/// The decision of the authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// The request is allowed.
    pub allowed: bool,
    /// The reason of the authorizer.
    pub reason: String,
    /// The error of the authorizer, if it failed.
    pub error: Option<String>,
}

/// The known decisions.
pub type AccessDecisions = HashMap<AccessCheck, AccessDecision>;

/// A value in an expression on the way to a decision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccessValue {
    Authorizer { account: Option<(String, String)> },
    Path { account: Option<(String, String)>, path: String },
    Group { account: Option<(String, String)>, group: String },
    Resource { account: Option<(String, String)>, target: ResourceTarget },
    Decision(AccessDecision),
}

/// The decisions of an evaluation, and its first check without one.
#[derive(Debug)]
pub(crate) struct AccessState {
    decisions: Arc<AccessDecisions>,
    pending: RefCell<Option<AccessCheck>>,
}

impl AccessValue {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer { .. } => "kubernetes.authorization.Authorizer",
            Self::Path { .. } => "kubernetes.authorization.PathCheck",
            Self::Group { .. } => "kubernetes.authorization.GroupCheck",
            Self::Resource { .. } => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl AccessState {
    pub(crate) fn new(decisions: Arc<AccessDecisions>) -> Self {
        Self { decisions, pending: RefCell::default() }
    }

    /// Returns the decision on a check. Records the check if it has none.
    pub(crate) fn decide(&self, check: AccessCheck) -> Option<AccessDecision> {
        let known = self.decisions.get(&check).cloned();
        if known.is_none() {
            self.pending.borrow_mut().get_or_insert(check);
        }
        known
    }

    /// Returns the first check without a decision.
    pub(crate) fn pending(&self) -> Option<AccessCheck> {
        self.pending.borrow().clone()
    }
}
