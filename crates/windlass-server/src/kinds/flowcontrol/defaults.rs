//! The flow control objects that the server creates when it starts.

use crate::kinds::prelude::*;

/// The limited priority levels: name, concurrency shares, lendable percentage, and the number of queues with the hand
/// size.
const LEVELS: [(&str, i64, i64, Option<(i64, i64)>); 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];

const CONTROLLER_MANAGER: &str = "u:system:kube-controller-manager";
const SCHEDULER: &str = "u:system:kube-scheduler";
const ALL_USERS: &[&str] = &["g:system:unauthenticated", "g:system:authenticated"];

/// The flow schemas: name, priority level, precedence, flow distinguisher, subjects and requests. Subjects are groups
/// (`g:`), users (`u:`), and the service accounts of a namespace (`s:`).
const SCHEMAS: [(&str, &str, i64, &str, &[&str], Requests); 11] = [
    ("catch-all", "catch-all", 10000, "ByUser", ALL_USERS, Requests::All),
    ("exempt", "exempt", 1, "", &["g:system:masters"], Requests::All),
    ("global-default", "global-default", 9900, "ByUser", ALL_USERS, Requests::All),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", &[CONTROLLER_MANAGER], Requests::All),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], Requests::All),
    ("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &["s:kube-system"], Requests::All),
    ("probes", "exempt", 2, "", ALL_USERS, Requests::Probes),
    ("service-accounts", "workload-low", 9000, "ByUser", &["g:system:serviceaccounts"], Requests::All),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &[CONTROLLER_MANAGER, SCHEDULER, "s:kube-system"],
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
    /// Requests of nodes for their own objects.
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
    let schemas = SCHEMAS.iter().map(|(name, level, precedence, flows, subjects, requests)| {
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
        let condition = json!({"type": "Dangling", "status": "False", "lastTransitionTime": now, "reason": "Found",
            "message": message});
        (automatic(name, spec), json!({"conditions": [condition]}))
    });
    schemas.collect()
}

/// Returns an object that the server updates automatically.
fn automatic(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}, "spec": spec})
}

/// Returns the subject of an entry of [`SCHEMAS`].
fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap_or_default();
    match kind {
        "g" => json!({"kind": "Group", "group": {"name": name}}),
        "u" => json!({"kind": "User", "user": {"name": name}}),
        _ => json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": name, "name": "*"}}),
    }
}

impl Requests {
    /// Returns the rule without its subjects.
    fn rule(self) -> Value {
        let leases = |verbs: &[&str]| {
            json!({
                "verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"],
            })
        };
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
