//! The group `coordination.k8s.io`.

use crate::kinds::prelude::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    group: "coordination.k8s.io",
    name: "Lease",
    prefix: "/registry/leases/",
    strategy: |_| Arc::new(Lease),
    ..BASE
}];

#[derive(Debug)]
struct Lease;

impl Strategy for Lease {
    fn rules(&self) -> &Rules {
        &Rules {
            metadata: MetadataRule { finalizers: false, ..MetadataRule::CHANGES },
            unconditional_update: false,
            create_on_update: true,
            disabled_fields: &["spec.strategy", "spec.preferredHolder"],
            ..Rules::COMMON
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let lease = Field::object(object);
        let duration = lease.child("spec.leaseDurationSeconds");
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            duration.invalid("must be greater than 0", errors);
        }
        lease.child("spec.leaseTransitions").not_negative(errors);
    }
}
