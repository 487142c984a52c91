//! The group `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.
//!
//! The objects exist because clients list them. This server does not apply them: it has one queue for all requests.

use serde_json::{Value, json};

use super::{BASE, Kind};
use crate::{
    object::{
        DuplicateCheck, Errors, Path, Tree, as_object, default_pointer, default_to, dns_label, dns_subdomain,
        entry_mut, object_mut, same,
    },
    resource::{Generation, Resets, Rules},
};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SPEC: Path<'static> = Path::new("spec");
const MAX_PRECEDENCE: i64 = 10000;
const MAX_QUEUES: i64 = 10_000_000;
/// The number of hash bits for shuffle sharding.
const HASH_BITS: f64 = 60.0;
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// The rules that both kinds share.
const RULES: Rules = Rules { resets: Resets::BARE_STATUS, generation: Generation::Spec, ..Rules::WITH_STATUS };

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: GROUP,
        name: "FlowSchema",
        prefix: "/registry/flowschemas/",
        subresources: &["status"],
        rules: RULES,
        default: |object| default_to(object_mut(object, "spec"), "matchingPrecedence", 1000),
        validate: validate_schema,
        validate_status: |new, _, errors| validate_conditions(new, errors),
        ..BASE
    },
    Kind {
        group: GROUP,
        name: "PriorityLevelConfiguration",
        prefix: "/registry/prioritylevelconfigurations/",
        subresources: &["status"],
        rules: RULES,
        default: default_level,
        validate: validate_level,
        validate_status: |new, _, errors| validate_conditions(new, errors),
        ..BASE
    },
];

// === default objects ===

/// The name; the shares and the lendable percentage; the queues and the hand size.
const LEVELS: [(&str, i64, i64, Option<(i64, i64)>); 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];

/// The name, priority level, precedence, flow distinguisher, subjects and rules. Subjects are groups (`g:`), users
/// (`u:`), and the service accounts of a namespace (`s:`).
const SCHEMAS: [(&str, &str, i64, &str, &[&str], Requests); 11] = [
    ("catch-all", "catch-all", 10000, "ByUser", &["g:system:unauthenticated", "g:system:authenticated"], Requests::All),
    ("exempt", "exempt", 1, "", &["g:system:masters"], Requests::All),
    (
        "global-default",
        "global-default",
        9900,
        "ByUser",
        &["g:system:unauthenticated", "g:system:authenticated"],
        Requests::All,
    ),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        &["u:system:kube-controller-manager"],
        Requests::All,
    ),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", &["u:system:kube-scheduler"], Requests::All),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &["s:kube-system"], Requests::All),
    ("probes", "exempt", 2, "", &["g:system:unauthenticated", "g:system:authenticated"], Requests::Probes),
    ("service-accounts", "workload-low", 9000, "ByUser", &["g:system:serviceaccounts"], Requests::All),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &["u:system:kube-controller-manager", "u:system:kube-scheduler", "s:kube-system"],
        Requests::Elections,
    ),
    ("system-node-high", "node-high", 400, "ByUser", &["g:system:nodes"], Requests::Nodes),
    ("system-nodes", "system", 500, "ByUser", &["g:system:nodes"], Requests::All),
];

/// The requests that a schema matches.
#[derive(Clone, Copy)]
enum Requests {
    All,
    Probes,
    /// Requests for the leases of leader elections.
    Elections,
    /// Requests of nodes about themselves.
    Nodes,
}

/// Returns the mandatory and suggested priority levels.
pub(crate) fn levels() -> Vec<Value> {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut all = vec![automatic("exempt", exempt)];
    all.extend(LEVELS.iter().map(|(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => {
                json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}})
            }
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable});
        automatic(name, json!({"type": "Limited", "limited": limited}))
    }));
    all
}

/// Returns the mandatory and suggested flow schemas, with statuses that report that their level exists.
pub(crate) fn schemas(now: &str) -> Vec<(Value, Value)> {
    let made = SCHEMAS.iter().map(|(name, level, precedence, flows, subjects, requests)| {
        let subjects: Vec<Value> = subjects.iter().map(|text| subject(text)).collect();
        let mut rule = requests.rule();
        as_object(&mut rule).insert("subjects".to_owned(), subjects.into());
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
        });
        if !flows.is_empty() {
            spec["distinguisherMethod"] = json!({"type": flows});
        }
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists");
        let found = json!({"type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found",
            "message": message});
        (automatic(name, spec), json!({"conditions": [found]}))
    });
    made.collect()
}

fn automatic(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}, "spec": spec})
}

fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap_or_default();
    match kind {
        "g" => json!({"kind": "Group", "group": {"name": name}}),
        "u" => json!({"kind": "User", "user": {"name": name}}),
        _ => json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": name, "name": "*"}}),
    }
}

impl Requests {
    fn rule(self) -> Value {
        let leases = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]});
        match self {
            Self::All => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                    "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }),
            Self::Probes => json!({
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
            }),
            Self::Elections => json!({"resourceRules": [leases(&["get", "create", "update"])]}),
            Self::Nodes => json!({"resourceRules": [
                {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": true,
                    "namespaces": ["*"]},
                leases(&["*"]),
            ]}),
        }
    }
}

// === levels ===

fn default_level(object: &mut Value) {
    let Some(spec) = entry_mut(object, "spec") else { return };
    if let Some(exempt) = entry_mut(spec, "exempt") {
        default_pointer(as_object(exempt), "nominalConcurrencyShares", 0);
        default_pointer(as_object(exempt), "lendablePercent", 0);
    }
    let Some(limited) = entry_mut(spec, "limited") else { return };
    default_pointer(as_object(limited), "nominalConcurrencyShares", 30);
    default_pointer(as_object(limited), "lendablePercent", 0);
    let queuing = entry_mut(limited, "limitResponse").and_then(|response| entry_mut(response, "queuing"));
    if let Some(queuing) = queuing {
        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_to(as_object(queuing), field, value);
        }
    }
}

fn validate_level(object: &Value, errors: &mut Errors) {
    let name = object.text(&["metadata", "name"]);
    let nothing = json!({});
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    let kind = spec.text(&["type"]);
    if (name == "exempt") != (kind == "Exempt") {
        errors.invalid(&SPEC.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (spec.at(&["limited"]), spec.at(&["exempt"]));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&SPEC.child("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                validate_shares(exempt, &SPEC.child("exempt"), errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&SPEC.child("exempt"), "must be nil if the type is Limited");
            }
            match limited {
                None => errors.required(&SPEC.child("limited"), "must not be empty when type is Limited"),
                Some(limited) => validate_limited(limited, &SPEC.child("limited"), errors),
            }
        }
        "" => errors.required(&SPEC.child("type"), ""),
        other => errors.unsupported(&SPEC.child("type"), other, &["Exempt", "Limited"]),
    }
    // The fallback level must not change.
    if name == "catch-all" {
        let fixed = levels().into_iter().find(|level| level.text(&["metadata", "name"]) == name);
        if !same(fixed.as_ref().and_then(|fixed| fixed.at(&["spec"])), Some(spec)) {
            errors.invalid(&SPEC, spec, &format!("spec of '{name}' must equal the fixed value"));
        }
    }
}

fn validate_shares(level: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = level.int(&["nominalConcurrencyShares"]).filter(|shares| *shares < 0) {
        errors.invalid(&path.child("nominalConcurrencyShares"), &shares, "must be a non-negative integer");
    }
    if let Some(percent) = level.int(&["lendablePercent"]).filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(&path.child("lendablePercent"), &percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(limited: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(shares) = limited.int(&["nominalConcurrencyShares"]).filter(|shares| *shares < 0) {
        errors.invalid(&path.child("nominalConcurrencyShares"), &shares, "must be a non-negative integer");
    }
    let place = path.child("limitResponse");
    let queuing = limited.at(&["limitResponse", "queuing"]);
    match (limited.text(&["limitResponse", "type"]), queuing) {
        ("Reject", Some(_)) => {
            errors.forbidden(&place.child("queuing"), "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Queue", None) => {
            errors.required(&place.child("queuing"), "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &place.child("queuing"), errors),
        ("Reject", None) => {}
        ("", _) => errors.required(&place.child("type"), ""),
        (other, _) => errors.unsupported(&place.child("type"), other, &["Queue", "Reject"]),
    }
    if let Some(percent) = limited.int(&["lendablePercent"]).filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(&path.child("lendablePercent"), &percent, "must be between 0 and 100, inclusive");
    }
    if let Some(percent) = limited.int(&["borrowingLimitPercent"]).filter(|percent| *percent < 0) {
        let text = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), &percent, text);
    }
}

fn validate_queuing(queuing: &Value, path: &Path<'_>, errors: &mut Errors) {
    let [limit, queues, hand] =
        ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.int(&[field]).unwrap_or_default());
    if limit <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), &limit, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&path.child("queues"), &queues, "must be positive");
    } else if queues > MAX_QUEUES {
        errors.invalid(&path.child("queues"), &queues, &format!("must not be greater than {MAX_QUEUES}"));
    }
    let place = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&place, &hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&place, &hand, &format!("should not be greater than queues ({queues})"));
    } else {
        #[allow(clippy::cast_precision_loss, reason = "numbers of queues are small")]
        let bits = (0..hand).map(|dealt| ((queues - dealt) as f64).log2()).sum::<f64>().ceil();
        if bits > HASH_BITS {
            let text = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
            );
            errors.invalid(&place, &hand, &text);
        }
    }
}

// === schemas ===

fn validate_schema(object: &Value, errors: &mut Errors) {
    let name = object.text(&["metadata", "name"]);
    let nothing = json!({});
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    let precedence = spec.int(&["matchingPrecedence"]).unwrap_or_default();
    let place = SPEC.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(&place, &precedence, "must be a positive value");
    }
    if precedence > MAX_PRECEDENCE {
        errors.invalid(&place, &precedence, &format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && name != "exempt" {
        errors.invalid(&place, &precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.at(&["distinguisherMethod"])
        && !["ByNamespace", "ByUser"].contains(&method.text(&["type"]))
    {
        let shown = json!({"Type": method.text(&["type"])});
        errors.unsupported(&SPEC.child("distinguisherMethod.type"), &shown, &["ByNamespace", "ByUser"]);
    }
    let level = spec.text(&["priorityLevelConfiguration", "name"]);
    let place = SPEC.child("priorityLevelConfiguration.name");
    if level.is_empty() {
        errors.required(&place, "must reference a priority level");
    } else {
        errors.invalid_each(&place, level, dns_subdomain(level));
    }
    let list = SPEC.child("rules");
    for (index, rule) in spec.items(&["rules"]).iter().enumerate() {
        validate_rule(rule, &list.index(index), errors);
    }
    let fixed = schemas("").into_iter().map(|(schema, _)| schema);
    let fixed = fixed.filter(|_| matches!(name, "exempt" | "catch-all"));
    if let Some(fixed) = fixed.into_iter().find(|schema| schema.text(&["metadata", "name"]) == name)
        && !same(fixed.at(&["spec"]), Some(spec))
    {
        errors.invalid(&SPEC, spec, &format!("spec of '{name}' must equal the fixed value"));
    }
}

fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let list = path.child("subjects");
    if rule.items(&["subjects"]).is_empty() {
        errors.required(&list, "subjects must contain at least one value");
    }
    for (index, subject) in rule.items(&["subjects"]).iter().enumerate() {
        validate_subject(subject, &list.index(index), errors);
    }
    let (resources, paths) = (rule.items(&["resourceRules"]), rule.items(&["nonResourceRules"]));
    if resources.is_empty() && paths.is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let list = path.child("resourceRules");
    for (index, rule) in resources.iter().enumerate() {
        let place = list.index(index);
        validate_verbs(rule, VERBS, &place, errors);
        for (field, one, others) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
            if rule.items(&[field]).is_empty() {
                let text = format!("resource rules must supply at least one {one}");
                errors.required(&place.child(field), &text);
            } else {
                validate_star(rule, field, others, &place, errors);
            }
        }
        let namespaces = rule.items(&["namespaces"]);
        let names = place.child("namespaces");
        if namespaces.is_empty() && !rule.flag(&["clusterScope"]) {
            let text = "resource rules that are not cluster scoped must supply at least one namespace";
            errors.required(&names, text);
        } else if namespaces.iter().any(|namespace| namespace == "*") {
            validate_star(rule, "namespaces", "namespaces", &place, errors);
        } else {
            for (index, namespace) in namespaces.iter().enumerate() {
                let namespace = namespace.as_str().unwrap_or_default();
                for wrong in dns_label(namespace) {
                    let text = format!("each member of this list must be '*' or a DNS-1123 label; {wrong}");
                    errors.invalid(&names.index(index), namespace, &text);
                }
            }
        }
    }
    let list = path.child("nonResourceRules");
    for (index, rule) in paths.iter().enumerate() {
        let place = list.index(index);
        validate_verbs(rule, VERBS, &place, errors);
        let urls = place.child("nonResourceURLs");
        let items = rule.items(&["nonResourceURLs"]);
        if items.is_empty() {
            errors.required(&urls, "nonResourceURLs must contain at least one value");
        } else if items.iter().any(|item| item == "*") {
            validate_star(rule, "nonResourceURLs", "non-resource URLs", &place, errors);
        } else {
            for (index, item) in items.iter().enumerate() {
                let item = item.as_str().unwrap_or_default();
                if let Some(wrong) = wrong_path(item) {
                    errors.invalid(&urls.index(index), item, wrong);
                }
            }
        }
    }
}

fn wrong_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    Some(match path {
        "" => "must not be empty",
        "/" => return None,
        _ if !path.starts_with('/') => "must start with slash",
        _ if path.contains(' ') => "must not contain white-space",
        _ if path.contains("//") => "must not contain double slash",
        _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => "wildcard can only do suffix matching",
        _ => return None,
    })
}

fn validate_star(rule: &Value, field: &str, others: &str, path: &Path<'_>, errors: &mut Errors) {
    let items = rule.items(&[field]);
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let text = format!("if '*' is present, must not specify other {others}");
        errors.invalid(&path.child(field), &json!(items), &text);
    }
}

fn validate_verbs(rule: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let verbs = rule.items(&["verbs"]);
    let place = path.child("verbs");
    if verbs.is_empty() {
        errors.required(&place, "verbs must contain at least one value");
    } else if verbs.iter().any(|verb| verb == "*") {
        validate_star(rule, "verbs", "verbs", path, errors);
    } else if !verbs.iter().all(|verb| verb.as_str().is_some_and(|verb| known.contains(&verb))) {
        errors.unsupported(&place, &json!(verbs), known);
    }
}

fn validate_subject(subject: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FORMS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.text(&["kind"]);
    let Some((_, form)) = FORMS.iter().find(|(name, _)| *name == kind) else {
        return errors.unsupported(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let place = path.child(form);
    match subject.at(&[form]) {
        None => errors.required(&place, &format!("{form} is required when subject kind is '{kind}'")),
        Some(found) => {
            let name = found.text(&["name"]);
            if name.is_empty() {
                errors.required(&place.child("name"), "");
            } else if kind == "ServiceAccount" && name != "*" {
                errors.invalid_each(&place.child("name"), name, dns_subdomain(name));
            }
            let namespace = found.text(&["namespace"]);
            if kind == "ServiceAccount" {
                if namespace.is_empty() {
                    errors.required(&place.child("namespace"), "must specify namespace for service account");
                } else {
                    errors.invalid_each(&place.child("namespace"), namespace, dns_label(namespace));
                }
            }
        }
    }
    for (other, form) in FORMS.iter().filter(|(name, _)| *name != kind) {
        if subject.at(&[form]).is_some() {
            let text = format!("{form} is forbidden when subject kind is not '{other}'");
            errors.forbidden(&path.child(form), &text);
        }
    }
}

fn validate_conditions(object: &Value, errors: &mut Errors) {
    let path = Path::new("status.conditions");
    let mut seen = DuplicateCheck::default();
    for (index, condition) in object.items(&["status", "conditions"]).iter().enumerate() {
        let kind = condition.text(&["type"]);
        let place = path.index(index);
        if seen.repeats(kind) {
            errors.duplicate(&place.child("type"), kind);
        }
        if kind.is_empty() {
            errors.required(&place.child("type"), "");
        }
    }
}
