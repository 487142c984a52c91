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
    lease.child("spec.leaseDurationSeconds").check_int(1.., "must be greater than 0", errors);
    lease.child("spec.leaseTransitions").not_negative(errors);
}
