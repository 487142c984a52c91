//! The strategy of a built-in kind, based on its row.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use windlass_api::{Clock, Status};

use super::{Kind, KindOptions};
use crate::{
    identity::User,
    object::Errors,
    resource::{Allocation, Part, Rules, ScaleRule, Strategy},
};

/// The pod fields of disabled features.
const OFF_IN_PODS: [&str; 4] = [
    "schedulingGroup",
    "containers.*.lifecycle.stopSignal",
    "initContainers.*.lifecycle.stopSignal",
    "ephemeralContainers.*.lifecycle.stopSignal",
];

/// The strategy of a built-in kind.
pub(super) struct BuiltIn {
    kind: &'static Kind,
    rules: Rules,
    clock: Clock,
    allocator: Option<Arc<dyn Allocator>>,
}

/// Allocates exclusive resources of a kind's objects, such as addresses and ports.
pub(super) trait Allocator: Send + Sync {
    /// Allocates an object's resources. After the write, resources that the object no longer uses are released.
    fn allocate(self: Arc<Self>, new: &mut Value, old: Option<&Value>) -> Result<Option<Box<dyn Allocation>>, Status>;

    /// Records the resources of a stored object as allocated.
    fn restore(&self, object: &Value);

    /// Releases the resources of a deleted object.
    fn release(&self, object: &Value);
}

impl BuiltIn {
    pub(super) fn new(kind: &'static Kind, options: &KindOptions) -> Self {
        let scale = kind.scales.then(|| {
            let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
            ScaleRule {
                spec_replicas: path("spec.replicas"),
                status_replicas: path("status.replicas"),
                selector: Some(path("spec.selector")),
            }
        });
        Self {
            kind,
            rules: Rules { scale, ..kind.rules.clone() },
            clock: options.clock.clone(),
            allocator: kind.allocator.map(|allocator| allocator(options)),
        }
    }

    fn drop_disabled_fields(&self, object: &mut Value) {
        for path in self.kind.off {
            drop_at(object, path);
        }
        if let Some(pod) = self.kind.pods_at.and_then(|pointer| object.pointer_mut(pointer)) {
            for path in OFF_IN_PODS {
                drop_at(pod, path);
            }
        }
    }

    fn stamp(&self, new: &mut Value, old: Option<&Value>) {
        if let Some(stamp) = self.kind.stamp {
            stamp(new, old, &windlass_api::format_time(self.clock.now()));
        }
    }
}

/// Removes the field at a path, in which `*` stands for each element of a list. Also removes an object that becomes
/// empty.
fn drop_at(value: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (value, rest) {
        (Value::Array(items), Some(rest)) if first == "*" => items.iter_mut().for_each(|item| drop_at(item, rest)),
        (Value::Object(fields), None) => drop(fields.shift_remove(first)),
        (Value::Object(fields), Some(rest)) => {
            let Some(inner) = fields.get_mut(first) else { return };
            let held = inner.as_object().is_some_and(|inner| !inner.is_empty());
            drop_at(inner, rest);
            if held && inner.as_object().is_some_and(Map::is_empty) {
                fields.shift_remove(first);
            }
        }
        _ => {}
    }
}

impl Strategy for BuiltIn {
    fn begin_deletion(&self, object: &mut Value, now: &str) {
        (self.kind.begin_deletion)(object, now);
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn default(&self, object: &mut Value) {
        (self.kind.default)(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        self.drop_disabled_fields(object);
        (self.kind.prepare_create)(object);
        self.stamp(object, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        self.drop_disabled_fields(new);
        (self.kind.prepare_update)(new, old);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        (self.kind.prepare_status)(new, old);
        self.stamp(new, Some(old));
    }

    fn sign(&self, object: &mut Value, user: &User) {
        (self.kind.sign)(object, user);
    }

    fn prepare_part(&self, part: Part, new: &mut Value, old: &Value) {
        (self.kind.prepare_part)(part, new, old);
        self.stamp(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        (self.kind.validate)(object, errors);
    }

    fn validate_part(&self, part: Part, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_part)(part, new, old, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        (self.kind.validate_create)(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_update)(new, old, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut Errors) {
        (self.kind.validate_status)(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        (self.kind.warnings)(new, old)
    }

    fn begin(&self, new: &mut Value, old: Option<&Value>) -> Result<Option<Box<dyn Allocation>>, Status> {
        self.allocator.as_ref().map_or(Ok(None), |allocator| Arc::clone(allocator).allocate(new, old))
    }

    fn restore(&self, object: &Value) {
        if let Some(allocator) = &self.allocator {
            allocator.restore(object);
        }
    }

    fn deleted(&self, object: &Value) {
        if let Some(allocator) = &self.allocator {
            allocator.release(object);
        }
    }

    fn fixed(&self) -> Option<Vec<Value>> {
        self.kind.fixed.map(|fixed| fixed())
    }

    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        if let Some(text) = (self.kind.field)(object, label) {
            return Cow::Owned(text);
        }
        let path = self.rules.fields.iter().find(|field| field.label == label).map_or("", |field| field.path);
        crate::resource::field_text(object, path)
    }
}

impl std::fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuiltIn({})", self.kind.name)
    }
}
