//! The `create` verb.

use serde_json::Value;
use windlass_api::{DryRun, Status};

use super::{
    Registry, ResponseBody, WriteParams, Written,
    allocation::{WriteAllocation, observe_stored},
    commit_failure, field_manager, meta, put,
    size::check_size,
};
use crate::{
    encoded::Encoded,
    registry::{Attributes, Operation},
    storage::{CommitError, Expect, Revision},
};
use crate::{
    object::{Errors, Field, NameRule, Tree, as_object, metadata_mut},
    resource::{Body, Generation, Item, StatusRule, Target},
};

/// The number of names that are tried for an object with `generateName`.
const NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Creates an object, or performs the `create` of a subresource.
    pub(crate) async fn create(&self, target: &Target, body: Body, params: WriteParams) -> Result<Written, Status> {
        if let Some(subresource) = &target.subresource {
            return self.create_subresource(target, subresource, &body, &params).await;
        }
        let resource = &target.resource;
        let decoded = resource.shape.decode(&body, params.field_validation)?;
        params.warnings.extend(decoded.warnings);
        resource.record_request(&params.audit, &decoded.value);
        let mut object = resource.to_hub(decoded.value);
        meta::set_namespace(target, &mut object)?;
        meta::clear_system_fields(&mut object);
        params.warnings.extend(meta::deduplicate_owners(&mut object));
        resource.strategy.default(&mut object);
        let object = self.tracked(target, object, &params).await?;
        let attributes = Attributes::new(Operation::Create, target, object, params.context(target));
        let mut attributes = attributes.with_object_name();
        self.admit(&mut attributes).await?;
        let mut object = attributes.object.take();
        let prefix = object.text(&["metadata", "generateName"]).to_owned();
        let generate = !prefix.is_empty() && object.text(&["metadata", "name"]).is_empty();
        let mut attempts = if generate { NAME_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let mut object = if attempts > 0 { object.clone() } else { object.take() };
            if generate {
                let name = match resource.strategy.rules().name {
                    // An address with a random suffix is not an address.
                    NameRule::Address => prefix.clone(),
                    _ => meta::generate_name(&prefix, self.entropy()),
                };
                metadata_mut(&mut object).insert("name".to_owned(), name.into());
            }
            match self.store_new(target, object, &params).await {
                Err(status) if status.is_already_exists() && generate && attempts > 0 => {}
                // The real server returns this message even if the object also had a name.
                Err(status) if status.is_already_exists() && !prefix.is_empty() => return Err(name_conflict(status)),
                Err(status) => return Err(status),
                Ok(item) => {
                    let answer = ResponseBody::Object(Self::convert_item(resource, item).await?);
                    return Ok(Written { answer, created: true });
                }
            }
        }
    }

    /// Stores a new object after mutating admission; also used by updates that create an object. Returns the object as
    /// stored.
    pub(super) async fn store_new(&self, target: &Target, object: Value, params: &WriteParams) -> Result<Item, Status> {
        let mut allocation = WriteAllocation::default();
        let result = self.store_allocated(target, object, params, &mut allocation).await;
        allocation.revert().await;
        result
    }

    async fn store_allocated(
        &self,
        target: &Target,
        mut object: Value,
        params: &WriteParams,
        allocation: &mut WriteAllocation,
    ) -> Result<Item, Status> {
        let resource = &target.resource;
        let rules = resource.strategy.rules();
        meta::set_system_fields(&mut object, self.clock(), self.entropy());
        if rules.status == StatusRule::Reset {
            as_object(&mut object).shift_remove("status");
        }
        if rules.generation != Generation::None {
            metadata_mut(&mut object).insert("generation".to_owned(), 1.into());
        }
        rules.drop_disabled_fields(&mut object);
        resource.strategy.prepare_create(&mut object, &self.write_context(resource, params));
        allocation.allocate(resource, &mut object, None, params).await?;
        let managed_fields = field_manager::detach(&mut object);
        let mut object = resource.hub_shape().normalize_stored(object)?;
        let mut errors = Errors::of(self.resources().kubernetes());
        if rules.metadata.new {
            meta::validate(target, &object, rules.name, &mut errors);
        }
        let field = Field::object(&object);
        resource.strategy.validate(&field, &mut errors);
        resource.strategy.validate_create(&field, &mut errors);
        let name = object.text(&["metadata", "name"]).to_owned();
        if !rules.metadata.new && errors.is_empty() {
            meta::validate(target, &object, meta::ANY_NAME, &mut errors);
        }
        params.warnings.extend(errors.take_warnings());
        rules.arrange(&mut errors);
        errors.check(&resource.group_kind(), &name)?;
        params.warnings.extend(resource.strategy.warnings(&object, None));
        field_manager::attach(&mut object, managed_fields, resource.shape.style());
        let attributes = Attributes::new(Operation::Create, target, object.take(), params.context(target));
        let mut attributes = attributes.with_object_name();
        self.validate_admission(&mut attributes).await?;
        let given = metadata_mut(&mut attributes.object).shift_remove("resourceVersion");
        let given = given.and_then(|version| version.as_str().and_then(|text| text.parse::<u64>().ok()));
        if params.dry_run == DryRun::No && given.is_some_and(|version| version != 0) {
            return Err(Status::unclassified("resourceVersion should not be set on objects to be created"));
        }
        let encoded = Encoded::new(&*resource.to_stored(&mut attributes.object).await?, resource.shape.style());
        let key = target.key(&name);
        if params.dry_run == DryRun::All {
            return match self.stored(&key).await? {
                // A dry run returns the resourceVersion that the client sent.
                None => Ok(Item { encoded, revision: Revision(given.unwrap_or_default()) }),
                Some(existing) => Err(exists(target, &name, &Item::stored(&existing)?)),
            };
        }
        check_size(&key, Expect::Absent, &encoded)?;
        allocation.storing();
        let committed = self.0.storage.commit(&key, Expect::Absent, put(resource, &encoded)).await;
        allocation.stored(&committed).await;
        match committed {
            Ok(committed) => {
                let item = Item { encoded, revision: committed.revision };
                observe_stored(resource, &attributes.object);
                self.wait_for_delivery(&key, item.revision).await;
                Ok(item)
            }
            Err(CommitError::Conflict { current: Some(existing) }) => {
                Err(exists(target, &name, &Item::stored(&existing)?))
            }
            Err(error) => Err(commit_failure(&error)),
        }
    }
}

fn exists(target: &Target, name: &str, existing: &Item) -> Status {
    let mut status = Status::already_exists(&target.group_resource(), name);
    if existing.encoded.is_deleting() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Returns the status if all generated names were taken.
fn name_conflict(mut status: Status) -> Status {
    status.message = format!("{}, the server was not able to generate a unique name for the object", status.message);
    if let Some(details) = &mut status.details {
        details.retry_after_seconds = 1;
    }
    status
}
