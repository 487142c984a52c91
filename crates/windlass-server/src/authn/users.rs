//! Configured users: users with static tokens, and users of in-process clients.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;

use super::{AUTHENTICATED, User};

/// Static tokens and their users. Tokens can be added while the server runs.
#[derive(Default)]
pub(crate) struct Tokens(RwLock<HashMap<Box<[u8]>, Arc<User>>>);

impl User {
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
}

impl Tokens {
    pub(crate) fn add(&self, token: &str, user: User) {
        self.0.write().insert(token.as_bytes().into(), Arc::new(user));
    }

    pub(super) fn user(&self, token: &[u8]) -> Option<Arc<User>> {
        self.0.read().get(token).cloned()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("users", &self.0.read().len()).finish_non_exhaustive()
    }
}
