//! What a test may need of a server that not every target has.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;

use crate::Target;

/// What a server can do beyond what every target does. A test that needs one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// It comes with a kubectl.
    Kubectl,
    /// Its history can be forgotten by [`Target::history`]: the test knows what is too old.
    ForgetsWhenTold,
}

/// Which target lacks what, and what brings it, or why nothing will. What is built comes off this list: a test that passes
/// in spite of it fails.
const LACKING: &[(&str, Capability, &str)] = &[
    (Target::EMBEDDED, Capability::Kubectl, "what kubectl does with it is seen by `cargo xtask kubectl`"),
    (Target::UPSTREAM, Capability::ForgetsWhenTold, "it compacts when it likes, minutes after its start"),
];

/// Runs a test against each target in turn. Where a target lacks what the test needs, it must fail.
///
/// # Panics
/// When the test fails on a target that has all it needs, or does not on one that is listed to lack some of it.
pub async fn on_each_target_with<F>(needed: &[Capability], test: impl Fn(Target) -> F)
where
    F: Future<Output = Target>,
{
    for target in Target::all().await {
        // Boxed, since tests are long.
        judge(target, needed, |target| Box::pin(test(target))).await;
    }
}

async fn judge<F: Future<Output = Target>>(target: Target, needed: &[Capability], test: impl Fn(Target) -> F) {
    // Shown when the test fails: which of the two it was.
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

    /// Whether all is well when a test passes, or fails, on the embedded server.
    async fn outcome(needed: &[Capability], passes: bool) -> bool {
        let test = |target| async move {
            assert!(passes, "as told");
            target
        };
        AssertUnwindSafe(judge(Target::embedded().await, needed, test)).catch_unwind().await.is_ok()
    }

    #[tokio::test]
    async fn a_test_fails_where_a_target_lacks_what_it_needs_and_nowhere_else() {
        assert!(outcome(&[], true).await);
        assert!(!outcome(&[], false).await);
        assert!(outcome(&[Capability::ForgetsWhenTold], true).await);
        assert!(outcome(&[Capability::Kubectl], false).await);
        assert!(!outcome(&[Capability::Kubectl], true).await, "it is there, and still on the list");
    }
}
