//! The kind ServiceCIDR.

use crate::kinds::prelude::*;

const IMMUTABLE: &str = "field is immutable";

pub(super) const KIND: Kind = Kind {
    name: "ServiceCIDR",
    rules: Rules { metadata: MetadataRule::CHANGES, resets: Resets::BARE_STATUS, restores: true, ..Rules::WITH_STATUS },
    validate_create: |object, errors| validate_ranges(&object.child("spec.cidrs"), errors),
    validate_update,
    ..BASE
};

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (ranges, old_ranges) = (new.child("spec.cidrs"), old.child("spec.cidrs"));
    match (old_ranges.len(), ranges.len()) {
        (old_len, len) if old_len == len => validate_unchanged(&ranges, &old_ranges, errors),
        (1, 2) => {
            validate_unchanged(&ranges, &old_ranges, errors);
            validate_ranges(&ranges, errors);
        }
        (_, 0) => ranges.invalid_as(&json!([]), IMMUTABLE, errors),
        _ => ranges.invalid(IMMUTABLE, errors),
    }
}

/// Validates that the old ranges are still at the start of the list.
fn validate_unchanged(ranges: &Field<'_>, old_ranges: &Field<'_>, errors: &mut Errors) {
    for (range, old) in ranges.items().zip(old_ranges.items()) {
        if range.text() != old.text() {
            range.invalid(IMMUTABLE, errors);
        }
    }
}

fn validate_ranges(ranges: &Field<'_>, errors: &mut Errors) {
    if ranges.is_empty() {
        return ranges.required("at least one CIDR required", errors);
    }
    if ranges.len() > 2 {
        // The value is shown with Go's field names.
        return ranges.invalid_as(&json!({"CIDRs": ranges.json()}), "may only hold up to 2 values", errors);
    }
    for range in ranges.items() {
        range.check_text(ip_range, errors);
    }
    let valid: Vec<Range> = ranges.items().filter_map(|range| Range::parse(range.text())).collect();
    if matches!(valid[..], [first, second] if first.is_ipv4() == second.is_ipv4()) {
        let text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        ranges.invalid(text, errors);
    }
}
