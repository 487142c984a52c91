//! Request metrics of both servers, with the same labels.

use conformance::{Target, eventually, on_each_target, unique};
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Creates a kind for this test only, so other tests do not affect its metrics.
async fn serve(target: &Target, group: &str) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("marbles.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Marble", "plural": "marbles"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    target.client.create::<CustomResourceDefinition>(&serde_json::from_value(definition).unwrap()).await.unwrap();
    eventually("the kind is served", || async {
        let resources = raw(target, "GET", &format!("/apis/{group}/v1"), None).await;
        resources.contains("marbles").then_some(())
    })
    .await;
}

/// Returns the body of any response.
async fn raw(target: &Target, method: &str, path: &str, body: Option<(&str, Value)>) -> String {
    let request = Request::builder().method(method).uri(path);
    let request = match body {
        Some((content, body)) => request.header("Content-Type", content).body(body.to_string().into()),
        None => request.body(bytes::Bytes::new()),
    };
    match target.client.request(request.unwrap()).await {
        Ok(response) => String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn requests_are_counted_by_verb_resource_and_code() {
    on_each_target(|target| async {
        let group = format!("{}.example.com", unique("counted"));
        serve(&target, &group).await;
        let all = format!("/apis/{group}/v1/namespaces/default/marbles");
        let one = format!("{all}/red");
        let marble = || {
            json!({"apiVersion": format!("{group}/v1"), "kind": "Marble", "metadata": {"name": "red"}, "colour": "red"})
        };
        let json = "application/json";
        raw(&target, "POST", &format!("{all}?dryRun=All"), Some((json, marble()))).await;
        for _ in 0..2 {
            raw(&target, "POST", &all, Some((json, marble()))).await;
        }
        raw(&target, "GET", &one, None).await;
        raw(&target, "GET", &format!("{all}/blue"), None).await;
        raw(&target, "GET", &all, None).await;
        raw(&target, "PATCH", &one, Some(("application/merge-patch+json", json!({"colour": "pink"})))).await;
        let apply = Some(("application/apply-patch+yaml", marble()));
        raw(&target, "PATCH", &format!("{one}?fieldManager=test&force=true"), apply).await;
        raw(&target, "DELETE", &one, None).await;
        raw(&target, "DELETE", &all, None).await;

        let text = raw(&target, "GET", "/metrics", None).await;
        let own = format!("group=\"{group}\",resource=\"marbles\"");
        // Informers of a control plane also send requests for the kind.
        let ours = |line: &&str| line.contains(&own) && !line.contains("scope=\"cluster\"");
        let counted: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("apiserver_request_total{"))
            .filter(ours)
            .map(|line| line.replace(&own, "…").replace("apiserver_request_total", ""))
            .collect();
        let line = |code: u16, dry_run: &str, scope: &str, verb: &str, count: u32| {
            format!(
                "{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry_run}\",…,scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}} {count}"
            )
        };
        let mut expected = vec![
            line(200, "", "namespace", "DELETE", 1),
            line(200, "", "namespace", "LIST", 1),
            line(200, "", "resource", "APPLY", 1),
            line(200, "", "resource", "DELETE", 1),
            line(200, "", "resource", "GET", 1),
            line(200, "", "resource", "PATCH", 1),
            line(201, "", "resource", "POST", 1),
            line(201, "All", "resource", "POST", 1),
            line(404, "", "resource", "GET", 1),
            line(409, "", "resource", "POST", 1),
        ];
        let mut counted = counted;
        counted.sort();
        expected.sort();
        assert_eq!(counted, expected);
        let took = format!("apiserver_request_duration_seconds_count{{component=\"apiserver\",dry_run=\"\",{own},scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"}} 2");
        assert!(text.lines().any(|line| line == took), "{took}");
        target
    })
    .await;
}
