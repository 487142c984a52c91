//! Configured users: users with static tokens, and users of in-process clients.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;

use crate::identity::User;

/// Static tokens and their users. Tokens can be added while the server runs.
#[derive(Default)]
pub(crate) struct Tokens(RwLock<HashMap<Box<[u8]>, Arc<User>>>);

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
