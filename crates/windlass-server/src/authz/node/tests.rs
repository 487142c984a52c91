use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use crate::{
    authz::{AccessAttributes, Authorization, AuthorizationConfiguration, Authorizer, Object},
    encoded::{Encoded, Style},
    identity::User,
    kubernetes::KubernetesVersion,
    storage::{Change, Expect, MemoryStorage, Range, RangeQuery, Revision, Storage, StorageError, suite},
};

struct Cluster {
    storage: Arc<dyn Storage>,
    authorizer: Authorizer,
}

impl Cluster {
    fn new() -> Self {
        Self::over(Arc::new(MemoryStorage::default()))
    }

    fn over(storage: Arc<dyn Storage>) -> Self {
        let modes = AuthorizationConfiguration::from_modes(&["Node"], None).unwrap();
        let chain = modes.connect(|_| Err("there is no webhook".into())).unwrap();
        let authorizer = Authorizer::new(Authorization::Rbac, Some(chain), KubernetesVersion::default());
        Self { storage, authorizer }
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

/// A storage that counts the reads of pods, which take some time.
#[derive(Debug, Default)]
struct Counting {
    storage: MemoryStorage,
    reads: Arc<AtomicUsize>,
}

impl suite::Forward for Counting {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            if query.prefix == "/registry/pods/" {
                self.reads.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            self.storage.range(query).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_share_one_start_of_the_graph() {
    let counting = Counting::default();
    let reads = Arc::clone(&counting.reads);
    let cluster = Cluster::over(Arc::new(counting));
    // More than a part of the objects that are decoded at a time.
    let filler = "x".repeat(400_000);
    for number in 0..4 {
        let volume = json!({"name": "v", "secret": {"secretName": format!("s{number}")}});
        let pod = pod("a", json!({"volumes": [volume], "filler": filler}));
        cluster.put(&format!("/registry/pods/n/p{number}"), pod).await;
    }
    // A request that is dropped or not polled does not delay the others.
    let mut unpolled = Box::pin(cluster.gets("a", "secrets", "s0"));
    assert!(futures::poll!(&mut unpolled).is_pending());
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    let answers = futures::future::join_all(names.iter().map(|name| cluster.gets("a", "secrets", name))).await;
    assert_eq!(answers, [true, true, true, true, false, false]);
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    assert!(unpolled.await);
}
