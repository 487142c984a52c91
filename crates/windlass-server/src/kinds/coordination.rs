//! The group `coordination.k8s.io`.

use crate::kinds::prelude::*;

pub(super) const KINDS: &[Kind] = &[Kind {
    name: "Lease",
    rules: Rules {
        metadata: MetadataRule { finalizers: false, ..MetadataRule::CHANGES },
        unconditional_update: false,
        create_on_update: true,
        disabled_fields: &["spec.strategy", "spec.preferredHolder"],
        ..Rules::COMMON
    },
    validate,
    ..BASE
}];

fn validate(lease: &Field<'_>, errors: &mut Errors) {
    let duration = lease.child("spec.leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        duration.invalid("must be greater than 0", errors);
    }
    lease.child("spec.leaseTransitions").not_negative(errors);
}
