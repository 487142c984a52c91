//! Decisions about random requests by random roles and bindings, on both servers.
//!
//! A round creates roles and bindings, and asks about requests with access reviews. The reason of a decision is not
//! compared, because several bindings can allow a request, and the real server takes any of them.

use std::fmt::Write as _;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::Both;
use crate::{Target, case, seeded_random::SeededRandom};

/// The number of decisions of a round.
const PER_ROUND: usize = 100;
/// The number of concurrent rounds.
const AT_ONCE: usize = 4;

const VERBS: [&str; 9] = ["get", "list", "watch", "create", "update", "patch", "delete", "use", "*"];
const GROUPS: [&str; 5] = ["", "apps", "batch", "example.com", "*"];
const RESOURCES: [&str; 11] = [
    "pods",
    "pods/log",
    "pods/exec",
    "deployments",
    "deployments/scale",
    "*/scale",
    "configmaps",
    "widgets",
    "widgets/status",
    "*",
    "*/*",
];
const NAMES: [&str; 4] = ["a", "b", "c", "*"];
const PATHS: [&str; 7] = ["/healthz", "/metrics", "/metrics/*", "/a/*", "/a/b", "/*", "*"];

/// The result of a run.
#[derive(Debug, Default)]
pub struct Decisions {
    /// The number of compared decisions.
    pub made: usize,
    /// The number of those that allow the request.
    pub allowed: usize,
    /// The rounds with differences, each as a case with the differing lines.
    pub differences: Vec<String>,
}

/// Compares at least this number of decisions of the embedded and the real server.
///
/// # Panics
///
/// If the environment names no real server.
pub async fn decisions(seed: u64, count: usize) -> Decisions {
    let upstream = Target::upstream().expect("the environment names the real server");
    let both = Both { embedded: Target::embedded().await, upstream: &upstream };
    let rounds = count.div_ceil(PER_ROUND) as u64;
    let mut found = Decisions::default();
    let mut played = std::pin::pin!(
        stream::iter(0..rounds)
            .map(async |number| {
                let text = Round::new(seed, number).text();
                let cases = case::parse(&text).expect("the generated case is valid");
                let (embedded, upstream) =
                    futures::join!(super::answers(&both.embedded, &cases[0]), super::answers(both.upstream, &cases[0]));
                (text, embedded, upstream)
            })
            .buffer_unordered(AT_ONCE)
    );
    while let Some((text, embedded, upstream)) = played.next().await {
        found.made += PER_ROUND;
        // Both markers are allowed.
        found.allowed += upstream.matches("status.allowed = true").count().saturating_sub(2);
        if embedded != upstream {
            found.differences.push(format!("{text}{}", crate::recording::difference(&upstream, &embedded)));
        }
    }
    found
}

/// The random choices of a round.
struct Round {
    random: SeededRandom,
    name: String,
}

impl Round {
    fn new(seed: u64, number: u64) -> Self {
        Self { random: SeededRandom::of(seed, number), name: format!("seed-{seed}-{number}") }
    }

    /// Returns the round as a case. The last bindings are markers: as soon as they have an effect, the others have, too.
    fn text(&self) -> String {
        let mut text = format!("=== {}\n", self.name);
        let mut created = Vec::new();
        let mut create = |text: &mut String, path: &str, object: Value| {
            writeln!(text, "POST {path}\n{object}\n< only kind\n").expect("a string can be extended");
            created.push(format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default()));
        };
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let in_namespace = |plural: &str| format!("{RBAC}/namespaces/{{ns}}/{plural}");
        for index in 0..5 {
            let rules = self.rules(true);
            let role = json!({"metadata": {"name": format!("r{index}-{{id}}")}, "rules": rules});
            create(&mut text, &format!("{RBAC}/clusterroles"), role);
            let role = json!({"metadata": {"name": format!("r{index}")}, "rules": self.rules(false)});
            create(&mut text, &in_namespace("roles"), role);
        }
        let marker = |verb: &str| json!([{"verbs": [verb], "apiGroups": ["marker"], "resources": ["marker"]}]);
        let last = json!({"metadata": {"name": "last-{id}"}, "rules": marker("cluster")});
        create(&mut text, &format!("{RBAC}/clusterroles"), last);
        let last = json!({"metadata": {"name": "last"}, "rules": marker("local")});
        create(&mut text, &in_namespace("roles"), last);
        for index in 0..4 {
            let name = format!("b{index}-{{id}}");
            let binding = self.binding(&name, "ClusterRole", &format!("r{}-{{id}}", self.random.below(6)));
            create(&mut text, &format!("{RBAC}/clusterrolebindings"), binding);
            let (kind, role) = if self.random.chance(50) {
                ("ClusterRole", format!("r{}-{{id}}", self.random.below(6)))
            } else {
                ("Role", format!("r{}", self.random.below(6)))
            };
            create(&mut text, &in_namespace("rolebindings"), self.binding(&format!("b{index}"), kind, &role));
        }
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "marker-{id}"}]);
        let bound = |name: &str, kind: &str, role: &str| {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
            json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
        };
        let binding = bound("last-{id}", "ClusterRole", "last-{id}");
        create(&mut text, &format!("{RBAC}/clusterrolebindings"), binding);
        create(&mut text, &in_namespace("rolebindings"), bound("last", "Role", "last"));
        for verb in ["cluster", "local"] {
            let attributes = json!({"verb": verb, "group": "marker", "resource": "marker", "namespace": "{ns}"});
            review(
                &mut text,
                &json!({"user": "marker-{id}", "resourceAttributes": attributes}),
                "< until status.allowed=true\n",
            );
        }
        for _ in 0..PER_ROUND {
            review(&mut text, &self.question(), "");
        }
        for path in created {
            writeln!(text, "DELETE {path}\n< only status\n").expect("a string can be extended");
        }
        text
    }

    fn some<'a>(&self, items: &[&'a str], most: usize) -> Vec<&'a str> {
        let count = 1 + self.random.below(most);
        let mut chosen: Vec<&str> = (0..count).map(|_| *self.random.pick(items)).collect();
        chosen.dedup();
        chosen
    }

    fn rules(&self, with_paths: bool) -> Value {
        let rules = (0..=self.random.below(4)).map(|_| {
            let mut rule = json!({"verbs": self.some(&VERBS, 5)});
            if with_paths && self.random.chance(25) {
                rule["nonResourceURLs"] = json!(self.some(&PATHS, 2));
                return rule;
            }
            rule["apiGroups"] = json!(self.some(&GROUPS, 3));
            rule["resources"] = json!(self.some(&RESOURCES, 5));
            if self.random.chance(20) {
                rule["resourceNames"] = json!(self.some(&NAMES, 2));
            }
            rule
        });
        rules.collect()
    }

    fn binding(&self, name: &str, kind: &str, role: &str) -> Value {
        let subjects = (0..self.random.below(5)).map(|_| {
            let number = self.random.below(3);
            match self.random.below(3) {
                0 => json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("u{number}-{{id}}")}),
                1 => json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": format!("g{number}-{{id}}")}),
                _ => json!({"kind": "ServiceAccount", "name": format!("s{number}"), "namespace": "{ns}"}),
            }
        });
        let subjects: Vec<Value> = subjects.collect();
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
        json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
    }

    /// Returns the spec of an access review.
    fn question(&self) -> Value {
        let number = self.random.below(4);
        let user = match self.random.below(3) {
            0 => format!("system:serviceaccount:{{ns}}:s{number}"),
            _ => format!("u{number}-{{id}}"),
        };
        let groups: Vec<String> =
            (0..self.random.below(3)).map(|_| format!("g{}-{{id}}", self.random.below(4))).collect();
        let mut spec = json!({"user": user, "groups": groups});
        if self.random.chance(15) {
            let paths = ["/healthz", "/metrics", "/metrics/x", "/a", "/a/b", "/a/b/c", "/", "*", "/a/*"];
            let verbs = ["get", "post", "put", "delete", "*"];
            spec["nonResourceAttributes"] = json!({"path": self.random.pick(&paths), "verb": self.random.pick(&verbs)});
            return spec;
        }
        let resource = *self.random.pick(&RESOURCES);
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut attributes =
            json!({"verb": self.random.pick(&VERBS), "group": self.random.pick(&GROUPS), "resource": resource});
        if !subresource.is_empty() {
            attributes["subresource"] = subresource.into();
        }
        if self.random.chance(70) {
            attributes["namespace"] = self.random.pick(&["{ns}", "{ns}", "{ns}", "default"]).to_string().into();
        }
        if self.random.chance(50) {
            attributes["name"] = (*self.random.pick(&NAMES)).into();
        }
        spec["resourceAttributes"] = attributes;
        spec
    }
}

/// Adds an access review to a case.
fn review(text: &mut String, spec: &Value, until: &str) {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = json!({"spec": spec});
    writeln!(text, "POST {path}\n{review}\n{until}< only status.allowed\n").expect("a string can be extended");
}
