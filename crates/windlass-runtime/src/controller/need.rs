//! What a controller needs to act.

use crate::{Error, Leadership, Result, Shard, manager::Running};

/// What a controller does in processes that do not lead, if there is an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Lead,
    /// It fills its caches and its queue.
    WarmUp,
    /// What it does in the leader's.
    None,
    /// What it does in the leader's, on the keys of its shard; without sharding it warms up.
    Shard,
}

impl Need {
    /// When a controller of that name may act, and on what.
    pub(super) fn of(self, name: &str, running: &Running) -> Result<(Leadership, Shard)> {
        let shares = running.shard().is_shared();
        match self {
            Self::None => Ok((Leadership::alone(), Shard::alone())),
            Self::Shard if shares => Ok((Leadership::alone(), running.shard().clone())),
            // It would act in every replica, on all keys.
            Self::Lead | Self::WarmUp if shares && running.leadership().is_alone() => {
                Err(Error::NotSharded { name: name.to_owned() })
            }
            Self::Lead | Self::WarmUp | Self::Shard => Ok((running.leadership().clone(), Shard::alone())),
        }
    }
}
