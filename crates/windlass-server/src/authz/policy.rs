//! The stored roles and bindings, indexed for decisions and kept current by a watch of the storage.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::task::unconstrained;

use super::{AccessAttributes, Decision, GROUP, Reason, Rule};
use crate::{
    codec::go_quote,
    identity::{SERVICE_ACCOUNT, User},
    object::{DuplicateCheck, Tree},
    resource::{Item, ResourceInfo},
    storage::{
        EventStream, RangeQuery, Revision, Storage, StorageError, StorageEvent, StoredValue, last_commits::LastCommits,
    },
};

/// The storage prefixes of roles and bindings.
const PREFIXES: [(&str, Kind); 4] = [
    ("/registry/clusterrolebindings/", Kind::ClusterRoleBinding),
    ("/registry/clusterroles/", Kind::ClusterRole),
    ("/registry/rolebindings/", Kind::RoleBinding),
    ("/registry/roles/", Kind::Role),
];
/// The common prefixes of all these keys. Few other keys match.
pub(super) const WATCHED: [&str; 2] = ["/registry/clusterrole", "/registry/role"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

/// The name of a role. Ordered by namespace; cluster roles have none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoleName {
    /// `None` for cluster roles.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// A binding of a role to subjects, in one namespace or in the cluster.
#[derive(Debug)]
pub(crate) struct Binding {
    name: String,
    /// Empty for the cluster.
    namespace: String,
    role: RoleName,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    kind: String,
    name: String,
    /// The namespace of a service account.
    namespace: String,
    /// The user or the group that the subject stands for.
    member: Member,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    User(String),
    Group(String),
    Nobody,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    roles: BTreeMap<RoleName, Vec<Rule>>,
    /// The bindings by namespace. Those of the cluster have an empty namespace.
    scopes: BTreeMap<String, Scope>,
}

/// The bindings of a namespace by name, by user and by group.
#[derive(Debug, Default)]
struct Scope {
    bindings: BTreeMap<String, Arc<Binding>>,
    users: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
    groups: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
}

/// The grants, and the storage events that update them.
pub(super) struct Follower {
    grants: Grants,
    /// The events of each prefix, and the revision up to which they were read.
    events: Vec<(EventStream, Revision)>,
}

/// The state of a follower.
pub(super) enum Current<'a> {
    Grants(&'a Grants),
    /// The event of a commit of this server has not arrived yet.
    Behind(&'a Grants),
    /// The watch has ended. The caller must start a new follower.
    Ended,
}

/// Reports whether the resource is a role or a binding.
pub(crate) fn is_policy(resource: &ResourceInfo) -> bool {
    PREFIXES.iter().any(|(prefix, _)| *prefix == resource.prefix)
}

// === impl Follower ===

impl Follower {
    /// Reads the stored roles and bindings, and starts to watch them.
    pub(super) async fn start(storage: &dyn Storage) -> Result<Self, StorageError> {
        let mut follower = Self { grants: Grants::default(), events: Vec::new() };
        for prefix in WATCHED {
            let range = storage.range(RangeQuery::prefix(prefix)).await?;
            for value in &range.values {
                follower.grants.put(&value.key, Some(value));
            }
            follower.events.push((storage.watch(prefix, range.revision).await?, range.revision));
        }
        Ok(follower)
    }

    /// Returns the grants after all events so far, if they include the last commits of this server.
    pub(super) fn current(&mut self, commits: &LastCommits) -> Current<'_> {
        let mut is_behind = false;
        for (index, (events, progress)) in self.events.iter_mut().enumerate() {
            // Without tokio's cooperative budget, so that a busy task does not miss pending events.
            while let Some(delivery) = unconstrained(events.next()).now_or_never() {
                let Some(Ok(delivery)) = delivery else { return Current::Ended };
                *progress = delivery.progress().max(*progress);
                if let Some(StorageEvent { key, current, .. }) = delivery.into_event() {
                    self.grants.put(&key, current.as_ref());
                }
            }
            is_behind |= *progress < commits.last(index);
        }
        if is_behind { Current::Behind(&self.grants) } else { Current::Grants(&self.grants) }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("roles", &self.grants.roles.len()).finish_non_exhaustive()
    }
}

// === impl Grants ===

impl Grants {
    /// Updates the role or binding stored under a key.
    fn put(&mut self, key: &str, stored: Option<&StoredValue>) {
        let found = PREFIXES.iter().find_map(|(prefix, kind)| Some((key.strip_prefix(prefix)?, *kind)));
        let Some((rest, kind)) = found else { return };
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        // An unreadable object grants nothing.
        let object = stored.and_then(|stored| Some(Item::stored(stored).ok()?.value()));
        match kind {
            Kind::Role | Kind::ClusterRole => {
                let namespace = (kind == Kind::Role).then(|| namespace.to_owned());
                let role = RoleName { namespace, name: name.to_owned() };
                match object {
                    Some(object) => drop(self.roles.insert(role, Rule::all_of(&object))),
                    None => drop(self.roles.remove(&role)),
                }
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                let binding = object.map(|object| Binding::read(namespace, name, &object));
                let scope = self.scopes.entry(namespace.to_owned()).or_default();
                scope.put(name, binding);
                if scope.bindings.is_empty() {
                    self.scopes.remove(namespace);
                }
            }
        }
    }

    /// Decides whether the user may perform the request in the namespace.
    pub(super) fn decide(&self, user: &User, attempt: &AccessAttributes<'_>, namespace: &str) -> Decision {
        let mut missing = Vec::new();
        for binding in self.bindings(user, namespace) {
            match self.roles.get(&binding.role) {
                Some(rules) if rules.iter().any(|rule| rule.allows(attempt)) => {
                    let subject = binding.subjects.iter().position(|subject| subject.is(user)).unwrap_or_default();
                    return Decision::Allowed(Reason { binding: Arc::clone(binding), subject });
                }
                Some(_) => {}
                None => missing.push(binding.role.clone()),
            }
        }
        let why = missing_roles_error(&missing, RoleName::singular);
        Decision::Refused(why.map_or_else(String::new, |why| format!("RBAC: {why}")))
    }

    /// Returns all rules for a user in a namespace, and the names of missing roles.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<RoleName>) {
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        let mut seen = DuplicateCheck::default();
        for binding in self.bindings(user, namespace) {
            if seen.repeats(Arc::as_ptr(binding)) {
                continue;
            }
            match self.roles.get(&binding.role) {
                Some(found) => rules.extend_from_slice(found),
                None => missing.push(binding.role.clone()),
            }
        }
        (rules, missing)
    }

    /// Returns the rules of a role; `None` if it does not exist.
    pub(crate) fn rules(&self, role: &RoleName) -> Option<&[Rule]> {
        self.roles.get(role).map(Vec::as_slice)
    }

    /// Returns the bindings of a user, first of the cluster, then of the namespace. A binding may occur more than once.
    fn bindings<'g>(&'g self, user: &'g User, namespace: &'g str) -> impl Iterator<Item = &'g Arc<Binding>> {
        let scopes = ["", namespace].into_iter().take(if namespace.is_empty() { 1 } else { 2 });
        scopes.filter_map(|scope| self.scopes.get(scope)).flat_map(|scope| {
            let by_group = user.groups.iter().filter_map(|group| scope.groups.get(group));
            scope.users.get(&user.name).into_iter().chain(by_group).flat_map(BTreeMap::values)
        })
    }
}

/// Returns a message about missing roles; `None` if there are none. `word` returns the name of a role's resource.
pub(crate) fn missing_roles_error(missing: &[RoleName], word: fn(&RoleName) -> &'static str) -> Option<String> {
    let (mut texts, mut seen) = (Vec::new(), DuplicateCheck::default());
    for role in missing {
        if !seen.repeats((word(role), role.name.as_str())) {
            texts.push(format!("{}.{GROUP} {} not found", word(role), go_quote(&role.name)));
        }
    }
    match texts.len() {
        0 | 1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

// === impl Scope ===

impl Scope {
    fn put(&mut self, name: &str, binding: Option<Binding>) {
        if let Some(old) = self.bindings.remove(name) {
            for subject in &old.subjects {
                let Some((index, member)) = self.index(&subject.member) else { continue };
                if let Some(bindings) = index.get_mut(member) {
                    bindings.remove(name);
                    if bindings.is_empty() {
                        index.remove(member);
                    }
                }
            }
        }
        let Some(binding) = binding.map(Arc::new) else { return };
        for subject in &binding.subjects {
            let Some((index, member)) = self.index(&subject.member) else { continue };
            index.entry(member.clone()).or_default().insert(name.to_owned(), Arc::clone(&binding));
        }
        self.bindings.insert(name.to_owned(), binding);
    }

    fn index<'m>(
        &mut self,
        member: &'m Member,
    ) -> Option<(&mut BTreeMap<String, BTreeMap<String, Arc<Binding>>>, &'m String)> {
        match member {
            Member::User(name) => Some((&mut self.users, name)),
            Member::Group(name) => Some((&mut self.groups, name)),
            Member::Nobody => None,
        }
    }
}

// === impl Binding ===

impl Binding {
    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let subjects = object.items(&["subjects"]).iter().map(|subject| Subject::read(namespace, subject)).collect();
        let role = RoleName::of(object, namespace);
        Self { name: name.to_owned(), namespace: namespace.to_owned(), role, subjects }
    }

    /// Describes the binding with one of its subjects.
    pub(super) fn describe(&self, subject: usize) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let (role, recipient) = (
            if self.role.namespace.is_some() { "Role" } else { "ClusterRole" },
            self.subjects.get(subject).map_or_else(String::new, Subject::describe),
        );
        format!("{kind} {} of {role} {} to {recipient}", go_quote(&name), go_quote(&self.role.name))
    }
}

impl Subject {
    /// Reads a subject. `here` is the namespace of the binding, the default for service accounts.
    fn read(here: &str, subject: &Value) -> Self {
        let text = |field| subject.text(&[field]).to_owned();
        let (kind, name) = (text("kind"), text("name"));
        let namespace = Some(text("namespace")).filter(|own| !own.is_empty()).unwrap_or_else(|| here.to_owned());
        let member = match kind.as_str() {
            "User" => Member::User(name.clone()),
            "Group" => Member::Group(name.clone()),
            "ServiceAccount" if !namespace.is_empty() => Member::User(format!("{SERVICE_ACCOUNT}{namespace}:{name}")),
            _ => Member::Nobody,
        };
        Self { kind, name, namespace, member }
    }

    fn is(&self, user: &User) -> bool {
        match &self.member {
            Member::User(name) => *name == user.name,
            Member::Group(name) => user.is_in(name),
            Member::Nobody => false,
        }
    }

    fn describe(&self) -> String {
        let Self { kind, name, namespace, .. } = self;
        let name = if kind == "ServiceAccount" { format!("{name}/{namespace}") } else { name.clone() };
        format!("{kind} {}", go_quote(&name))
    }
}

// === impl RoleName ===

impl RoleName {
    /// Returns the role of a binding. `namespace` is the namespace of the binding.
    pub(crate) fn of(binding: &Value, namespace: &str) -> Self {
        let is_local = binding.text(&["roleRef", "kind"]) == "Role";
        let name = binding.text(&["roleRef", "name"]).to_owned();
        Self { namespace: is_local.then(|| namespace.to_owned()), name }
    }

    /// Returns the resource name in the authorizer's messages.
    pub(crate) fn singular(&self) -> &'static str {
        if self.namespace.is_some() { "role" } else { "clusterrole" }
    }

    /// Returns the plural of the resource.
    pub(crate) fn plural(&self) -> &'static str {
        if self.namespace.is_some() { "roles" } else { "clusterroles" }
    }
}
