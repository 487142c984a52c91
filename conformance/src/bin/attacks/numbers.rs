//! Attacks with numbers at the limits of their types.

use serde_json::json;

use crate::{
    catalog::{AttackResult, Error},
    server::Server,
    wire::PendingRequest,
};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn create_pod(server: &Server, name: &str, grace: i64) -> Result<u16, Error> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": grace, "automountServiceAccountToken": false, "nodeName": "nowhere",
            "containers": [{"name": "a", "image": "a"}],
        },
    });
    Ok(PendingRequest::new(server, "POST", PODS).json(&pod).send().await?.code)
}

pub(crate) async fn grace_period_of_pod(server: Server) -> Result<AttackResult, Error> {
    let created = create_pod(&server, "patient", i64::MAX).await?;
    let deleted = PendingRequest::new(&server, "DELETE", &format!("{PODS}/patient")).send().await?.code;
    let forced =
        PendingRequest::new(&server, "DELETE", &format!("{PODS}/patient?gracePeriodSeconds=0")).send().await?.code;
    let codes = format!("create {created}, delete {deleted}, force {forced}");
    Ok(AttackResult::when([created, deleted, forced].iter().all(|code| *code < 500), codes))
}

pub(crate) async fn grace_period_of_request(server: Server) -> Result<AttackResult, Error> {
    create_pod(&server, "eternal", 30).await?;
    let path = format!("{PODS}/eternal?gracePeriodSeconds=300000000000");
    let deleted = PendingRequest::new(&server, "DELETE", &path).send().await?;
    let forced =
        PendingRequest::new(&server, "DELETE", &format!("{PODS}/eternal?gracePeriodSeconds=0")).send().await?.code;
    Ok(AttackResult::when(deleted.code < 500 && forced < 500, format!("delete {}, force {forced}", deleted.brief())))
}

pub(crate) async fn watch_timeout(server: Server) -> Result<AttackResult, Error> {
    // The watch does not end, so only the first bytes are checked.
    let mut client = crate::wire::http2(&server, 1 << 20).await?;
    let path = format!("{PODS}?watch=true&timeoutSeconds={}", i64::MAX);
    let code = client.send_request(crate::wire::get(&server, &path, "application/json")?).await?.status().as_u16();
    Ok(AttackResult::when(code < 500, code.to_string()))
}

pub(crate) async fn queries(server: Server) -> Result<AttackResult, Error> {
    let numbers = ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "1e400", "-1", "0x7f"];
    let mut failures = Vec::new();
    for number in numbers {
        for query in [
            format!("limit={number}"),
            format!("resourceVersion={number}&resourceVersionMatch=NotOlderThan"),
            format!("timeoutSeconds={number}"),
            format!("limit={number}&continue={number}"),
            format!("timeout={number}s"),
        ] {
            let answer = PendingRequest::new(&server, "GET", &format!("{PODS}?{query}")).send().await?;
            // The real server also returns 504 for future versions.
            if answer.code >= 500 && answer.code != 504 {
                failures.push(format!("{query}: {}", answer.brief()));
            }
        }
    }
    Ok(AttackResult::when(
        failures.is_empty(),
        if failures.is_empty() { "no 5xx".to_owned() } else { failures.join("; ") },
    ))
}
