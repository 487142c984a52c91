//! Users whom whoever runs the server has named: by their tokens, or where requests come from this process.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;

use super::{AUTHENTICATED, User};

/// Tokens, and whose they are. Any number can be added while the server runs.
#[derive(Default)]
pub(crate) struct Tokens(RwLock<HashMap<Box<[u8]>, Arc<User>>>);

impl User {
    /// A user of this name, in the group of all who have proven who they are.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: vec![AUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// The same user, in these groups too.
    #[must_use]
    pub fn in_groups<G: Into<String>>(mut self, groups: impl IntoIterator<Item = G>) -> Self {
        // As the real server tells them: the group that everybody is in comes last.
        self.groups.splice(0..0, groups.into_iter().map(Into::into).filter(|group| group != AUTHENTICATED));
        self
    }

    /// The same user, who is told apart from others of the name by this.
    #[must_use]
    pub fn with_uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = uid.into();
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
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
