//! The revisions of a daemon set: the current one, found or created, and the old ones.

use std::collections::HashSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use windlass_api::{ContentHash, LabelSelector, ObjectExt};
use windlass_runtime::Context;

use super::eligibility::HASH_LABEL;
use crate::{
    error::ReconcileError,
    revisions::{self, Named},
};

/// The default number of old revisions to retain.
const LIMIT: i32 = 10;

#[derive(Debug)]
pub(super) struct History {
    /// The hash of the template, a label of its pods.
    pub(super) hash: String,
    old: Vec<ControllerRevision>,
}

impl History {
    /// Finds, renumbers or creates the revision of the template. Returns `None` if a different revision occupies its
    /// name: the collision is counted in the set's status, and the next reconcile uses another name.
    pub(super) async fn of(
        cx: &Context,
        set: &DaemonSet,
        selector: &LabelSelector,
    ) -> Result<Option<Self>, ReconcileError> {
        let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let known = revisions::of(cx, set, selector).await?;
        let (mut current, mut old): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|revision| revisions::holds(revision, &template));
        let newest = current.pop();
        old.extend(current);
        let number = old.iter().map(|revision| revision.revision).max().unwrap_or(0) + 1;
        let current = match newest {
            Some(revision) if revision.revision >= number => revision,
            Some(revision) => revisions::renumber(cx.client(), &revision, number).await?,
            None => {
                let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
                let salt = u32::try_from(collisions).unwrap_or_default();
                let hash = ContentHash::of(&template).map(|hash| hash.salted(salt).short()).unwrap_or_default();
                let new = revisions::new(set, &template, number, Named { label: HASH_LABEL, hash: &hash });
                match cx.client().create(&new).await {
                    Err(error) if error.is_already_exists() => {
                        let found = cx.live().get_opt::<ControllerRevision>(new.object_ref()).await?;
                        let Some(found) = found.filter(|found| found.data == new.data) else {
                            count_collision(cx, set, collisions).await?;
                            return Ok(None);
                        };
                        found
                    }
                    outcome => outcome?,
                }
            }
        };
        let hash = current.labels().get(HASH_LABEL).cloned().unwrap_or_else(|| current.name().to_owned());
        Ok(Some(Self { hash, old }))
    }

    /// Deletes old unused revisions beyond the set's history limit.
    pub(super) async fn truncate(
        &self,
        cx: &Context,
        set: &DaemonSet,
        hashes: &HashSet<String>,
    ) -> Result<(), ReconcileError> {
        let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(LIMIT);
        let is_live =
            |revision: &ControllerRevision| revision.labels().get(HASH_LABEL).is_some_and(|hash| hashes.contains(hash));
        // Revisions that pods use count towards the limit, too.
        let live = i32::try_from(self.old.iter().filter(|revision| is_live(revision)).count()).unwrap_or(i32::MAX);
        revisions::truncate(cx.client(), &self.old, is_live, limit.saturating_sub(live).max(0)).await
    }
}

async fn count_collision(cx: &Context, set: &DaemonSet, collisions: i32) -> Result<(), ReconcileError> {
    let mut changed = set.clone();
    changed.status.get_or_insert_default().collision_count = Some(collisions + 1);
    cx.client().update_status(&changed).await?;
    Ok(())
}
