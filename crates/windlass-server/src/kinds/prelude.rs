//! The vocabulary of the kinds: their rules, the fields that they validate, and the helpers for defaults.

pub(super) use serde_json::{Map, Value, json};

pub(super) use super::{BASE, Kind};
pub(super) use crate::kubernetes::KubernetesVersion::{V1_34, V1_35, V1_36, V1_37};
pub(super) use crate::{
    kubernetes::KubernetesVersion,
    object::{
        DuplicateCheck, Errors, Field, NameRule, Path, Range, Rule, Tree, address_problem, as_object, c_identifier,
        change_each, condition_reason, config_key, copy_key, default_pointer, default_to, dns_label, dns_label_1035,
        dns_subdomain, dns_subdomain_with_underscores, entry_mut, first_by, ip_address, ip_range, items_mut,
        label_value, metadata_mut, object_mut, parse_address, path_segment, port_name, qualified_name, range_problem,
        requirement, same, validate_address, validate_annotations, validate_domain_prefixed, validate_labels,
        wildcard_subdomain,
    },
    resource::{
        Allocation, Deletion, Dependents, FieldRule, Generation, Item, MetadataRule, Part, Resets, Rules, StatusRule,
        UnknownField, WriteContext,
    },
};
