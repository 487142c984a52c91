//! Capabilities that only some targets have.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use windlass_server::KubernetesVersion;

use crate::Target;

/// A capability that not every target has. Tests declare the ones that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// A kubectl of the server's version.
    Kubectl,
    /// Compaction on request by [`Target::history`]: the test knows which versions are too old.
    CompactsOnRequest,
    /// Watches that begin with the current objects.
    InitialEvents,
    /// The kinds of Kubernetes 1.34.
    KindsOf1_34,
    /// The kinds of Kubernetes 1.36.
    KindsOf1_36,
}

/// A capability that a target lacks.
struct Lacking {
    target: &'static str,
    /// Only before this version.
    before: Option<KubernetesVersion>,
    capability: Capability,
    /// The reason or the planned remedy.
    reason: &'static str,
}

const fn lacking(target: &'static str, capability: Capability, reason: &'static str) -> Lacking {
    Lacking { target, before: None, capability, reason }
}

/// Returns a capability that kube-apiserver lacks before a version.
const fn before(version: KubernetesVersion, capability: Capability, reason: &'static str) -> Lacking {
    Lacking { target: Target::UPSTREAM, before: Some(version), capability, reason }
}

/// Missing capabilities of targets. Remove an entry when it is implemented: a listed test that passes is an error.
const LACKING: &[Lacking] = &[
    lacking(Target::EMBEDDED, Capability::Kubectl, "`cargo xtask kubectl` tests kubectl with it"),
    lacking(Target::UPSTREAM, Capability::CompactsOnRequest, "it compacts at fixed times, minutes after its start"),
    before(KubernetesVersion::V1_34, Capability::InitialEvents, "the feature WatchList is disabled"),
    before(KubernetesVersion::V1_34, Capability::KindsOf1_34, "it serves no resource.k8s.io/v1"),
    before(KubernetesVersion::V1_36, Capability::KindsOf1_36, "it serves no MutatingAdmissionPolicy in v1"),
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
    let concerns = |lacking: &&Lacking| {
        lacking.target == target.name
            && lacking.before.is_none_or(|version| target.kubernetes < version)
            && needed.contains(&lacking.capability)
    };
    let name = target.name;
    let Some(Lacking { capability, reason, .. }) = LACKING.iter().find(concerns) else {
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
