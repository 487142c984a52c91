//! The names of the health checks, and the states in which they fail.

use futures::future::BoxFuture;
use rcgen::{CertificateParams, KeyPair};

use super::{starting::api, *};
use crate::{
    AuthorizationConfiguration, KubernetesVersion, ProxyIdentity, ServerBuilder,
    storage::{
        Change, CommitError, Committed, Expect, MemoryStorage, Range, RangeQuery, Revision, Storage, StorageError,
        suite,
    },
};

const ROLES: &str = "poststarthook/rbac/bootstrap-roles";

/// A storage that does not work, or that takes no commits of roles, while a test says so.
#[derive(Debug, Default)]
struct Broken {
    below: MemoryStorage,
    is_away: AtomicBool,
    refuses_roles: AtomicBool,
}

fn away() -> StorageError {
    StorageError::Unavailable("the storage is away".into())
}

impl suite::Forward for Broken {
    fn below(&self) -> &dyn Storage {
        &self.below
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        if self.is_away.load(Ordering::Relaxed) {
            return Box::pin(async { Err(away()) });
        }
        self.below.revision()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        if self.is_away.load(Ordering::Relaxed) {
            return Box::pin(async { Err(away()) });
        }
        self.below.range(query)
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        let refuses = self.refuses_roles.load(Ordering::Relaxed) && key.contains("/clusterroles/");
        if refuses || self.is_away.load(Ordering::Relaxed) {
            return Box::pin(async { Err(away().into()) });
        }
        self.below.commit(key, expect, change)
    }
}

fn over(storage: &Arc<Broken>) -> Service {
    Server::builder().storage(Arc::clone(storage) as Arc<dyn Storage>).build().service()
}

/// Returns the names of the checks of a probe that have this result.
async fn checks(service: &Service, probe: &str, result: &str) -> Vec<String> {
    let answer = get(service, &format!("/{probe}?verbose")).await;
    let names = answer.body.lines().filter_map(|line| line.strip_suffix(result));
    names.filter_map(|line| line.get(3..)).map(str::to_owned).collect()
}

async fn listed(builder: ServerBuilder, probe: &str) -> Vec<String> {
    checks(&builder.build().service(), probe, " ok").await
}

/// Returns the names that only the first list has.
fn without(names: &[String], others: &[String]) -> Vec<String> {
    names.iter().filter(|name| !others.contains(name)).cloned().collect()
}

fn proxy_identity() -> ProxyIdentity {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
    ProxyIdentity::from_pem(&certificate, &key.serialize_pem()).unwrap()
}

#[tokio::test]
async fn checks_depend_on_the_version() {
    let of = |version| Server::builder().kubernetes(version);
    let livez = listed(of(KubernetesVersion::V1_36), "livez").await;
    for version in [KubernetesVersion::V1_33, KubernetesVersion::V1_34, KubernetesVersion::V1_35] {
        let older = listed(of(version), "livez").await;
        let added = [
            "loopback-serving-certificate",
            "poststarthook/peer-endpoint-reconciler-controller",
            "poststarthook/storage-readiness",
        ];
        assert_eq!(without(&livez, &older), added, "{version}");
        assert_eq!(without(&older, &livez), [""; 0], "{version}");
    }
    assert_eq!(listed(of(KubernetesVersion::V1_37), "livez").await, livez);
}

/// Compared with kube-apiserver, with `--enable-priority-and-fairness=false`, `--proxy-client-cert-file`, and an
/// authorization mode without RBAC.
#[tokio::test]
async fn checks_depend_on_the_parts_of_the_server() {
    let default = listed(Server::builder(), "readyz").await;
    let hook = |name: &str| format!("poststarthook/{name}");

    let unfair = listed(Server::builder().priority_and_fairness(false), "readyz").await;
    assert_eq!(without(&unfair, &default), [hook("max-in-flight-filter")]);
    assert_eq!(
        without(&default, &unfair),
        [hook("priority-and-fairness-config-consumer"), hook("priority-and-fairness-filter")]
    );

    let with_identity = listed(Server::builder().proxy_identity(proxy_identity()), "readyz").await;
    assert_eq!(without(&with_identity, &default), [hook("aggregator-reload-proxy-client-cert")]);
    assert_eq!(without(&default, &with_identity), [""; 0]);

    let modes = AuthorizationConfiguration::from_modes(&["AlwaysAllow"], None).unwrap();
    let chain = modes.connect(|_| Err("there is no webhook".into())).unwrap();
    let without_roles = listed(Server::builder().authorizers(chain), "readyz").await;
    assert_eq!(without(&default, &without_roles), [ROLES]);
}

#[tokio::test]
async fn extension_server_has_no_checks_of_a_cluster() {
    let names = listed(Server::builder().extension(api("field")), "readyz").await;
    let expected = [
        "ping",
        "log",
        "etcd",
        "etcd-readiness",
        "informer-sync",
        "poststarthook/start-apiserver-admission-initializer",
        "poststarthook/generic-apiserver-start-informers",
        "poststarthook/priority-and-fairness-config-consumer",
        "poststarthook/priority-and-fairness-filter",
        "poststarthook/storage-object-count-tracker-hook",
        "shutdown",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn hooks_fail_until_the_server_has_started() {
    let storage = Arc::<Broken>::default();
    storage.is_away.store(true, Ordering::Relaxed);
    let service = over(&storage);
    assert_eq!(checks(&service, "livez", " ok").await, ["ping", "log", "loopback-serving-certificate"]);
    let alone = get(&service, "/livez/poststarthook/bootstrap-controller").await;
    assert_eq!((alone.code, &*alone.body), (500, "internal server error: not finished\n"));
    let alone = get(&service, "/livez/etcd").await;
    assert!(alone.code == 500 && alone.body.contains("the storage is unavailable"), "{}", alone.body);

    storage.is_away.store(false, Ordering::Relaxed);
    assert_eq!(get(&service, "/readyz").await.body, "ok");

    storage.is_away.store(true, Ordering::Relaxed);
    let failed = checks(&service, "readyz", " failed: reason withheld").await;
    assert_eq!(failed, ["etcd", "etcd-readiness"], "a hook stays finished");
}

#[tokio::test]
async fn hook_of_roles_fails_until_they_exist() {
    let storage = Arc::<Broken>::default();
    storage.refuses_roles.store(true, Ordering::Relaxed);
    let service = over(&storage);
    let failed = checks(&service, "readyz", " failed: reason withheld").await;
    let expected = [
        "poststarthook/priority-and-fairness-config-consumer",
        "poststarthook/priority-and-fairness-filter",
        ROLES,
        "poststarthook/priority-and-fairness-config-producer",
        "poststarthook/kube-apiserver-autoregistration",
        "autoregister-completion",
    ];
    assert_eq!(failed, expected);
    assert_eq!(get(&service, &format!("/readyz/{ROLES}")).await.code, 500);

    storage.refuses_roles.store(false, Ordering::Relaxed);
    assert_eq!(get(&service, &format!("/readyz/{ROLES}")).await.body, "ok");
    let prefix = "/registry/clusterroles/";
    let roles = storage.below.range(RangeQuery::prefix(prefix)).await.unwrap().values;
    assert!(
        roles.iter().any(|role| role.key.ends_with("/cluster-admin")),
        "the check has created {} roles",
        roles.len()
    );
}
