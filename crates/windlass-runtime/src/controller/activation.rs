//! The processes in which a controller acts.

use crate::{Error, Leadership, Result, Shard, runnable::RunnableContext};

/// The behavior of a controller in processes that are not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    /// It does nothing.
    Lead,
    /// It fills its caches and its queue.
    WarmUp,
    /// It reconciles as in the leader.
    None,
    /// It reconciles the keys of its shard. Without sharding it warms up.
    Shard,
}

impl Activation {
    /// Returns the leadership and the shard that the controller with this name depends on.
    pub(super) fn resolve(self, name: &str, context: &RunnableContext) -> Result<(Leadership, Shard)> {
        let shares = context.shard().is_shared();
        match self {
            Self::None => Ok((Leadership::alone(), Shard::alone())),
            Self::Shard if shares => Ok((Leadership::alone(), context.shard().clone())),
            // The controller would act in every replica, on all keys.
            Self::Lead | Self::WarmUp if shares && context.leadership().is_alone() => {
                Err(Error::NotSharded { name: name.to_owned() })
            }
            Self::Lead | Self::WarmUp | Self::Shard => Ok((context.leadership().clone(), Shard::alone())),
        }
    }
}
