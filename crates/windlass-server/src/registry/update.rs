//! The `update` verb, and the loop of read, change, validation and compare-and-put that all changing verbs share.

use serde_json::Value;
use windlass_api::{DryRun, GroupKind, Status};

use super::{
    Registry, ResponseBody, WriteParams, Written,
    allocation::{WriteAllocation, observe_deleted, observe_stored},
    audited::record_request,
    commit_failure,
    field_manager::{self, Application, DetachedFields, Scaling},
    meta, patch, put,
    read::parse_uint,
    scale,
    size::check_size,
};
use crate::{
    encoded::Encoded,
    kubernetes::KubernetesVersion,
    registry::{Attributes, Operation},
    storage::{Change, CommitError, Expect, StoredValue},
};
use crate::{
    object::{Errors, Field, Path, Tree, as_object, copy_key, metadata_mut, object_mut},
    resource::{Body, Deletion, Generation, Item, MetadataRule, Part, ResourceInfo, StatusRule, Target, WriteContext},
};

/// The part of the object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteScope {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
    /// Another part that has a subresource.
    Part(Part),
    /// The finalizers of a namespace.
    Finalize,
    /// A change by the server itself.
    Internal,
}

/// A change in the form in which a client sends it.
#[derive(Debug)]
pub(super) enum Edit {
    /// The whole object, or the whole scale for the scale subresource.
    Replace(Value),
    Patch {
        kind: patch::PatchType,
        body: bytes::Bytes,
    },
    Apply(Application),
}

/// The maximum number of attempts of a change that conflicts with other writes. After each conflict another write has
/// succeeded.
const MAX_ATTEMPTS: usize = 100;

impl Registry {
    /// Replaces an object, or the part of it that a subresource covers.
    pub(crate) async fn update(&self, target: &Target, body: Body, params: WriteParams) -> Result<Written, Status> {
        let resource = &target.resource;
        let is_scale = target.subresource.as_deref() == Some("scale");
        let shape = if is_scale { scale::shape() } else { resource.shape.clone() };
        let decoded = shape.decode(&body, params.field_validation)?;
        params.warnings.extend(decoded.warnings);
        let mut object = decoded.value;
        if is_scale {
            record_request(&params.audit, &shape, &object);
        } else {
            resource.record_request(&params.audit, &object);
        }
        if let Body::Encoded { bytes, format } = &body
            && object.at(&["metadata", "managedFields"]).is_none()
            && field_manager::asks_for_reset(bytes, *format)
        {
            field_manager::mark_reset(&mut object);
        }
        meta::set_namespace(target, &mut object)?;
        meta::check_name(target, &object)?;
        if !is_scale {
            object = resource.to_hub(object);
            params.warnings.extend(meta::deduplicate_owners(&mut object));
            resource.strategy.default(&mut object);
        }
        self.edit(target, &Edit::Replace(object), &params).await
    }

    /// Applies a client's change to the target.
    pub(super) async fn edit(&self, target: &Target, edit: &Edit, params: &WriteParams) -> Result<Written, Status> {
        let scope = match target.subresource.as_deref() {
            None | Some("scale") => WriteScope::Main,
            Some("status") => WriteScope::Status,
            Some("finalize") => WriteScope::Finalize,
            Some(other) => WriteScope::Part(Part::of(other).ok_or_else(Status::method_not_allowed)?),
        };
        let (item, created) = self.change(target, scope, params, |old| self.propose(target, edit, old, params)).await?;
        let item = if target.subresource.as_deref() == Some("scale") {
            scale::scale_of(target, &Self::convert_item(&target.resource, item).await?)?
        } else {
            Self::convert_item(&target.resource, item).await?
        };
        Ok(Written { answer: ResponseBody::Object(item), created })
    }

    /// Changes an object. `propose` computes the new state from the current one (`None` if the object does not exist),
    /// both in the hub version. It is called again after a conflict. Returns the new state as stored, and whether the
    /// object was created.
    pub(super) async fn change(
        &self,
        target: &Target,
        scope: WriteScope,
        params: &WriteParams,
        mut propose: impl FnMut(Option<&Value>) -> Result<Value, Status>,
    ) -> Result<(Item, bool), Status> {
        let key = target.key(target.name());
        // The commit detects a state that is out of date. Other outcomes need the current one.
        let mut stored = self.recently_stored(&key).await?;
        let mut is_current = !self.0.storage.is_shared();
        for _ in 0..MAX_ATTEMPTS {
            let Some(current) = stored else {
                if !is_current {
                    (stored, is_current) = (self.stored_now(&key).await?, true);
                    continue;
                }
                // `propose` decides whether a missing object is created.
                if scope != WriteScope::Main || target.subresource.is_some() {
                    return Err(Status::not_found(&target.group_resource(), target.name()));
                }
                let proposed = params.conversions.run(|| propose(None)).await?;
                return self.create_by_update(target, proposed, params).await;
            };
            let attempt = self.attempt(target, scope, params, &current, &mut propose).await;
            if !is_current && matches!(attempt, Err(_) | Ok(Attempt::Unchanged(_))) {
                (stored, is_current) = (self.stored_now(&key).await?, true);
                if stored.as_ref().is_none_or(|stored| stored.modified != current.modified || stored.is_stale) {
                    continue;
                }
            }
            match attempt? {
                Attempt::Written(item) | Attempt::Unchanged(item) => return Ok((item, false)),
                Attempt::Conflict(latest) => (stored, is_current) = (latest, true),
                Attempt::Failed(status) => return Err(status),
            }
        }
        Err(Status::modified(&target.group_resource(), target.name()))
    }

    async fn attempt(
        &self,
        target: &Target,
        scope: WriteScope,
        params: &WriteParams,
        current: &StoredValue,
        propose: &mut impl FnMut(Option<&Value>) -> Result<Value, Status>,
    ) -> Result<Attempt, Status> {
        let mut allocation = WriteAllocation::default();
        let result = self.attempt_allocated(target, scope, params, current, propose, &mut allocation).await;
        allocation.revert().await;
        result
    }

    async fn attempt_allocated(
        &self,
        target: &Target,
        scope: WriteScope,
        params: &WriteParams,
        current: &StoredValue,
        propose: &mut impl FnMut(Option<&Value>) -> Result<Value, Status>,
        allocation: &mut WriteAllocation,
    ) -> Result<Attempt, Status> {
        let resource = &target.resource;
        let present = Item::stored(current)?;
        let old = resource.stored_to_hub(present.value()).await?;
        let new = params.conversions.run(|| propose(Some(&old))).await?;
        let attributes = Attributes::new(Operation::Update, target, new, params.context(target));
        let mut attributes = attributes.replacing(old);
        let is_scale = target.subresource.as_deref() == Some("scale");
        if is_scale {
            self.admit_scale(target, &mut attributes).await?;
        } else if scope != WriteScope::Internal {
            self.admit(&mut attributes).await?;
        }
        let mut new = attributes.object.take();
        let mut old = attributes.old.take().unwrap_or_default();
        check_version(target, &new, current)?;
        let managed_fields = field_manager::detach(&mut new);
        // Preparation copies parts of the old object, but not its managedFields.
        let old_managed_fields = DetachedFields::take(&mut old);
        prepare(resource, scope, &mut new, &old, &self.write_context(resource, params));
        if scope == WriteScope::Main {
            allocation.allocate(resource, &mut new, Some(&old), params).await?;
        }
        let new = resource.hub_shape().normalize_stored(new)?;
        let new = count_generation(resource, scope, new, &old);
        let rules = resource.strategy.rules();
        let mut errors = Errors::of(self.resources().kubernetes());
        let metadata = if scope == WriteScope::Main { rules.metadata } else { MetadataRule::CHANGES };
        meta::validate_update(target, &new, &old, metadata, &mut errors);
        let (strategy, new_field, old_field) = (&resource.strategy, Field::object(&new), Field::object(&old));
        if scope == WriteScope::Main && rules.validated_twice {
            strategy.validate(&new_field, &mut errors);
        }
        match scope {
            WriteScope::Main if rules.changes_first => {
                strategy.validate_update(&new_field, &old_field, &mut errors);
                strategy.validate(&new_field, &mut errors);
            }
            WriteScope::Main => {
                strategy.validate(&new_field, &mut errors);
                strategy.validate_update(&new_field, &old_field, &mut errors);
            }
            WriteScope::Status => strategy.validate_status(&new_field, &old_field, &mut errors),
            WriteScope::Part(part) => strategy.validate_part(part, &new_field, &old_field, &mut errors),
            WriteScope::Finalize | WriteScope::Internal => {}
        }
        params.warnings.extend(errors.take_warnings());
        rules.arrange(&mut errors);
        errors.check(&resource.group_kind(), target.name())?;
        if scope == WriteScope::Main {
            params.warnings.extend(resource.strategy.warnings(&new, Some(&old)));
        }
        let mut new = new;
        old_managed_fields.restore(&mut old);
        field_manager::attach(&mut new, managed_fields, resource.shape.style());
        field_manager::keep_times(&mut new, &old);
        attributes.object = new;
        attributes.old = Some(old);
        if is_scale {
            let mut scaling = scale::attributes(target, &attributes)?;
            self.validate_admission(&mut scaling).await?;
        } else if scope != WriteScope::Internal {
            self.validate_admission(&mut attributes).await?;
        }
        let (mut new, old) = (attributes.object, attributes.old.unwrap_or_default());
        let encoded = Encoded::new(&*resource.to_stored(&mut new).await?, resource.shape.style());
        let unchanged = Item { encoded: encoded.clone(), revision: current.modified };
        let expect = Expect::Unchanged(current.modified);
        if ends_deletion(resource, &new, &old) {
            if params.dry_run == DryRun::All {
                return Ok(Attempt::Unchanged(unchanged));
            }
            return self.end_deletion(resource, current, &old, unchanged).await;
        }
        // An update that changes nothing is not written, unless the storage asks for it.
        let rewrites = current.is_stale || current.created == current.modified && (rules.rewrites_new)(&old);
        if params.dry_run == DryRun::All || (encoded.storage_bytes() == current.body && !rewrites) {
            if params.dry_run == DryRun::No {
                allocation.committed().await;
            }
            return Ok(Attempt::Unchanged(unchanged));
        }
        check_size(&current.key, expect, &encoded)?;
        allocation.storing();
        let committed = self.0.storage.commit(&current.key, expect, put(resource, &encoded)).await;
        allocation.stored(&committed).await;
        match committed {
            Ok(committed) => {
                let item = Item { encoded, revision: committed.revision };
                observe_stored(resource, &new);
                self.wait_for_delivery(&current.key, item.revision).await;
                Ok(Attempt::Written(item))
            }
            Err(CommitError::Conflict { current: latest }) => Ok(Attempt::Conflict(latest)),
            Err(error) => Ok(Attempt::Failed(commit_failure(&error))),
        }
    }

    /// Deletes an object whose last finalizer an update has removed.
    async fn end_deletion(
        &self,
        resource: &ResourceInfo,
        current: &StoredValue,
        old: &Value,
        item: Item,
    ) -> Result<Attempt, Status> {
        let expect = Expect::Unchanged(current.modified);
        match self.0.storage.commit(&current.key, expect, Change::Delete).await {
            Ok(committed) => {
                observe_deleted(resource, old).await;
                self.wait_for_delivery(&current.key, committed.revision).await;
                Ok(Attempt::Written(item))
            }
            Err(CommitError::Conflict { current: latest }) => Ok(Attempt::Conflict(latest)),
            Err(error) => Ok(Attempt::Failed(commit_failure(&error))),
        }
    }

    /// Runs admission on the scale of an object, and applies the admitted scale to the object.
    async fn admit_scale(&self, target: &Target, write: &mut Attributes) -> Result<(), Status> {
        let mut scaling = scale::attributes(target, write)?;
        let requested = scaling.object.clone();
        self.admit(&mut scaling).await?;
        if scaling.object != requested {
            write.object = scale::scaled(target, &write.object, &scaling.object)?;
        }
        Ok(())
    }

    /// Creates an object by an update.
    async fn create_by_update(
        &self,
        target: &Target,
        object: Value,
        params: &WriteParams,
    ) -> Result<(Item, bool), Status> {
        let uid = object.text(&["metadata", "uid"]);
        if !uid.is_empty() {
            return Err(precondition_failed(target, params.dry_run, "UID", uid, ""));
        }
        read_version(&object)?;
        let mut attributes = Attributes::new(Operation::Create, target, object, params.context(target));
        self.admit(&mut attributes).await?;
        let mut object = attributes.object.take();
        meta::clear_system_fields(&mut object);
        if params.dry_run == DryRun::No {
            metadata_mut(&mut object).shift_remove("resourceVersion");
        }
        Ok((self.store_new(target, object, params).await?, true))
    }
}

/// The result of an attempt to change an object. Errors before the commit are returned as such.
enum Attempt {
    Written(Item),
    /// The new state is the present one, or the request is a dry run.
    Unchanged(Item),
    /// Another write came first. Holds the current state.
    Conflict(Option<StoredValue>),
    /// The commit failed. It may have happened, so there is no other attempt.
    Failed(Status),
}

impl Registry {
    /// Returns the new state after a client's change, in the hub version and with its managedFields.
    fn propose(
        &self,
        target: &Target,
        edit: &Edit,
        old: Option<&Value>,
        params: &WriteParams,
    ) -> Result<Value, Status> {
        let resource = &target.resource;
        let not_found = || Status::not_found(&target.group_resource(), target.name());
        if target.subresource.as_deref() == Some("scale") {
            let old = old.ok_or_else(not_found)?;
            return self.scaled(target, old, params, |current| scaling(target, edit, current, params));
        }
        let mut object = match edit {
            Edit::Replace(object) if old.is_none() && !resource.strategy.rules().create_on_update => {
                let uid = object.text(&["metadata", "uid"]);
                // Before 1.34, the uid was compared with that of an empty object.
                return Err(if uid.is_empty() || resource.strategy.rules().kubernetes >= KubernetesVersion::V1_34 {
                    not_found()
                } else {
                    precondition_failed(target, params.dry_run, "UID", uid, "")
                });
            }
            Edit::Replace(object) => {
                // A changed uid in a patch is reported later, like any other forbidden change.
                let uid = object.text(&["metadata", "uid"]);
                let old_uid = old.map_or(uid, |old| old.text(&["metadata", "uid"]));
                if !uid.is_empty() && uid != old_uid {
                    return Err(precondition_failed(target, params.dry_run, "UID", uid, old_uid));
                }
                object.clone()
            }
            Edit::Patch { kind, body } => {
                let old = old.ok_or_else(not_found)?;
                let (current, shape) = (resource.hub_to_requested(old), &resource.shape);
                let patched = patch::patched(*kind, body, &current, shape, params)?;
                let mut object = resource.to_hub(patched);
                meta::set_namespace(target, &mut object)?;
                meta::check_name(target, &object)?;
                params.warnings.extend(meta::deduplicate_owners(&mut object));
                resource.strategy.default(&mut object);
                object
            }
            Edit::Apply(application) => return self.applied(target, old, application, params),
        };
        self.track(target, old, &mut object, params);
        Ok(object)
    }
}

/// Returns the result of a client's change on a scale.
fn scaling<'e>(target: &Target, edit: &'e Edit, current: &Value, params: &WriteParams) -> Result<Scaling<'e>, Status> {
    match edit {
        Edit::Replace(scale) => {
            let (given, found) = (scale.text(&["metadata", "uid"]), current.text(&["metadata", "uid"]));
            if !given.is_empty() && given != found {
                return Err(precondition_failed(target, params.dry_run, "UID", given, found));
            }
            Ok(Scaling::Given(scale.clone()))
        }
        Edit::Patch { kind, body } => {
            let shape = scale::shape();
            let mut patched = patch::patched(*kind, body, current, &shape, params)?;
            meta::set_namespace(target, &mut patched)?;
            meta::check_name(target, &patched)?;
            Ok(Scaling::Given(patched))
        }
        Edit::Apply(application) => Ok(Scaling::Applied(application)),
    }
}

/// Checks that the resourceVersion that the client sent is the current one. A missing one is valid if the kind allows
/// it.
fn check_version(target: &Target, new: &Value, current: &StoredValue) -> Result<(), Status> {
    match read_version(new)? {
        0 if target.resource.strategy.rules().unconditional_update => Ok(()),
        0 => {
            let mut errors = Errors::of(target.resource.strategy.rules().kubernetes);
            let path = Path::new("metadata.resourceVersion");
            errors.invalid(&path, &0, "must be specified for an update");
            let kind = GroupKind::new(target.resource.group.clone(), target.resource.plural.clone());
            errors.check(&kind, target.name())
        }
        version if version == current.modified.0 => Ok(()),
        _ => Err(Status::modified(&target.group_resource(), target.name())),
    }
}

/// Returns the resourceVersion in an object; 0 if it has none.
fn read_version(object: &Value) -> Result<u64, Status> {
    let text = object.text(&["metadata", "resourceVersion"]);
    if text.is_empty() {
        return Ok(0);
    }
    parse_uint(text).map_err(|why| Status::unclassified(why.as_str()))
}

/// Returns the conflict for a failed precondition; `field` is `UID` or `ResourceVersion`.
pub(super) fn precondition_failed(target: &Target, dry_run: DryRun, field: &str, given: &str, found: &str) -> Status {
    let key = target.key(target.name());
    // The real server's dry run omits the storage prefix in the key.
    let key = if dry_run == DryRun::All { key.strip_prefix("/registry").unwrap_or(&key) } else { &key };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         {field} in precondition: {given}, {field} in object meta: {found}"
    );
    Status::conflict(&target.group_resource(), target.name(), why)
}

/// Restores the parts that this kind of write does not change.
fn prepare(resource: &ResourceInfo, scope: WriteScope, new: &mut Value, old: &Value, write: &WriteContext<'_>) {
    let rules = resource.strategy.rules();
    if let Some(old) = old.get("metadata") {
        copy_key(metadata_mut(new), old, "generation");
    }
    match scope {
        WriteScope::Main => {
            if rules.status != StatusRule::Plain {
                copy_key(as_object(new), old, "status");
            }
            rules.drop_disabled_fields(new);
            resource.strategy.prepare_update(new, old);
            meta::keep_system_fields(new, old);
        }
        WriteScope::Status => {
            rules.resets.keep_all_but_status(new, old);
            rules.drop_gated_fields(new);
            resource.strategy.prepare_status(new, old, write);
            meta::keep_system_fields(new, old);
        }
        WriteScope::Part(part) => {
            resource.strategy.prepare_part(part, new, old, write);
            meta::keep_system_fields(new, old);
        }
        WriteScope::Finalize => {
            copy_key(as_object(new), old, "status");
            meta::keep_system_fields(new, old);
        }
        WriteScope::Internal => {}
    }
}

/// Increments the generation if the change counts for it. Both states are in normal form.
fn count_generation(resource: &ResourceInfo, scope: WriteScope, mut new: Value, old: &Value) -> Value {
    if !matches!(scope, WriteScope::Main | WriteScope::Part(_)) {
        return new;
    }
    let rules = resource.strategy.rules();
    let differs = |path: &[&str]| new.at(path) != old.at(path);
    let content = |but: &[&str]| {
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
        };
        keys(&new)
            .iter()
            .chain(&keys(old))
            .any(|key| !matches!(key.as_str(), "kind" | "apiVersion") && !but.contains(&&**key) && differs(&[key]))
    };
    let counts = match rules.generation {
        Generation::None => false,
        Generation::Spec => differs(&["spec"]),
        Generation::SpecOrAnnotations => differs(&["spec"]) || differs(&["metadata", "annotations"]),
        Generation::Content if rules.status == StatusRule::Plain => content(&["metadata"]),
        Generation::Content => content(&["metadata", "status"]),
        Generation::ContentOrLabels => content(&["metadata"]) || differs(&["metadata", "labels"]),
    };
    if counts {
        let generation = old.int(&["metadata", "generation"]).unwrap_or_default() + 1;
        object_mut(&mut new, "metadata").insert("generation".to_owned(), generation.into());
    }
    new
}

/// Reports whether an update fulfils the last condition of a deletion.
fn ends_deletion(resource: &ResourceInfo, new: &Value, old: &Value) -> bool {
    let waits_for_content = resource.strategy.rules().deletion == Deletion::Namespace;
    old.at(&["metadata", "deletionTimestamp"]).is_some()
        && old.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default() == 0
        && new.items(&["metadata", "finalizers"]).is_empty()
        && (!waits_for_content || new.items(&["spec", "finalizers"]).is_empty())
}
