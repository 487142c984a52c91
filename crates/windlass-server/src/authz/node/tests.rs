use serde_json::{Value, json};

use crate::{
    authz::{AccessAttributes, Authorization, AuthorizationConfiguration, Authorizer, Object},
    encoded::{Encoded, Style},
    identity::User,
    kubernetes::KubernetesVersion,
    storage::{Change, Expect, MemoryStorage, Revision, Storage as _},
};

struct Cluster {
    storage: MemoryStorage,
    authorizer: Authorizer,
}

impl Cluster {
    fn new() -> Self {
        let modes = AuthorizationConfiguration::from_modes(&["Node"], None).unwrap();
        let chain = modes.connect(|_| Err("there is no webhook".into())).unwrap();
        let authorizer = Authorizer::new(Authorization::Rbac, Some(chain), KubernetesVersion::default());
        Self { storage: MemoryStorage::default(), authorizer }
    }

    async fn put(&self, key: &str, object: Value) {
        let (_, found) = self.storage.get(key, None).await.unwrap();
        let expect = found.map_or(Expect::Absent, |found| Expect::Unchanged(found.modified));
        let bytes = Encoded::new(&object, Style::BuiltIn).storage_bytes();
        self.storage.commit(key, expect, Change::Put(bytes)).await.unwrap();
    }

    async fn delete(&self, key: &str) {
        let (_, found) = self.storage.get(key, None).await.unwrap();
        let expect = Expect::Unchanged(found.map_or(Revision(0), |found| found.modified));
        self.storage.commit(key, expect, Change::Delete).await.unwrap();
    }

    /// Reports whether a node may get an object in the namespace `n`, or a cluster-scoped volume.
    async fn gets(&self, node: &str, resource: &str, name: &str) -> bool {
        let groups = vec!["system:nodes".to_owned()];
        let user = User { name: format!("system:node:{node}"), groups, ..User::default() };
        let namespace = if resource == "persistentvolumes" { "" } else { "n" };
        let object = Object::Resource { group: "", version: "v1", resource, subresource: "", namespace, name };
        let attempt = AccessAttributes::new("get", object);
        let decision = self.authorizer.decide(&self.storage, &user, &attempt).await.unwrap();
        if !decision.is_allowed() {
            assert_eq!(decision.reason(), format!("no relationship found between node '{node}' and this object"));
        }
        decision.is_allowed()
    }
}

fn pod(node: &str, spec: Value) -> Value {
    let mut pod = json!({"spec": spec});
    pod["spec"]["nodeName"] = node.into();
    pod
}

#[tokio::test]
async fn node_reads_what_its_pods_use_as_long_as_they_exist() {
    let cluster = Cluster::new();
    let uses_secret = || json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]});
    assert!(!cluster.gets("a", "secrets", "s").await);
    cluster.put("/registry/pods/n/p", pod("a", uses_secret())).await;
    cluster.put("/registry/pods/n/q", pod("a", uses_secret())).await;
    cluster.put("/registry/pods/n/unscheduled", pod("", uses_secret())).await;
    assert!(cluster.gets("a", "secrets", "s").await && cluster.gets("a", "pods", "p").await);
    assert!(!cluster.gets("b", "secrets", "s").await && !cluster.gets("a", "secrets", "t").await);
    cluster.delete("/registry/pods/n/p").await;
    assert!(cluster.gets("a", "secrets", "s").await, "another pod uses it");
    cluster.put("/registry/pods/n/q", pod("a", json!({}))).await;
    assert!(!cluster.gets("a", "secrets", "s").await);
}

#[tokio::test]
async fn volume_and_its_secrets_belong_to_the_node_of_its_claim() {
    let cluster = Cluster::new();
    let volume = |secret: &str| {
        let reference = json!({"namespace": "n", "name": secret});
        json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}, "csi": {"nodeStageSecretRef": reference}}})
    };
    cluster.put("/registry/persistentvolumes/v", volume("s")).await;
    assert!(!cluster.gets("a", "persistentvolumes", "v").await);
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    cluster.put("/registry/pods/n/p", pod("a", claim)).await;
    assert!(cluster.gets("a", "persistentvolumes", "v").await && cluster.gets("a", "secrets", "s").await);
    cluster.put("/registry/persistentvolumes/v", volume("t")).await;
    assert!(!cluster.gets("a", "secrets", "s").await && cluster.gets("a", "secrets", "t").await);
    cluster.delete("/registry/persistentvolumes/v").await;
    assert!(!cluster.gets("a", "secrets", "t").await);
}

#[test]
fn modes_of_the_flag_are_checked() {
    let error = |modes: &[&str]| AuthorizationConfiguration::from_modes(modes, None).unwrap_err().to_string();
    for (modes, why) in [
        (&[][..], "at least one authorization-mode must be passed"),
        (&["RBAC", "RBAC"], "authorization-mode \"RBAC\" has mode specified more than once"),
        (&["rbac"], "authorization-mode \"rbac\" is not a valid mode"),
        (&["ABAC"], "authorization-mode \"ABAC\" is not supported; use RBAC or Webhook"),
        (&["Webhook"], "authorization-mode Webhook's authorization config file not passed"),
    ] {
        assert_eq!(error(modes), format!("invalid authorization configuration: {why}"));
    }
}
