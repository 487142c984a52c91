//! Capabilities that only some targets have.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;

use crate::Target;

/// A capability that not every target has. Tests declare the ones that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// A kubectl of the server's version.
    Kubectl,
    /// Compaction on request by [`Target::history`]: the test knows which versions are too old.
    CompactsOnRequest,
}

/// Missing capabilities of targets, with the reason or the planned remedy. Remove an entry when it is implemented: a
/// listed test that passes is an error.
const LACKING: &[(&str, Capability, &str)] = &[
    (Target::EMBEDDED, Capability::Kubectl, "what kubectl does with it is seen by `cargo xtask kubectl`"),
    (Target::UPSTREAM, Capability::CompactsOnRequest, "it compacts when it likes, minutes after its start"),
];

/// Runs a test with each target in turn. The test must fail with targets that lack a needed capability.
///
/// # Panics
///
/// If the test fails with a target that has all capabilities, or passes with a target that lacks one.
pub async fn on_each_target_with<F>(needed: &[Capability], test: impl Fn(Target) -> F)
where
    F: Future<Output = Target>,
{
    for target in Target::all().await {
        // Boxed, because the futures of tests are large.
        check(target, needed, |target| Box::pin(test(target))).await;
    }
}

async fn check<F: Future<Output = Target>>(target: Target, needed: &[Capability], test: impl Fn(Target) -> F) {
    // Identifies the target in the output of a failed test.
    println!("target: {}", target.name);
    let lacking = LACKING.iter().find(|(name, lacks, _)| *name == target.name && needed.contains(lacks));
    let Some((name, capability, reason)) = lacking else {
        test(target).await.stop().await;
        return;
    };
    println!("{name} lacks {capability:?}: {reason}");
    assert!(
        AssertUnwindSafe(test(target)).catch_unwind().await.is_err(),
        "{name} is listed to lack {capability:?} ({reason}), and yet the test passes: take it off the list"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports whether the outcome of a test is as expected for the embedded server.
    async fn outcome(needed: &[Capability], passes: bool) -> bool {
        let test = |target| async move {
            assert!(passes, "as told");
            target
        };
        AssertUnwindSafe(check(Target::embedded().await, needed, test)).catch_unwind().await.is_ok()
    }

    #[tokio::test]
    async fn test_fails_only_on_targets_without_its_capabilities() {
        assert!(outcome(&[], true).await);
        assert!(!outcome(&[], false).await);
        assert!(outcome(&[Capability::CompactsOnRequest], true).await);
        assert!(outcome(&[Capability::Kubectl], false).await);
        assert!(!outcome(&[Capability::Kubectl], true).await, "it is there, and still on the list");
    }
}
