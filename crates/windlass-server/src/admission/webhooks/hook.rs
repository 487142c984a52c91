//! A registered webhook: its rules, selectors and failure policy.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use windlass_api::Status;

use super::{Attributes, call::Failure};
use crate::{
    admission::{invocation::Invocation, matching::MatchResources},
    kinds::{conditions::Conditions, expressions::Expression},
    object::Tree,
    registry::{HookId, Registry},
};

/// One entry of a configuration.
pub(super) struct Hook {
    configuration: String,
    index: usize,
    webhook: Value,
    matching: MatchResources,
}

impl Hook {
    pub(super) fn new(configuration: String, index: usize, webhook: Value) -> Self {
        let matching = MatchResources::of_webhook(&webhook);
        Self { configuration, index, webhook, matching }
    }

    pub(super) fn id(&self) -> HookId {
        (self.configuration.clone(), self.index)
    }

    pub(super) fn configuration(&self) -> &str {
        &self.configuration
    }

    pub(super) fn name(&self) -> &str {
        self.webhook.text(&["name"])
    }

    pub(super) fn client_config(&self) -> &Value {
        self.webhook.at(&["clientConfig"]).unwrap_or(&Value::Null)
    }

    pub(super) fn timeout(&self) -> Duration {
        let seconds = self.webhook.int(&["timeoutSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(10))
    }

    /// Returns the first review version of the webhook that this server supports.
    pub(super) fn review_version(&self) -> Option<&str> {
        let versions = self.webhook.items(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        versions.into_iter().find(|version| matches!(*version, "v1" | "v1beta1"))
    }

    pub(super) fn has_no_side_effects(&self) -> bool {
        matches!(self.webhook.text(&["sideEffects"]), "None" | "NoneOnDryRun")
    }

    pub(super) fn is_reinvoked(&self) -> bool {
        self.webhook.text(&["reinvocationPolicy"]) == "IfNeeded"
    }

    pub(super) fn has_conditions(&self) -> bool {
        !self.webhook.items(&["matchConditions"]).is_empty()
    }

    pub(super) fn conditions(&self, conditions: &Conditions) -> Vec<Arc<Expression>> {
        conditions.of(&self.webhook)
    }

    /// Reports whether a write fails if this webhook cannot be called.
    pub(super) fn fails_closed(&self) -> bool {
        self.webhook.text(&["failurePolicy"]) != "Ignore"
    }

    /// Handles a failed call. Returns an error if the failure policy is `Fail`.
    pub(super) fn failed(&self, failure: &Failure) -> Result<(), Status> {
        let why = format!("failed calling webhook {:?}: {failure}", self.name());
        if !self.fails_closed() {
            tracing::warn!(why, "ignored a failed webhook call");
            return Ok(());
        }
        Err(Status::internal(why))
    }

    /// Decides whether the webhook is called, and in which version it gets the object.
    pub(super) async fn matching_invocation(
        &self,
        registry: &Registry,
        write: &Attributes,
    ) -> Result<Option<Invocation>, Status> {
        self.matching.matching(registry, write).await
    }
}
