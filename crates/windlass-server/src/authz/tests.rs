//! Tests of rules, of comparisons between them, and of decisions by stored roles.

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use serde_json::{Value, json};

use super::*;
use crate::{
    encoded::{Encoded, Style},
    storage::{Change, EventStream, Expect, MemoryStorage, Revision, StorageError, suite},
};

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
    let texts = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
    Rule {
        verbs: texts(verbs),
        groups: texts(groups),
        resources: texts(resources),
        names: texts(names),
        paths: Vec::new(),
    }
}

fn paths(verbs: &[&str], paths: &[&str]) -> Rule {
    let paths = paths.iter().copied().map(str::to_owned).collect();
    Rule { paths, ..rule(verbs, &[], &[], &[]) }
}

/// Parses a request, for example `get apps deployments/scale web`.
fn attempt(text: &str) -> AccessAttributes<'_> {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (verb, group, resource, name) = (next(), next(), next(), next());
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    AccessAttributes::new(verb, Object::Resource { group, version: "v1", resource, subresource, namespace: "n", name })
}

#[test]
fn rule_allows_only_its_verbs_groups_and_resources() {
    let scale = rule(&["get"], &["apps"], &["*/scale"], &[]);
    let log = rule(&["get"], &[""], &["pods/log"], &[]);
    let named = rule(&["*"], &["*"], &["configmaps"], &["a"]);
    let all = rule(&["*"], &["*"], &["*"], &[]);
    for (rule, text, expected) in [
        (&scale, "get apps deployments/scale", true),
        (&scale, "get apps deployments", false),
        (&scale, "get apps deployments/status", false),
        (&scale, "get  replicationcontrollers/scale", false),
        (&scale, "list apps deployments/scale", false),
        (&log, "get  pods/log", true),
        (&log, "get  pods", false),
        (&log, "get  nodes/log", false),
        (&named, "delete x configmaps a", true),
        (&named, "delete x configmaps b", false),
        (&named, "list x configmaps", false),
        (&all, "brew x things/part y", true),
    ] {
        assert_eq!(rule.allows(&attempt(text)), expected, "{text} by {}", rule.describe());
    }
    let debug = paths(&["get"], &["/debug/*", "/metrics"]);
    for (verb, path, expected) in [
        ("get", "/debug/a/b", true),
        ("get", "/debug", false),
        ("get", "/metrics", true),
        ("get", "/metrics/a", false),
        ("put", "/metrics", false),
    ] {
        assert_eq!(debug.allows(&AccessAttributes::new(verb, Object::Path(path))), expected, "{verb} {path}");
    }
    assert!(!all.allows(&AccessAttributes::new("get", Object::Path("/metrics"))), "a path is not a resource");
}

#[test]
fn missing_permissions_have_one_line_per_resource() {
    let held = [rule(&["get"], &[""], &["pods", "*/log"], &[]), rule(&["*"], &[""], &["secrets"], &["a"])];
    let lines = |requested: &[Rule]| missing(&held, requested).into_iter().collect::<Vec<_>>();
    assert!(lines(&[rule(&["get"], &[""], &["pods", "pods/log"], &["x"])]).is_empty());
    assert!(lines(&[rule(&["list", "get"], &[""], &["secrets"], &["a"])]).is_empty());
    assert_eq!(
        lines(&[rule(&["get", "list", "watch"], &["", "apps"], &["pods"], &[])]),
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list" "watch"]}"#
        ]
    );
    assert_eq!(
        lines(&[rule(&["get"], &[""], &["secrets"], &["a", "b"]), rule(&["get"], &[""], &["secrets"], &[])]),
        [
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#
        ]
    );
    assert_eq!(
        missing(&[paths(&["get"], &["/a/*"])], &[paths(&["get", "put"], &["/a/b"])]).into_iter().collect::<Vec<_>>(),
        [r#"{NonResourceURLs:["/a/b"], Verbs:["put"]}"#]
    );
    let [resources, urls] = Rule::everything();
    assert!(missing(&[resources, urls], &held).is_empty());
}

struct Stored {
    storage: Arc<dyn Storage>,
    authorizer: Authorizer,
}

impl Stored {
    async fn put(&self, key: &str, object: Value) {
        let bytes = Encoded::new(&object, Style::BuiltIn).storage_bytes();
        self.storage.commit(key, Expect::Absent, Change::Put(bytes)).await.unwrap();
    }

    async fn delete(&self, key: &str) {
        let (_, found) = self.storage.get(key, None).await.unwrap();
        let expect = Expect::Unchanged(found.map_or(Revision(0), |found| found.modified));
        self.storage.commit(key, expect, Change::Delete).await.unwrap();
    }

    /// Returns the reason for allowing the request, or in parentheses the reason for rejecting it.
    async fn decision(&self, user: &User, text: &str) -> String {
        let decision = self.authorizer.decide(&self.storage, user, &attempt(text)).await.unwrap();
        if decision.is_allowed() { decision.reason() } else { format!("({})", decision.reason()) }
    }
}

/// A storage whose watches deliver events later, or never.
#[derive(Debug)]
struct Late {
    storage: MemoryStorage,
    delay: Option<Duration>,
}

impl suite::Forward for Late {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let Some(delay) = self.delay else { return Ok(stream::pending().boxed()) };
            let events = self.storage.watch(prefix, after).await?;
            let late = events.then(move |delivery| tokio::time::sleep(delay).map(|()| delivery));
            Ok(late.boxed())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn answered_commit_is_included_before_its_event_arrives() {
    for delay in [Some(Duration::from_millis(20)), None] {
        let late: Arc<dyn Storage> = Arc::new(Late { storage: MemoryStorage::default(), delay });
        let authorizer = Authorizer::new(Authorization::Rbac, None, KubernetesVersion::default());
        let jane = user("jane", &[]);
        let is_allowed = async || authorizer.decide(&late, &jane, &attempt("get  pods")).await.unwrap().is_allowed();
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let role = json!({"rules": [rule]});
        let subject = json!({"kind": "User", "name": "jane"});
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": [subject]});
        let mut last = None;
        for (key, object) in [("/registry/clusterroles/reader", role), ("/registry/rolebindings/n/b", binding)] {
            assert!(!is_allowed().await);
            let bytes = Encoded::new(&object, Style::BuiltIn).storage_bytes();
            let committed = late.commit(key, Expect::Absent, Change::Put(bytes)).await.unwrap();
            authorizer.last_commits().record(key, committed.revision);
            last = Some((key, committed.revision));
        }
        assert!(is_allowed().await, "{delay:?}");
        let (key, revision) = last.unwrap();
        let deleted = late.commit(key, Expect::Unchanged(revision), Change::Delete).await.unwrap();
        authorizer.last_commits().record(key, deleted.revision);
        assert!(!is_allowed().await, "{delay:?}");
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().copied().map(str::to_owned).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

#[tokio::test]
async fn role_changes_apply_to_the_next_request() {
    let stored = Stored { storage: Arc::new(MemoryStorage::default()), authorizer: Authorizer::default() };
    let (jane, robot) = (user("jane", &["devs"]), user("system:serviceaccount:n:robot", &[]));
    assert_eq!(stored.decision(&jane, "get  pods").await, "()");
    stored
        .put(
            "/registry/rolebindings/n/b",
            json!({"roleRef": {"kind": "ClusterRole", "name": "reader"},
                "subjects": [{"kind": "User", "name": "joe"}, {"kind": "Group", "name": "devs"},
                    {"kind": "ServiceAccount", "name": "robot"}]}),
        )
        .await;
    assert_eq!(
        stored.decision(&jane, "get  pods").await,
        r#"(RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found)"#
    );
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    stored.put("/registry/clusterroles/reader", rules).await;
    assert_eq!(
        stored.decision(&jane, "get  pods").await,
        r#"RBAC: allowed by RoleBinding "b/n" of ClusterRole "reader" to Group "devs""#
    );
    assert_eq!(
        stored.decision(&robot, "get  pods").await,
        r#"RBAC: allowed by RoleBinding "b/n" of ClusterRole "reader" to ServiceAccount "robot/n""#
    );
    let elsewhere = AccessAttributes::new(
        "get",
        Object::Resource { group: "", version: "v1", resource: "pods", subresource: "", namespace: "m", name: "" },
    );
    assert!(!stored.authorizer.decide(&stored.storage, &jane, &elsewhere).await.unwrap().is_allowed());
    assert_eq!(stored.decision(&user("joan", &[]), "get  pods").await, "()");
    stored.delete("/registry/rolebindings/n/b").await;
    assert_eq!(stored.decision(&jane, "get  pods").await, "()");
}

#[tokio::test]
async fn refusals_name_their_authorizer_since_1_37() {
    for (kubernetes, start) in [(KubernetesVersion::V1_36, ""), (KubernetesVersion::V1_37, "rbac: ")] {
        let configuration = AuthorizationConfiguration::parse(json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": [{"type": "RBAC", "name": "roles"}, {"type": "AlwaysDeny", "name": "never"}],
        }));
        let chain = configuration.unwrap().connect(|_| Err("there is no webhook".into())).unwrap();
        let authorizer = Authorizer::new(Authorization::Rbac, None, kubernetes);
        let stored = Stored { storage: Arc::new(MemoryStorage::default()), authorizer };
        let subject = json!({"kind": "User", "name": "jane"});
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": [subject]});
        stored.put("/registry/rolebindings/n/b", binding).await;
        let missing = r#"RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found"#;
        assert_eq!(stored.decision(&user("jane", &[]), "get  pods").await, format!("({start}{missing})"));
        assert_eq!(stored.decision(&user("joan", &[]), "get  pods").await, "()");
        let stored = Stored { authorizer: Authorizer::new(Authorization::Rbac, Some(chain), kubernetes), ..stored };
        let expected = match start {
            "" => format!("({missing}\nEverything is forbidden.)"),
            _ => format!("(roles: {missing}\nnever: Everything is forbidden.)"),
        };
        assert_eq!(stored.decision(&user("jane", &[]), "get  pods").await, expected);
    }
}

#[tokio::test]
async fn roles_are_relisted_after_the_watch_ends() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let stored = Stored { storage, authorizer: Authorizer::default() };
    let jane = user("jane", &[]);
    assert_eq!(stored.decision(&jane, "get  pods").await, "()");
    // More events than a watch buffers, so that the watch ends.
    for _ in 0..1 << 15 {
        stored.put("/registry/roles/n/r", json!({})).await;
        stored.delete("/registry/roles/n/r").await;
    }
    let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "jane"}]});
    stored.put("/registry/rolebindings/n/b", binding).await;
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    stored.put("/registry/roles/n/r", rules).await;
    assert_eq!(
        stored.decision(&jane, "get  pods").await,
        r#"RBAC: allowed by RoleBinding "b/n" of Role "r" to User "jane""#
    );
}

#[tokio::test]
async fn masters_and_always_allow_need_no_role() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let stored = Stored { storage, authorizer: Authorizer::default() };
    assert_eq!(stored.decision(&user("root", &[MASTERS]), "get  pods").await, "");
    assert_eq!(stored.decision(&user("jane", &[AUTHENTICATED]), "get  pods").await, "()");
    let open = Stored {
        authorizer: Authorizer::new(Authorization::AlwaysAllow, None, KubernetesVersion::default()),
        ..stored
    };
    assert_eq!(open.decision(&user("jane", &[AUTHENTICATED]), "get  pods").await, "");
    assert_eq!(open.decision(&user("system:anonymous", &["system:unauthenticated"]), "get  pods").await, "()");
    let (rules, _) = open.authorizer.rules_of(&open.storage, &user("jane", &[AUTHENTICATED]), "n").await.unwrap();
    assert_eq!(rules, Rule::everything());
}

#[test]
fn forbidden_message_names_user_verb_and_resource() {
    let refused = |attempt: AccessAttributes<'_>| attempt.forbidden(&user("a<b>\"", &[]), "why").message;
    assert_eq!(
        refused(attempt("get apps deployments/scale web")),
        "deployments.apps \"web\" is forbidden: User \"a&lt;b&gt;\\\"\" cannot get resource \"deployments/scale\" in API \
         group \"apps\" in the namespace \"n\": why"
    );
    assert_eq!(
        refused(AccessAttributes::new("get", Object::Path("/x&y"))),
        "forbidden: User \"a&lt;b&gt;\\\"\" cannot get path \"/x&amp;y\": why"
    );
}
