//! FlowSchemas, compiled for matching requests.

use serde_json::Value;

use crate::{
    identity::{SERVICE_ACCOUNT, User},
    object::Tree,
    request::RequestInfo,
};

/// The matching precedence of a schema that sets none.
const DEFAULT_PRECEDENCE: i64 = 1000;

/// The rules of a FlowSchema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SchemaSpec {
    pub(super) name: String,
    /// Empty if the object is not stored.
    pub(super) uid: String,
    pub(super) level: String,
    pub(super) precedence: i64,
    pub(super) distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// The attribute that distinguishes the flows of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Distinguisher {
    /// All requests are one flow.
    #[default]
    None,
    User,
    Namespace,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    /// All users, or all groups. Every user has a group.
    Everyone,
    User(String),
    Group(String),
    /// All service accounts of a namespace, by the prefix of their user names.
    ServiceAccounts(String),
}

#[derive(Clone, Debug, PartialEq)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    /// `pods`, or `pods/status` for a subresource.
    resources: Names,
    namespaces: Names,
    cluster_scope: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct PathRule {
    verbs: Names,
    paths: Vec<PathPattern>,
}

#[derive(Clone, Debug, PartialEq)]
enum PathPattern {
    Any,
    /// A path, and the prefix of the paths below it.
    Below {
        path: String,
        prefix: String,
    },
}

/// A list of names.
#[derive(Clone, Debug, PartialEq)]
enum Names {
    All,
    Only(Vec<String>),
}

impl SchemaSpec {
    /// Reads a FlowSchema object.
    pub(super) fn read(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            name: object.text(&["metadata", "name"]).to_owned(),
            uid: object.text(&["metadata", "uid"]).to_owned(),
            level: spec.text(&["priorityLevelConfiguration", "name"]).to_owned(),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(DEFAULT_PRECEDENCE),
            distinguisher: match spec.text(&["distinguisherMethod", "type"]) {
                "ByUser" => Distinguisher::User,
                "ByNamespace" => Distinguisher::Namespace,
                _ => Distinguisher::None,
            },
            rules: items(&spec["rules"]).map(Rule::read).collect(),
        }
    }

    /// Reports whether a request belongs to the schema.
    pub(super) fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        self.rules.iter().any(|rule| rule.matches(user, info))
    }

    /// Returns the name of the flow of a request.
    pub(super) fn flow<'r>(&self, user: &'r User, info: &'r RequestInfo) -> &'r str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::User => &user.name,
            Distinguisher::Namespace => info.resource.as_ref().and_then(|path| path.namespace.as_deref()).unwrap_or(""),
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            subjects: items(&rule["subjects"]).filter_map(Subject::read).collect(),
            resources: items(&rule["resourceRules"]).map(ResourceRule::read).collect(),
            paths: items(&rule["nonResourceRules"]).map(PathRule::read).collect(),
        }
    }

    fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        self.subjects.iter().any(|subject| subject.matches(user))
            && if info.resource.is_some() {
                self.resources.iter().any(|rule| rule.matches(info))
            } else {
                self.paths.iter().any(|rule| rule.matches(info))
            }
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Self> {
        let name = |kind: &str| Some(subject[kind]["name"].as_str()?.to_owned());
        Some(match subject.text(&["kind"]) {
            "User" => match name("user")? {
                all if all == "*" => Self::Everyone,
                name => Self::User(name),
            },
            "Group" => match name("group")? {
                all if all == "*" => Self::Everyone,
                name => Self::Group(name),
            },
            "ServiceAccount" => {
                let prefix = format!("{SERVICE_ACCOUNT}{}:", subject["serviceAccount"]["namespace"].as_str()?);
                match name("serviceAccount")? {
                    all if all == "*" => Self::ServiceAccounts(prefix),
                    name => Self::User(prefix + &name),
                }
            }
            _ => return None,
        })
    }

    fn matches(&self, user: &User) -> bool {
        match self {
            Self::Everyone => true,
            Self::User(name) => user.name == *name,
            Self::Group(name) => user.groups.contains(name),
            Self::ServiceAccounts(prefix) => user.name.starts_with(prefix.as_str()),
        }
    }
}

impl ResourceRule {
    fn read(rule: &Value) -> Self {
        Self {
            verbs: Names::read(&rule["verbs"]),
            groups: Names::read(&rule["apiGroups"]),
            resources: Names::read(&rule["resources"]),
            namespaces: Names::read(&rule["namespaces"]),
            cluster_scope: rule["clusterScope"].as_bool().unwrap_or_default(),
        }
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        let Some(path) = &info.resource else { return false };
        self.verbs.contain(&info.verb)
            && self.resources.contain_resource(&path.resource, &path.subresource)
            && self.groups.contain(&path.group)
            && match path.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
                Some(namespace) => self.namespaces.contain(namespace),
                None => self.cluster_scope,
            }
    }
}

impl PathRule {
    fn read(rule: &Value) -> Self {
        let paths = items(&rule["nonResourceURLs"]).filter_map(Value::as_str).map(PathPattern::read);
        Self { verbs: Names::read(&rule["verbs"]), paths: paths.collect() }
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        self.verbs.contain(&info.verb) && self.paths.iter().any(|pattern| pattern.matches(&info.path))
    }
}

impl PathPattern {
    fn read(path: &str) -> Self {
        if path == "*" {
            return Self::Any;
        }
        let mut prefix = path.strip_suffix('*').unwrap_or(path).to_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        Self::Below { path: path.to_owned(), prefix }
    }

    /// As in kube-apiserver, a path without a wildcard includes the paths below it.
    fn matches(&self, requested: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Below { path, prefix } => requested == path || requested.starts_with(prefix.as_str()),
        }
    }
}

impl Names {
    fn read(list: &Value) -> Self {
        let names: Vec<String> = items(list).filter_map(Value::as_str).map(str::to_owned).collect();
        if names == ["*"] { Self::All } else { Self::Only(names) }
    }

    fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|known| known == name),
        }
    }

    fn contain_resource(&self, resource: &str, subresource: &str) -> bool {
        match self {
            Self::Only(names) if !subresource.is_empty() => {
                names.iter().any(|known| known.split_once('/') == Some((resource, subresource)))
            }
            names => names.contain(resource),
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::request::Query;

    fn info(request: &str) -> RequestInfo {
        let (method, target) = request.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestInfo::new(&Method::from_bytes(method.as_bytes()).unwrap(), path, &Query::parse(query)).unwrap()
    }

    fn schema(subject: Value, rules: Value) -> SchemaSpec {
        let mut rule = rules;
        rule["subjects"] = json!([subject]);
        SchemaSpec::read(&json!({"metadata": {"name": "s"}, "spec": {"rules": [rule]}}))
    }

    #[test]
    fn subjects_match_users_groups_and_service_accounts() {
        let all = || {
            json!({"resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                "namespaces": ["*"]}]})
        };
        let (jane, robot) = (User::new("jane").in_groups(["devs"]), User::service_account("ns", "robot"));
        for (subject, matched) in [
            (json!({"kind": "User", "user": {"name": "jane"}}), (true, false)),
            (json!({"kind": "User", "user": {"name": "*"}}), (true, true)),
            (json!({"kind": "User", "user": {"name": "system:serviceaccount:ns:robot"}}), (false, true)),
            (json!({"kind": "Group", "group": {"name": "devs"}}), (true, false)),
            (json!({"kind": "Group", "group": {"name": "*"}}), (true, true)),
            (json!({"kind": "Group", "group": {"name": "system:serviceaccounts:ns"}}), (false, true)),
            (json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "robot"}}), (false, true)),
            (json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "*"}}), (false, true)),
            (json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "*"}}), (false, false)),
            (json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "rob"}}), (false, false)),
        ] {
            let schema = schema(subject.clone(), all());
            let pods = info("GET /api/v1/pods");
            assert_eq!((schema.matches(&jane, &pods), schema.matches(&robot, &pods)), matched, "{subject}");
        }
    }

    #[test]
    fn resource_rules_match_all_their_parts() {
        let everyone = json!({"kind": "User", "user": {"name": "*"}});
        let matches = |rule: Value, request: &str| {
            schema(everyone.clone(), json!({"resourceRules": [rule]})).matches(&User::new("a"), &info(request))
        };
        let pods = |namespaces: Value, cluster: bool| {
            json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": namespaces,
                "clusterScope": cluster})
        };
        assert!(matches(pods(json!(["n"]), false), "GET /api/v1/namespaces/n/pods"));
        assert!(!matches(pods(json!(["n"]), false), "GET /api/v1/namespaces/m/pods"));
        assert!(!matches(pods(json!(["n"]), false), "GET /api/v1/pods"));
        assert!(!matches(pods(json!(["*"]), false), "GET /api/v1/pods"));
        assert!(matches(pods(json!([]), true), "GET /api/v1/pods"));
        assert!(!matches(pods(json!([]), true), "GET /api/v1/namespaces/n/pods"));
        assert!(!matches(pods(json!(["n"]), false), "GET /api/v1/namespaces/n/pods/p"));
        assert!(!matches(pods(json!(["n"]), false), "GET /apis/x/v1/namespaces/n/pods"));
        assert!(!matches(pods(json!(["*"]), true), "GET /version"));
        let one =
            |resource: &str| json!({"verbs": ["*"], "apiGroups": ["*"], "resources": [resource], "namespaces": ["*"]});
        assert!(matches(one("pods/log"), "GET /api/v1/namespaces/n/pods/p/log"));
        assert!(!matches(one("pods"), "GET /api/v1/namespaces/n/pods/p/log"));
        assert!(matches(one("*"), "GET /api/v1/namespaces/n/pods/p/log"));
        // The request for a namespace is in that namespace.
        assert!(matches(one("namespaces"), "GET /api/v1/namespaces/n"));
    }

    #[test]
    fn paths_match_themselves_and_those_below() {
        let everyone = json!({"kind": "Group", "group": {"name": "*"}});
        let matches = |paths: Value, path: &str| {
            let rule = json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": paths}]});
            schema(everyone.clone(), rule).matches(&User::new("a"), &info(&format!("GET {path}")))
        };
        assert!(matches(json!(["*"]), "/anything"));
        assert!(matches(json!(["/healthz"]), "/healthz"));
        assert!(matches(json!(["/healthz"]), "/healthz/etcd"));
        assert!(!matches(json!(["/healthz"]), "/healthzy"));
        assert!(matches(json!(["/api/*"]), "/api/v1"));
        assert!(!matches(json!(["/api/*"]), "/api"));
        assert!(!matches(json!(["*"]), "/api/v1/pods"));
    }

    #[test]
    fn flows_are_distinguished_by_user_or_namespace() {
        let flow = |kind: Value| {
            let schema = json!({"spec": {"distinguisherMethod": kind}});
            SchemaSpec::read(&schema).flow(&User::new("a"), &info("GET /api/v1/namespaces/n/pods")).to_owned()
        };
        assert_eq!(flow(json!(null)), "");
        assert_eq!(flow(json!({"type": "ByUser"})), "a");
        assert_eq!(flow(json!({"type": "ByNamespace"})), "n");
    }
}
