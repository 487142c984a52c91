//! The kind FlowSchema.

use crate::kinds::{
    flowcontrol::{RULES, schemas, validate_conditions, validate_mandatory_spec},
    prelude::*,
};

const MAX_PRECEDENCE: i64 = 10_000;
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, and the fields that name the subject.
const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

pub(super) const KIND: Kind = Kind {
    name: "FlowSchema",
    rules: RULES,
    default: |schema| default_to(object_mut(schema, "spec"), "matchingPrecedence", 1000),
    validate,
    validate_status: validate_conditions,
    ..BASE
};

fn validate(schema: &Field<'_>, errors: &mut Errors) {
    let spec = schema.child("spec");
    let name = schema.child("metadata.name").text();
    validate_precedence(&spec.child("matchingPrecedence"), name, errors);
    let method = spec.child("distinguisherMethod");
    let kind = method.child("type");
    if method.is_set() && !["ByNamespace", "ByUser"].contains(&kind.text()) {
        // The real server shows the whole method, with Go's field names.
        errors.unsupported(kind.path(), &json!({"Type": kind.text()}), &["ByNamespace", "ByUser"]);
    }
    let level = spec.child("priorityLevelConfiguration.name");
    level.check_not_empty("must reference a priority level", errors);
    level.optional_text(dns_subdomain, errors);
    spec.child("rules").each(validate_rule, errors);
    if matches!(name, "exempt" | "catch-all") {
        let mandatory: Vec<Value> = schemas("").into_iter().map(|(schema, _)| schema).collect();
        validate_mandatory_spec(schema, &mandatory, errors);
    }
}

fn validate_precedence(field: &Field<'_>, schema: &str, errors: &mut Errors) {
    field.check_count(1.., "must be a positive value", errors);
    field.check_int(..=MAX_PRECEDENCE, format_args!("must not be greater than {MAX_PRECEDENCE}"), errors);
    if field.int() == Some(1) && schema != "exempt" {
        field.invalid("only the schema named 'exempt' may have matchingPrecedence 1", errors);
    }
}

fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    let subjects = rule.child("subjects");
    subjects.check_not_empty("subjects must contain at least one value", errors);
    subjects.each(validate_subject, errors);
    let resource_rules = rule.child("resourceRules");
    let non_resource_rules = rule.child("nonResourceRules");
    if resource_rules.is_empty() && non_resource_rules.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty", errors);
    }
    resource_rules.each(validate_resource_rule, errors);
    non_resource_rules.each(validate_non_resource_rule, errors);
}

fn validate_subject(subject: &Field<'_>, errors: &mut Errors) {
    let kind = subject.child("kind");
    let Some((_, name)) = SUBJECTS.iter().find(|(supported, _)| *supported == kind.text()) else {
        return kind.unsupported(&["Group", "ServiceAccount", "User"], errors);
    };
    let (kind, reference) = (kind.text(), subject.child(name));
    reference.check_set(format_args!("{name} is required when subject kind is '{kind}'"), errors);
    if reference.is_set() {
        validate_subject_name(&reference, kind == "ServiceAccount", errors);
    }
    for (other, name) in SUBJECTS.iter().filter(|(other, _)| *other != kind) {
        let reference = subject.child(name);
        reference.check_unset(format_args!("{name} is forbidden when subject kind is not '{other}'"), errors);
    }
}

fn validate_subject_name(reference: &Field<'_>, is_service_account: bool, errors: &mut Errors) {
    let (name, namespace) = (reference.child("name"), reference.child("namespace"));
    if name.is_empty() {
        name.required("", errors);
    } else if is_service_account && name.text() != "*" {
        name.check_text(dns_subdomain, errors);
    }
    if is_service_account {
        namespace.check_not_empty("must specify namespace for service account", errors);
        namespace.optional_text(dns_label, errors);
    }
}

fn validate_resource_rule(rule: &Field<'_>, errors: &mut Errors) {
    validate_verbs(&rule.child("verbs"), errors);
    for (name, singular, plural) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let list = rule.child(name);
        list.check_not_empty(format_args!("resource rules must supply at least one {singular}"), errors);
        validate_wildcard(&list, plural, errors);
    }
    let namespaces = rule.child("namespaces");
    if namespaces.is_empty() && !rule.child("clusterScope").flag() {
        let text = "resource rules that are not cluster scoped must supply at least one namespace";
        namespaces.required(text, errors);
    } else if has_wildcard(&namespaces) {
        validate_wildcard(&namespaces, "namespaces", errors);
    } else {
        for namespace in namespaces.items() {
            for problem in dns_label(namespace.text()) {
                let text = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                namespace.invalid(&text, errors);
            }
        }
    }
}

fn validate_non_resource_rule(rule: &Field<'_>, errors: &mut Errors) {
    validate_verbs(&rule.child("verbs"), errors);
    let urls = rule.child("nonResourceURLs");
    if urls.is_empty() {
        urls.required("nonResourceURLs must contain at least one value", errors);
    } else if has_wildcard(&urls) {
        validate_wildcard(&urls, "non-resource URLs", errors);
    } else {
        for url in urls.items() {
            if let Some(problem) = url_path_problem(url.text()) {
                url.invalid(problem, errors);
            }
        }
    }
}

/// Returns the problem of a URL path, which may end with a wildcard.
fn url_path_problem(path: &str) -> Option<&'static str> {
    let wildcards = path.matches('*').count();
    Some(match path {
        "" => "must not be empty",
        "/" => return None,
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if wildcards > 1 || (wildcards == 1 && !path.ends_with("/*")) => "wildcard can only do suffix matching",
        _ => return None,
    })
}

fn validate_verbs(verbs: &Field<'_>, errors: &mut Errors) {
    if verbs.is_empty() {
        verbs.required("verbs must contain at least one value", errors);
    } else if has_wildcard(verbs) {
        validate_wildcard(verbs, "verbs", errors);
    } else if !verbs.items().all(|verb| VERBS.contains(&verb.text())) {
        errors.unsupported(verbs.path(), verbs.json(), VERBS);
    }
}

fn has_wildcard(list: &Field<'_>) -> bool {
    list.items().any(|item| item.text() == "*")
}

/// Validates that a wildcard is the only item of a list.
fn validate_wildcard(list: &Field<'_>, plural: &str, errors: &mut Errors) {
    if list.len() > 1 && has_wildcard(list) {
        list.invalid(&format!("if '*' is present, must not specify other {plural}"), errors);
    }
}
