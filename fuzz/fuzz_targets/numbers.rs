//! Numbers of eight bytes each, as durations, periods, counts and versions in requests.
#![no_main]

use bytes::Bytes;
use serde_json::json;
use windlass_fuzz::{JSON, TEST_SERVER};

/// Query parameters of reads and deletions.
const PARAMETERS: [&str; 5] =
    ["gracePeriodSeconds", "timeoutSeconds", "limit", "resourceVersion", "resourceVersionMatch=NotOlderThan&resourceVersion"];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((number, rest)) = data.split_first_chunk::<8>() else { return };
    let number = i64::from_le_bytes(*number);
    let other = rest.first_chunk::<8>().map_or(number, |bytes| i64::from_le_bytes(*bytes));
    let ask = |method: &str, path: &str, body: serde_json::Value| {
        TEST_SERVER.ask(method, path, JSON, JSON, Bytes::from(body.to_string())).check();
    };
    let pods = "/api/v1/namespaces/default/pods";
    for parameter in PARAMETERS.iter().take(1 + usize::from(number >= 0) * 4) {
        ask("DELETE", &format!("{pods}/x?dryRun=All&{parameter}={number}"), json!({}));
    }
    for parameter in ["timeoutSeconds", "limit"] {
        ask("GET", &format!("{pods}?{parameter}={number}"), json!(null));
    }
    ask("DELETE", &format!("{pods}/x?dryRun=All"), json!({"gracePeriodSeconds": number}));
    let pod = json!({
        "containers": [{
            "name": "c", "image": "i", "ports": [{"containerPort": number, "hostPort": other}],
            "livenessProbe": {"periodSeconds": number, "terminationGracePeriodSeconds": other, "exec": {"command": ["a"]}},
        }],
        "terminationGracePeriodSeconds": number,
        "activeDeadlineSeconds": other,
        "priority": number,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": other}],
        "securityContext": {"runAsUser": number, "fsGroup": other},
        "nodeName": "n",
    });
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
    let selector = json!({"matchLabels": {"a": "b"}});
    let metadata = json!({"name": "n", "generation": number, "deletionGracePeriodSeconds": other});
    for (collection, spec) in [
        (pods, pod.clone()),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"replicas": number, "progressDeadlineSeconds": other, "minReadySeconds": number, "revisionHistoryLimit": other,
                "strategy": {"rollingUpdate": {"maxSurge": number, "maxUnavailable": format!("{other}%")}},
                "selector": selector, "template": template}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"parallelism": number, "completions": other, "backoffLimit": number, "activeDeadlineSeconds": other,
                "ttlSecondsAfterFinished": number, "template": template}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"schedule": "* * * * *", "startingDeadlineSeconds": number, "successfulJobsHistoryLimit": other,
                "jobTemplate": {"spec": {"template": template}}}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}, "maxReplicas": number,
                "behavior": {"scaleUp": {"stabilizationWindowSeconds": other,
                    "policies": [{"type": "Pods", "value": number, "periodSeconds": other}]}}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"leaseDurationSeconds": number, "leaseTransitions": other}),
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"ports": [{"port": number, "nodePort": other}], "type": "NodePort",
                "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": number}}}),
        ),
    ] {
        ask("POST", &format!("{collection}?dryRun=All"), json!({"metadata": metadata, "spec": spec}));
    }
    let token = json!({"spec": {"expirationSeconds": number}});
    ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token);
});
