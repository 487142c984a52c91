//! Users and groups.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value, json};

/// Members of this group may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// The group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The prefix of service accounts' user names.
pub(crate) const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The extra that names the node to which a token is bound.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// A user who sends requests.
///
/// ```
/// use windlass_server::User;
///
/// let user = User::new("alice").in_groups(["developers"]);
/// assert_eq!(user.groups(), ["developers", "system:authenticated"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub(crate) name: String,
    /// Empty if the user has no UID.
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user of the server's own writes, as in kube-apiserver.
    pub(crate) fn own() -> Arc<Self> {
        static OWN: LazyLock<Arc<User>> =
            LazyLock::new(|| Arc::new(User::new("system:apiserver").in_groups([MASTERS])));
        Arc::clone(&OWN)
    }

    /// Creates a user with this name, in the group of all authenticated users.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: vec![AUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Adds the user to these groups.
    #[must_use]
    pub fn in_groups<G: Into<String>>(mut self, groups: impl IntoIterator<Item = G>) -> Self {
        // The group of all authenticated users comes last, as in kube-apiserver.
        self.groups.splice(0..0, groups.into_iter().map(Into::into).filter(|group| group != AUTHENTICATED));
        self
    }

    /// Sets the UID, which distinguishes users with the same name.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the groups.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Returns the user of a service account.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
            groups: vec![
                SERVICE_ACCOUNTS.to_owned(),
                format!("{SERVICE_ACCOUNTS}:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
            ..Self::default()
        }
    }

    /// Reports whether the user is a member of a group.
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds the user to a group.
    pub(crate) fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Returns the user as a `UserInfo`.
    pub(crate) fn to_value(&self) -> Value {
        let mut info = Map::new();
        if !self.name.is_empty() {
            info.insert("username".to_owned(), self.name.clone().into());
        }
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), self.uid.clone().into());
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(info)
    }
}
