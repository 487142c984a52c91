//! The errors of a KMS provider. Each names the provider.

use std::{sync::Arc, time::Duration};

/// The reason why a KMS provider cannot encrypt or decrypt a value, or is not healthy. Clones share one failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum KmsError {
    #[error("KMS provider {name:?} has no key yet: its plugin has not been healthy since the start")]
    NoSeed { name: Arc<str> },
    #[error(
        "the key of KMS provider {name:?} with key id {key_id} expired {elapsed:?} ago: its plugin has not been healthy since"
    )]
    Expired { name: Arc<str>, key_id: String, elapsed: Duration },
    #[error("the value of KMS provider {name:?} is invalid: {reason}")]
    Object { name: Arc<str>, reason: String },
    #[error("failed to decrypt DEK, error: KMS provider {name:?}: {reason}")]
    Decrypt { name: Arc<str>, reason: String },
    /// The words of kube-apiserver.
    #[error("{reason}")]
    Value { name: Arc<str>, reason: super::super::cipher::DecryptError },
    #[error("kmsv2 Provider {name} is not healthy, error: {reason}")]
    Unhealthy { name: Arc<str>, reason: String },
}
