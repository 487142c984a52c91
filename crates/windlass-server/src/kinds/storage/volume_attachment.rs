//! `VolumeAttachment`.

use crate::kinds::{
    core::persistent_volume::{default_source, validate_inline_volume},
    pod_spec::volume_sources::validate_driver_name,
    prelude::*,
    storage::MAX_PARAMETERS_SIZE,
};

pub(super) const KIND: Kind = Kind {
    name: "VolumeAttachment",
    rules: Rules {
        metadata: MetadataRule::OBJECT,
        resets: Resets::BARE_STATUS,
        unconditional_update: false,
        returns_deleted: true,
        ..Rules::WITH_STATUS
    },
    default: |object| change_each(object, "spec.source.inlineVolumeSpec", default_source),
    validate,
    validate_create,
    validate_update,
    validate_status: |new, _, errors| validate(new, errors),
    ..BASE
};

/// The maximum length of an error message, in bytes.
const MAX_MESSAGE: usize = 1024;

fn validate(attachment: &Field<'_>, errors: &mut Errors) {
    let (spec, status) = (attachment.child("spec"), attachment.child("status"));
    let attacher = spec.child("attacher");
    if errors.before(V1_36) {
        attacher.check_not_empty("", errors);
    } else {
        validate_driver_name(&attacher, errors);
    }
    let source = spec.child("source");
    validate_source(&source, errors);
    spec.child("nodeName").check_text(dns_subdomain, errors);
    validate_status(&status, errors);
    if !errors.before(V1_36) {
        source.child("persistentVolumeName").check_set_text(dns_subdomain, errors);
    }
}

/// Validates a new attachment. Before 1.36, names are only validated here.
fn validate_create(attachment: &Field<'_>, errors: &mut Errors) {
    if errors.before(V1_36) {
        let spec = attachment.child("spec");
        validate_driver_name(&spec.child("attacher"), errors);
        spec.child("source.persistentVolumeName").check_set_text(dns_subdomain, errors);
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let spec = new.child("spec");
    if spec.same(&old.child("spec")) {
        return;
    }
    // The value is shown with Go's field names.
    let shown = json!({
        "Attacher": spec.child("attacher").text(),
        "Source": {
            "PersistentVolumeName": spec.child("source.persistentVolumeName").json(),
            "InlineVolumeSpec": spec.child("source.inlineVolumeSpec").json(),
        },
        "NodeName": spec.child("nodeName").text(),
    });
    spec.invalid_as(&shown, "field is immutable", errors);
}

/// Validates the source of an attachment: the name of a persistent volume, or an inline volume.
fn validate_source(source: &Field<'_>, errors: &mut Errors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (inline, volume) = (source.child("inlineVolumeSpec"), source.child("persistentVolumeName"));
    match (inline.is_set(), volume.is_set()) {
        (false, false) => source.required(ONE, errors),
        (true, true) => source.forbidden(ONE, errors),
        (true, false) => validate_inline_volume(&inline, errors),
        (false, true) if volume.is_empty() => {
            volume.required("must specify non empty persistentVolumeName", errors);
        }
        (false, true) => {}
    }
}

fn validate_status(status: &Field<'_>, errors: &mut Errors) {
    let metadata = status.child("attachmentMetadata");
    let size: usize = metadata.entries().map(|(key, value)| key.len() + value.text().len()).sum();
    if size > MAX_PARAMETERS_SIZE {
        metadata.too_long(MAX_PARAMETERS_SIZE, errors);
    }
    for name in ["attachError", "detachError"] {
        let error = status.child(name);
        let message = error.child("message");
        if message.text().len() > MAX_MESSAGE {
            // Before 1.37, the real server reports the limit of the metadata.
            let is_wrong = errors.kubernetes() < KubernetesVersion::V1_37;
            message.too_long(if is_wrong { MAX_PARAMETERS_SIZE } else { MAX_MESSAGE }, errors);
        }
        error.child("errorCode").in_range(0, i64::from(i32::MAX), errors);
    }
}
