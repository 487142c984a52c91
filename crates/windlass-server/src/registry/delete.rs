//! The `delete` verb: immediate, graceful, or after the finalizers have been removed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use windlass_api::{
    DryRun, FieldValidation, GroupKind, GroupResource, Preconditions, Propagation, Status, StatusDetails, format_time,
    parse_time,
};

use self::marked::Progress;
use super::{
    ItemList, ListParams, Registry, ResponseBody,
    allocation::{observe_deleted, observe_stored},
    commit_failure, put,
    size::check_size,
};
use crate::{
    audit::AuditContext,
    encoded::Encoded,
    identity::User,
    registry::{Attributes, Operation, RequestContext, WebhookCalls},
    resource::ResourceInfo,
    storage::{Change, CommitError, Expect, StoredValue},
    trace_context::TraceContext,
    warning::Warnings,
};
use crate::{
    object::{Errors, Path, Tree, metadata_mut, object_mut},
    resource::{Deletion, Dependents, Item, Target},
};

mod marked;

/// The parameters of a deletion.
#[derive(Clone, Debug)]
pub(crate) struct DeleteParams {
    /// The grace period in seconds; a negative value counts as 1.
    pub(crate) grace_period: Option<i64>,
    /// The propagation policy as sent, so that unknown policies can be rejected.
    pub(crate) propagation: Option<String>,
    /// The deprecated form of the propagation policy.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) preconditions: Preconditions,
    pub(crate) dry_run: DryRun,
    /// The user who sends the deletion; the default user for deletions from within the server.
    pub(crate) user: Arc<User>,
    /// Collects the warnings for the client, even if the deletion fails.
    pub(crate) warnings: Warnings,
    /// The event of the request.
    pub(crate) audit: AuditContext,
    pub(crate) trace: TraceContext,
    pub(crate) admission: AdmissionState,
    /// The webhooks and policies that see the deletion.
    pub(crate) webhooks: WebhookCalls,
    /// The object is deleted with its collection. Admission then does not see its name.
    pub(crate) in_collection: bool,
}

impl Default for DeleteParams {
    fn default() -> Self {
        Self {
            grace_period: None,
            propagation: None,
            orphan_dependents: None,
            preconditions: Preconditions::default(),
            dry_run: DryRun::No,
            user: User::own(),
            warnings: Warnings::default(),
            audit: AuditContext::default(),
            trace: TraceContext::default(),
            admission: AdmissionState::Required,
            webhooks: WebhookCalls::Configured,
            in_collection: false,
        }
    }
}

/// The role of admission in a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AdmissionState {
    #[default]
    Required,
    /// Admission has already accepted the eviction that causes the deletion.
    Granted,
}

/// The result of a successful deletion.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    /// The object if it still exists or the kind returns deleted objects; a `Status` otherwise.
    pub(crate) answer: ResponseBody,
    /// `true` for a response with code 202: the client requested the deletion of dependents, and the object still
    /// exists.
    pub(crate) accepted: bool,
}

/// The number of objects of a collection that are deleted before the next page is listed.
const COLLECTION_PAGE: u64 = 10_000;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl DeleteParams {
    /// Returns the options that the client set, by their names in reviews.
    fn options(&self) -> Option<Arc<Value>> {
        let mut options = Map::new();
        if let Some(seconds) = self.grace_period {
            options.insert("gracePeriodSeconds".to_owned(), seconds.into());
        }
        let Preconditions { uid, resource_version, .. } = &self.preconditions;
        let mut preconditions = Map::new();
        for (name, text) in [("uid", uid), ("resourceVersion", resource_version)] {
            if let Some(text) = text {
                preconditions.insert(name.to_owned(), text.clone().into());
            }
        }
        if !preconditions.is_empty() {
            options.insert("preconditions".to_owned(), preconditions.into());
        }
        if let Some(orphan) = self.orphan_dependents {
            options.insert("orphanDependents".to_owned(), orphan.into());
        }
        if let Some(policy) = &self.propagation {
            options.insert("propagationPolicy".to_owned(), policy.clone().into());
        }
        (!options.is_empty()).then(|| Arc::new(options.into()))
    }

    /// Returns the user and the options of the request, as admission sees them.
    fn context(&self, target: &Target) -> RequestContext {
        RequestContext {
            user: self.user.clone(),
            dry_run: self.dry_run,
            warnings: self.warnings.clone(),
            audit: self.audit.clone(),
            trace: self.trace.clone(),
            name: target.name().to_owned(),
            webhooks: self.webhooks,
            options: self.options(),
        }
    }
}

impl Registry {
    /// Deletes one object, or marks it as being deleted.
    pub(crate) async fn delete(&self, target: &Target, params: DeleteParams) -> Result<Deleted, Status> {
        check(&params)?;
        let rules = target.resource.strategy.rules();
        let is_unspecified = params.propagation.is_none() && params.orphan_dependents.is_none();
        if rules.dependents == Dependents::OrphanWithWarning && is_unspecified {
            params.warnings.add(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                 them or set propagationPolicy=Orphan to suppress this warning",
            );
        }
        let preconditions = params.preconditions.clone();
        self.proceed(target, &params, Progress { preconditions, admitted: None, marked: None }).await
    }

    /// Advances a deletion as far as one request can.
    async fn proceed(&self, target: &Target, params: &DeleteParams, progress: Progress) -> Result<Deleted, Status> {
        let key = target.key(target.name());
        let rules = target.resource.strategy.rules();
        let Progress { mut preconditions, mut admitted, marked } = progress;
        let mut stored = self.stored(&key).await?;
        loop {
            let Some(current) = stored else {
                let Some((marked, old)) = marked else {
                    return Err(Status::not_found(&target.group_resource(), target.name()));
                };
                return Self::deleted(target, params, Outcome::Removed(marked), &old).await;
            };
            let present = Item::stored(&current)?;
            let mut old = target.resource.stored_to_hub(present.value()).await?;
            check_preconditions(target, &preconditions, &old)?;
            if admitted != Some(current.modified) && params.admission == AdmissionState::Required {
                old = self.admit_deletion(target, old, params).await?;
            }
            let step = match rules.deletion {
                Deletion::Namespace => self.namespace_step(params, &old),
                Deletion::Finalized => self.finalized_step(&target.resource, &old),
                deletion => self.step(target, deletion, params, &old),
            };
            let outcome = match step {
                Step::Nothing => Ok(Outcome::Remains(present)),
                Step::Mark(new) => {
                    let marked = self.mark(target, &current, new, params.dry_run).await?;
                    if let Ok(marked) = &marked {
                        self.wait_for_delivery(&key, marked.revision).await;
                    }
                    marked.map(Outcome::Remains)
                }
                Step::MarkAndRemove(new) => match self.mark(target, &current, new, params.dry_run).await? {
                    Ok(marked) if params.dry_run == DryRun::No => {
                        // The mark is a separate write: watchers see it before they see the removal.
                        admitted = Some(marked.revision);
                        if preconditions.resource_version.is_some() {
                            preconditions.resource_version = Some(marked.revision.to_string());
                        }
                        let marked = Some((marked, old));
                        let progress = Progress { preconditions, admitted, marked };
                        return self.clone().remove_marked(target.clone(), params.clone(), progress).await;
                    }
                    marked => marked.map(Outcome::Removed),
                },
                Step::Remove => self.remove(target, &current, &old, params.dry_run).await?.map(Outcome::Removed),
            };
            match outcome {
                Ok(outcome) => return Self::deleted(target, params, outcome, &old).await,
                Err(latest) => stored = latest,
            }
        }
    }

    /// Deletes the selected objects one by one. Objects that other clients have deleted in the meantime are skipped.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        params: DeleteParams,
        list: ListParams,
    ) -> Result<ItemList, Status> {
        check(&params)?;
        let params = DeleteParams { in_collection: true, ..params };
        let mut page = ListParams { limit: if list.limit > 0 { list.limit } else { COLLECTION_PAGE }, ..list };
        let one_page = list.limit > 0;
        let mut all: Option<ItemList> = None;
        loop {
            let mut found = self.list(target, page.clone()).await?;
            for item in &found.items {
                let meta = item.encoded.meta().map_err(Status::internal)?;
                let one = Target::object(&target.resource, meta.namespace().map(|namespace| &**namespace), meta.name());
                match self.delete(&one, params.clone()).await {
                    Ok(_) => {}
                    Err(status) if status.is_not_found() => {}
                    Err(status) => return Err(status),
                }
            }
            let next = found.continue_token.take().filter(|_| !one_page);
            match &mut all {
                None => all = Some(found),
                Some(all) => all.items.append(&mut found.items),
            }
            match (next, all) {
                (Some(token), kept) => {
                    page.continue_token = Some(token);
                    page.resource_version = None;
                    page.version_match = None;
                    all = kept;
                }
                (None, Some(mut list)) => {
                    list.remaining = None;
                    return Ok(list);
                }
                (None, None) => unreachable!("a page has been listed"),
            }
        }
    }

    async fn admit_deletion(&self, target: &Target, old: Value, params: &DeleteParams) -> Result<Value, Status> {
        let attributes = Attributes::new(Operation::Delete, target, Value::Null, params.context(target));
        let mut attributes = attributes.replacing(old);
        if params.in_collection {
            attributes.name.clear();
        }
        self.admit(&mut attributes).await?;
        self.validate_admission(&mut attributes).await?;
        Ok(attributes.old.unwrap_or_default())
    }

    /// Returns the next step of the deletion of an object in this state.
    fn step(&self, target: &Target, deletion: Deletion, params: &DeleteParams, old: &Value) -> Step {
        let mut new = old.clone();
        let grace = match deletion {
            Deletion::Graceful => self.grace(params.grace_period, &mut new),
            Deletion::Plain | Deletion::Namespace | Deletion::Finalized => Grace::None,
        };
        if matches!(grace, Grace::Pending) {
            return Step::Nothing;
        }
        let finalizers = finalizers(target.resource.strategy.rules().dependents, params, old);
        let pending = !finalizers.is_empty();
        set_finalizers(&mut new, finalizers);
        match grace {
            Grace::Seconds(seconds) if seconds > 0 || pending => Step::Mark(new),
            Grace::Seconds(_) => Step::MarkAndRemove(new),
            Grace::None | Grace::Pending if pending => {
                self.mark_as_deleting(&mut new);
                Step::Mark(new)
            }
            Grace::None | Grace::Pending => Step::Remove,
        }
    }

    /// Determines the grace period of a pod and writes it into the pod.
    fn grace(&self, requested: Option<i64>, new: &mut Value) -> Grace {
        let requested = requested.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let now = self.clock().now();
        if let Some(since) = new.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str) {
            let given = new.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
            if given == 0 {
                return Grace::None;
            }
            // The grace period can only be shortened.
            let Some(mut seconds) = requested.filter(|seconds| *seconds < given) else { return Grace::Pending };
            let moved = |at: Timestamp, seconds| at.saturating_add(go_seconds(seconds)).unwrap_or(now);
            let mut at = parse_time(since).map_or(now, |at| moved(moved(at, given.wrapping_neg()), seconds));
            if at < now {
                at = now;
                if seconds != 0 {
                    seconds = 1;
                }
            }
            set_deletion(new, &format_time(at), seconds);
            return Grace::Seconds(seconds);
        }
        let seconds = requested.or_else(|| new.int(&["spec", "terminationGracePeriodSeconds"])).unwrap_or(30);
        let over = matches!(new.text(&["status", "phase"]), "Succeeded" | "Failed");
        let runs_nowhere = new.text(&["spec", "nodeName"]).is_empty();
        let seconds = if runs_nowhere || over {
            0
        } else if seconds < 0 {
            1
        } else {
            seconds
        };
        let at = now.saturating_add(go_seconds(seconds)).unwrap_or(now);
        set_deletion(new, &format_time(at), seconds);
        count_deletion(new);
        Grace::Seconds(seconds)
    }

    /// Marks an object that waits for its finalizers.
    fn mark_as_deleting(&self, new: &mut Value) {
        let now = self.clock().now();
        let since = new.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str).map(str::to_owned);
        if since.is_none() {
            count_deletion(new);
        }
        let at = since.filter(|at| parse_time(at).is_ok_and(|at| at <= now)).unwrap_or_else(|| format_time(now));
        set_deletion(new, &at, 0);
    }

    /// Returns the next step of the deletion of a namespace in this state.
    fn namespace_step(&self, params: &DeleteParams, old: &Value) -> Step {
        if old.at(&["metadata", "deletionTimestamp"]).is_some() {
            if !old.items(&["spec", "finalizers"]).is_empty() {
                return Step::Nothing;
            }
            if old.items(&["metadata", "finalizers"]).is_empty() {
                return Step::Remove;
            }
        }
        let mut new = old.clone();
        let metadata = metadata_mut(&mut new);
        if metadata.at(&["deletionTimestamp"]).is_none() {
            metadata.insert("deletionTimestamp".to_owned(), format_time(self.clock().now()).into());
        }
        object_mut(&mut new, "status").insert("phase".to_owned(), "Terminating".into());
        let finalizers = finalizers(Dependents::Background, params, old);
        set_finalizers(&mut new, finalizers);
        Step::Mark(new)
    }

    /// Returns the next step of the deletion of an object that its controller removes.
    fn finalized_step(&self, resource: &ResourceInfo, old: &Value) -> Step {
        if old.at(&["metadata", "deletionTimestamp"]).is_some() {
            return if old.items(&["metadata", "finalizers"]).is_empty() { Step::Remove } else { Step::Nothing };
        }
        let mut new = old.clone();
        let now = format_time(self.clock().now());
        metadata_mut(&mut new).insert("deletionTimestamp".to_owned(), now.clone().into());
        resource.strategy.begin_deletion(&mut new, &now);
        Step::Mark(new)
    }

    /// Stores the deletion mark without waiting for watchers. The inner `Err` reports a conflict and holds the current
    /// state.
    async fn mark(
        &self,
        target: &Target,
        current: &StoredValue,
        new: Value,
        dry_run: DryRun,
    ) -> Result<Result<Item, Option<StoredValue>>, Status> {
        let shape = target.resource.hub_shape();
        let mut new = shape.normalize(new, FieldValidation::Ignore)?.value;
        let encoded = Encoded::new(&*target.resource.to_stored(&mut new).await?, shape.style());
        if dry_run == DryRun::All || encoded.storage_bytes() == current.body {
            return Ok(Ok(Item { encoded, revision: current.modified }));
        }
        let expect = Expect::Unchanged(current.modified);
        check_size(&current.key, expect, &encoded)?;
        match self.0.storage.commit(&current.key, expect, put(&target.resource, &encoded)).await {
            Ok(committed) => {
                observe_stored(&target.resource, &new);
                Ok(Ok(Item { encoded, revision: committed.revision }))
            }
            Err(CommitError::Conflict { current }) => Ok(Err(current)),
            Err(error) => Err(commit_failure(&error)),
        }
    }

    /// Removes the object. The inner `Err` reports a conflict and holds the current state.
    async fn remove(
        &self,
        target: &Target,
        current: &StoredValue,
        old: &Value,
        dry_run: DryRun,
    ) -> Result<Result<Item, Option<StoredValue>>, Status> {
        let item = Item::stored(current)?;
        if dry_run == DryRun::All {
            return Ok(Ok(item));
        }
        let expect = Expect::Unchanged(current.modified);
        match self.0.storage.commit(&current.key, expect, Change::Delete).await {
            Ok(committed) => {
                observe_deleted(&target.resource, old).await;
                self.wait_for_delivery(&current.key, committed.revision).await;
                Ok(Ok(Item { revision: committed.revision, ..item }))
            }
            Err(CommitError::Conflict { current }) => Ok(Err(current)),
            Err(error) => Err(commit_failure(&error)),
        }
    }

    async fn deleted(target: &Target, params: &DeleteParams, outcome: Outcome, old: &Value) -> Result<Deleted, Status> {
        let rules = target.resource.strategy.rules();
        let (item, stays) = match outcome {
            Outcome::Remains(item) => (item, true),
            Outcome::Removed(item) => (item, false),
        };
        let accepted = stays && params.orphan_dependents == Some(false);
        if stays || rules.returns_deleted {
            let item = Self::convert_item(&target.resource, item).await?;
            return Ok(Deleted { answer: ResponseBody::Object(item), accepted });
        }
        let status = Status::success(StatusDetails {
            name: target.name().to_owned(),
            group: target.resource.group.clone(),
            kind: target.resource.plural.clone(),
            uid: old.text(&["metadata", "uid"]).to_owned(),
            ..StatusDetails::default()
        });
        Ok(Deleted { answer: ResponseBody::Status(status), accepted })
    }
}

enum Grace {
    /// No grace period applies; the object can be removed.
    None,
    /// The object is already terminating, and no later than requested.
    Pending,
    Seconds(i64),
}

enum Step {
    /// The deletion is already in progress.
    Nothing,
    /// The object stays, in this state.
    Mark(Value),
    /// The object is stored in this state, and then removed.
    MarkAndRemove(Value),
    /// The object is removed.
    Remove,
}

enum Outcome {
    Remains(Item),
    Removed(Item),
}

/// Multiplies seconds as Go does: a duration that overflows wraps around.
fn go_seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_nanos(seconds.wrapping_mul(1_000_000_000))
}

fn set_deletion(object: &mut Value, at: &str, seconds: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), at.into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

/// Increments the generation, because a deletion counts as a change of the desired state.
fn count_deletion(object: &mut Value) {
    if let Some(generation) = object.int(&["metadata", "generation"]).filter(|generation| *generation > 0) {
        metadata_mut(object).insert("generation".to_owned(), (generation + 1).into());
    }
}

fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

/// Returns the object's new finalizers. The garbage collector's finalizers follow the client's policy, the object's
/// present finalizers, or the kind's default, in this order.
fn finalizers(default: Dependents, params: &DeleteParams, old: &Value) -> Vec<Value> {
    let present = old.items(&["metadata", "finalizers"]);
    let has = |name: &str| present.iter().any(|finalizer| finalizer == name);
    let policy = match (default, params.orphan_dependents, params.propagation.as_deref()) {
        (Dependents::Unsupported, ..) => Propagation::Background,
        (_, Some(true), _) | (_, None, Some("Orphan")) => Propagation::Orphan,
        (_, None, Some("Foreground")) => Propagation::Foreground,
        (_, Some(false), _) | (_, None, Some(_)) => Propagation::Background,
        _ if has(ORPHAN) => Propagation::Orphan,
        _ if has(FOREGROUND) => Propagation::Foreground,
        (Dependents::Orphan | Dependents::OrphanWithWarning, ..) => Propagation::Orphan,
        (Dependents::Background, ..) => Propagation::Background,
    };
    let required = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    if required.is_none_or(&has)
        && !(has(ORPHAN) && required != Some(ORPHAN) || has(FOREGROUND) && required != Some(FOREGROUND))
    {
        return present.to_vec();
    }
    let others = present.iter().filter(|finalizer| *finalizer != ORPHAN && *finalizer != FOREGROUND).cloned();
    others.chain(required.map(Value::from)).collect()
}

fn check(params: &DeleteParams) -> Result<(), Status> {
    let mut errors = Errors::default();
    let path = Path::new("propagationPolicy");
    if let Some(given) = &params.propagation {
        if params.orphan_dependents.is_some() {
            errors.invalid(&path, given, "orphanDependents and deletionPropagation cannot be both set");
        }
        if !matches!(given.as_str(), "Foreground" | "Background" | "Orphan") {
            // The real server does not sort this list.
            let message = format!(
                "Unsupported value: {given:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            errors.add(&path, "FieldValueNotSupported", message);
        }
    }
    errors.check(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "")
}

pub(super) fn check_preconditions(target: &Target, preconditions: &Preconditions, old: &Value) -> Result<(), Status> {
    // The conflict names the kind, except for namespaces.
    let is_namespace = target.resource.strategy.rules().deletion == Deletion::Namespace;
    let noun = if is_namespace { &target.resource.plural } else { &target.resource.kind };
    let group_resource = GroupResource::new(target.resource.group.clone(), noun.clone());
    let conflict = |why: String| Err(Status::conflict(&group_resource, target.name(), why));
    let found = old.text(&["metadata", "uid"]);
    if let Some(uid) = preconditions.uid.as_deref().filter(|uid| *uid != found) {
        return conflict(if is_namespace {
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
        } else {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have been \
                 deleted and then recreated"
            )
        });
    }
    let found = old.text(&["metadata", "resourceVersion"]);
    if let Some(version) = preconditions.resource_version.as_deref().filter(|version| *version != found) {
        return conflict(if is_namespace {
            format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {found}"
            )
        } else {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). \
                 The object might have been modified"
            )
        });
    }
    Ok(())
}
