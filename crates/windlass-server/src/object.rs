//! JSON objects: values, field paths, names and addresses.
//!
//! The vocabulary of every module that reads or validates objects. It depends on no kind and on no request.

mod address;
mod causes;
mod declared;
mod errors;
mod field;
mod go_syntax;
mod metadata;
mod names;
mod path;
mod requirement;
mod seen;
mod tree;
mod wording;

pub(crate) use self::{
    address::{Range, parse as parse_address},
    causes::Causes,
    declared::{Check, DeclaredRule},
    errors::{Errors, FieldValue, validate_address, validate_domain_prefixed},
    field::{Field, Rule},
    go_syntax::show_untyped,
    metadata::{validate_annotations, validate_labels},
    names::{
        NameRule, address_problem, c_identifier, condition_reason, config_key, dns_label, dns_label_1035,
        dns_subdomain, dns_subdomain_with_underscores, http_path, ip_address, ip_range, label_value, path_segment,
        port_name, qualified_name, range_problem, wildcard_subdomain,
    },
    path::Path,
    requirement::requirement,
    seen::{DuplicateCheck, first_by},
    tree::{
        Tree, as_object, change_each, copy_key, default_pointer, default_to, entry_mut, items_mut, metadata_mut,
        object_mut, same,
    },
    wording::adjust as adjust_wording,
};
