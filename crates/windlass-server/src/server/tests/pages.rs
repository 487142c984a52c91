//! `/statusz` and `/flagz`.

use std::{collections::BTreeMap, sync::atomic::AtomicI64};

use super::*;
use crate::{KubernetesVersion, User};

/// Returns a server with a flag, and its clock in seconds.
fn with_flag(kubernetes: KubernetesVersion) -> (Service, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(1_767_323_045));
    let clock = {
        let now = now.clone();
        Clock::from_fn(move || jiff::Timestamp::from_second(now.load(Ordering::Relaxed)).unwrap())
    };
    let flags = BTreeMap::from([("secure-port".to_owned(), "6443".to_owned())]);
    let builder = Server::builder().clock(clock).entropy(Entropy::seeded(1)).kubernetes(kubernetes).flags(flags);
    (builder.build().service(), now)
}

#[tokio::test]
async fn pages_are_text_by_default() {
    let (service, now) = with_flag(KubernetesVersion::V1_36);
    now.fetch_add(3 * 3600 + 62, Ordering::Relaxed);
    let head = |page: &str| {
        format!(
            "\napiserver {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
             compatibility guarantees and is for debugging purposes only.\n"
        )
    };
    let status = "\nStarted: Fri Jan  2 03:04:05 UTC 2026\nUp: 3 hr 01 min 02 sec\nGo version: none\nBinary version: \
                  1.36.3\nEmulation version: 1.36\nPaths: /flagz /healthz /livez /metrics /readyz /statusz /version\n";
    for accept in ["", "text/plain", "*/*", "text/*", "application/json,text/plain;q=0.5"] {
        let answer = accepting(&service, "/statusz", accept).await;
        assert_eq!((answer.code, answer.body.as_str()), (200, &*(head("statusz") + status)), "{accept}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
    assert_eq!(accepting(&service, "/flagz", "").await.body, head("flagz") + "secure-port: 6443\n");
}

#[tokio::test]
async fn pages_are_objects_on_request() {
    let (service, _) = with_flag(KubernetesVersion::V1_36);
    let typed = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let flags = accepting(&service, "/flagz", typed).await;
    assert_eq!(
        flags.body.trim_end(),
        r#"{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"apiserver"},"flags":{"secure-port":"6443"}}"#
    );
    assert_eq!(flags.header("content-type"), "application/json;g=config.k8s.io;v=v1beta1;as=Flagz");
    assert_eq!(flags.headers.get("warning"), None);
    let old = accepting(&service, "/statusz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz").await;
    assert!(old.body.contains("apiVersion: config.k8s.io/v1alpha1\n"), "{}", old.body);
    let warning = "299 - \"This version of the statusz endpoint is deprecated. Please use a newer version.\"";
    assert_eq!(old.header("warning"), warning);
    for accept in [
        "application/json",
        "text/html",
        "application/vnd.kubernetes.protobuf",
        "application/json;v=v1;g=config.k8s.io;as=Statusz",
        "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
    ] {
        let refused = accepting(&service, "/statusz", accept).await;
        assert_eq!(refused.code, 406, "{accept}");
        let message = "only the following media types are accepted: application/json, application/yaml, text/plain";
        assert_eq!(refused.json()["message"], message);
    }
}

#[tokio::test]
async fn pages_are_for_monitoring_and_since_1_36() {
    let (service, _) = with_flag(KubernetesVersion::V1_36);
    let monitoring = service.clone().acting_as(User::new("m").in_groups(["system:monitoring"]));
    let nobody = service.clone().acting_as(User::new("nobody"));
    for page in ["/statusz", "/flagz"] {
        assert_eq!(get(&monitoring, page).await.code, 200);
        assert_eq!(get(&nobody, page).await.code, 403);
    }
    assert_eq!(get(&service, "/configz").await.code, 404);
    let (older, _) = with_flag(KubernetesVersion::V1_35);
    assert_eq!(get(&older, "/statusz").await.code, 404);
    let paths = |service: Service| async move { get(&service, "/").await.json()["paths"].to_string() };
    assert!(paths(service).await.contains("/statusz"));
    assert!(!paths(older).await.contains("/statusz"));
}
