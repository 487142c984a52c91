use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use windlass_api::{ObjectExt as _, Status, reason};

use super::*;
use crate::{
    WebhookPath, Webhooks,
    testing::{Recorded, V1, ask, post, review, send},
};

const MUTATE: &str = "/mutate--v1-configmap";
const VALIDATE: &str = "/validate--v1-configmap";

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}, "data": data})
}

/// Returns the patch operations of a response.
fn patch(response: &Value) -> Vec<Value> {
    assert_eq!(response["patchType"], "JSONPatch");
    let decoded = BASE64_STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
    serde_json::from_slice(&decoded).unwrap()
}

fn mutating(mutate: impl Fn(&mut ConfigMap, &Request) -> Result<(), Denial> + Send + Sync + 'static) -> Webhooks {
    Webhooks::builder().mutator(mutate).build().unwrap()
}

fn handling(handler: impl Handler) -> Webhooks {
    Webhooks::builder().handler(WebhookPath::custom("/h").unwrap(), handler).build().unwrap()
}

/// Denies objects named `bad`, and returns a warning for every object.
struct Judge;

impl Validator<ConfigMap> for Judge {
    async fn create(&self, object: &ConfigMap, request: &Request) -> Result<Warnings, Denial> {
        let warnings = Warnings::from([format!("made by {}", request.user()).as_str()]);
        match object.data.as_ref().and_then(|data| data.get("bad")) {
            Some(why) if why == "status" => Err(Status::bad_request("no sense").into()),
            Some(why) => Err(Denial::from(why.as_str()).with_warnings(warnings)),
            None => Ok(warnings),
        }
    }

    async fn update(&self, old: &ConfigMap, new: &ConfigMap, _: &Request) -> Result<Warnings, Denial> {
        if old.immutable == Some(true) && old.data != new.data {
            return Err("it is immutable".into());
        }
        Ok(Warnings::none())
    }

    async fn delete(&self, object: &ConfigMap, _: &Request) -> Result<Warnings, Denial> {
        Err(format!("{} stays", object.name()).into())
    }
}

// === C-14.2: reviews over HTTP ===

#[tokio::test]
async fn unreadable_request_is_answered_with_its_code() {
    let webhooks = mutating(|_, _| Ok(()));
    let said = async |request: http::request::Builder, body: String| {
        let (code, answer) = send(&webhooks, request, body).await;
        let status = &answer["response"]["status"];
        assert_eq!(answer["response"]["allowed"], json!(false));
        (code, status["code"].as_u64().unwrap(), status["message"].as_str().unwrap().to_owned())
    };
    let json = || http::Request::post(MUTATE).header("content-type", "application/json");
    let text = |text: &str| text.to_owned();

    assert_eq!(said(json(), String::new()).await, (200, 400, text("request body is empty")));
    let large = said(json(), "x".repeat((7 << 20) + 1)).await;
    assert_eq!(large, (200, 413, text("request entity is too large; limit is 7340032 bytes")));
    let yaml = http::Request::post(MUTATE).header("content-type", "application/yaml");
    assert_eq!(
        said(yaml, text("{}")).await,
        (200, 400, text("contentType=application/yaml, expected application/json"))
    );
    let (_, code, _) = said(json(), text("{\"a\":")).await;
    assert_eq!(code, 400);
    let other = text(r#"{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview"}"#);
    let (_, code, message) = said(json(), other).await;
    assert_eq!(
        (code, &*message),
        (400, r#"no kind "AdmissionReview" is registered for version "admission.k8s.io/v2""#)
    );
    assert_eq!(said(json(), text("{}")).await, (200, 400, text("the review has no request")));
}

#[tokio::test]
async fn unknown_path_is_404_and_other_method_405() {
    let webhooks = mutating(|_, _| Ok(()));
    assert_eq!(send(&webhooks, http::Request::get(MUTATE), "").await, (405, Value::Null));
    assert_eq!(post(&webhooks, "/mutate", &json!({})).await.0, 404);
}

#[tokio::test]
async fn review_is_answered_in_its_version_with_its_uid() {
    let webhooks = mutating(|_, _| Ok(()));
    let mut asked = review("CREATE", &config_map(&json!({})), &Value::Null);
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        asked["apiVersion"] = version.into();
        let (code, answer) = post(&webhooks, MUTATE, &asked).await;
        assert_eq!((code, &answer["apiVersion"], &answer["kind"]), (200, &json!(version), &json!("AdmissionReview")));
        let expected = json!({"uid": "u-1", "allowed": true, "status": {"metadata": {}, "code": 200}});
        assert_eq!(answer["response"], expected);
    }
    asked.as_object_mut().unwrap().retain(|field, _| field == "request");
    let (_, answer) = post(&webhooks, MUTATE, &asked).await;
    assert_eq!(
        answer["apiVersion"], "admission.k8s.io/v1",
        "a request without a version is answered in the first version"
    );
}

#[tokio::test]
async fn panic_is_answered_with_500_and_counted() {
    let metrics = Recorded::default();
    let webhooks = Webhooks::builder()
        .mutator(|_: &mut ConfigMap, _: &Request| panic!("out of {}", "ideas"))
        .metrics(metrics.clone())
        .build()
        .unwrap();
    let response = ask(&webhooks, MUTATE, &review("CREATE", &config_map(&json!({})), &Value::Null)).await;
    let status =
        json!({"metadata": {}, "status": "Failure", "code": 500, "message": "panic: out of ideas [recovered]"});
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
    assert_eq!(response["status"], status);
    let expected = [
        "registered /mutate--v1-configmap",
        "started /mutate--v1-configmap",
        "panicked",
        "finished /mutate--v1-configmap 200",
    ];
    assert_eq!(metrics.take(), expected);
}

#[tokio::test]
async fn a_call_that_its_caller_gives_up_is_counted_as_such() {
    struct Slow;
    impl Handler for Slow {
        async fn handle(&self, _: &Request) -> Response {
            std::future::pending().await
        }
    }
    let metrics = Recorded::default();
    let path = WebhookPath::custom("/h").unwrap();
    let webhooks = Webhooks::builder().handler(path, Slow).metrics(metrics.clone()).build().unwrap();
    let asked = review("CREATE", &Value::Null, &Value::Null);
    let mut call = Box::pin(post(&webhooks, "/h", &asked));
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    assert_eq!(metrics.take(), ["registered /h", "started /h", "finished /h hung up"]);
}

#[tokio::test]
async fn a_handler_sees_the_request_and_the_http_that_it_came_by() {
    let webhooks = handling(|request: &Request| {
        let tenant = request.http().headers["x-tenant"].to_str().unwrap();
        Response::denied(format!(
            "{} {} {}/{} {} for {tenant}",
            request.user(),
            request.operation,
            request.namespace,
            request.name,
            request.resource.resource
        ))
    });
    let call = http::Request::post("/h").header("content-type", "application/json").header("x-tenant", "acme");
    let asked = review("CONNECT", &Value::Null, &Value::Null);
    let (_, answer) = send(&webhooks, call, asked.to_string()).await;
    assert_eq!(answer["response"]["status"]["message"], "jane CONNECT shop/web configmaps for acme");
}

// === C-14.3: mutators and validators ===

#[tokio::test]
async fn mutator_patch_contains_only_its_changes() {
    let webhooks = mutating(|object, _| {
        object.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
        Ok(())
    });
    let mut object = config_map(&json!({"size": "5"}));
    object["fromTheFuture"] = json!({"kept": [1, 2]});
    object["metadata"]["alsoNew"] = json!(true);
    let response = ask(&webhooks, MUTATE, &review("CREATE", &object, &Value::Null)).await;
    assert_eq!(patch(&response), [json!({"op": "add", "path": "/data/color", "value": "blue"})]);

    object["data"]["color"] = "blue".into();
    let response = ask(&webhooks, MUTATE, &review("UPDATE", &object, &object)).await;
    assert_eq!((response.get("patch"), response.get("patchType")), (None, None), "nothing has changed");
}

#[tokio::test]
async fn mutator_removes_unknown_fields_on_request() {
    let handler = Mutating::<V1, _>::new(|object: &mut V1, _: &Request| {
        object.image = "web:2".to_owned();
        Ok(())
    });
    let webhooks = handling(handler.remove_unknown_fields());
    let object =
        json!({"apiVersion": "shop.example.com/v1", "kind": "Website", "metadata": {}, "image": "web:1", "x": 1});
    let response = ask(&webhooks, "/h", &review("CREATE", &object, &Value::Null)).await;
    let expected =
        [json!({"op": "replace", "path": "/image", "value": "web:2"}), json!({"op": "remove", "path": "/x"})];
    assert_eq!(patch(&response), expected);
}

#[tokio::test]
async fn deleted_object_is_not_mutated() {
    let webhooks = mutating(|_, _| Err("never asked".into()));
    let object = config_map(&json!({}));
    for operation in ["DELETE", "CONNECT"] {
        let response = ask(&webhooks, MUTATE, &review(operation, &Value::Null, &object)).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true, "status": {"metadata": {}, "code": 200}}));
    }
}

#[tokio::test]
async fn error_denies_and_status_is_passed_on() {
    #[derive(Debug, thiserror::Error)]
    #[error("asking the registry")]
    struct Asking(#[source] Box<Status>);

    let invalid = || Status::failure(422, reason::INVALID, "there is no such image");
    let webhooks = mutating(move |object, _| match object.data.as_ref().and_then(|data| data.get("fails")) {
        Some(how) if how == "caused" => Err(Asking(Box::new(invalid())).into()),
        Some(how) => Err(how.as_str().into()),
        None => Ok(()),
    });
    let status = async |how: &str| {
        let object = config_map(&json!({"fails": how}));
        let mut response = ask(&webhooks, MUTATE, &review("CREATE", &object, &Value::Null)).await;
        assert_eq!(response["allowed"], json!(false));
        response["status"].take()
    };
    let expected =
        json!({"metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": "at night"});
    assert_eq!(status("at night").await, expected);
    let caused = status("caused").await;
    assert_eq!((&caused["code"], &caused["message"]), (&json!(422), &json!("there is no such image")));
}

#[tokio::test]
async fn validator_handles_create_update_and_delete() {
    let webhooks = Webhooks::builder().validator(Judge).build().unwrap();
    let judged = async |operation: &str, object: &Value, old: &Value| {
        let response = ask(&webhooks, VALIDATE, &review(operation, object, old)).await;
        let status = &response["status"];
        let message = status["message"].as_str().unwrap_or_default().to_owned();
        (response["allowed"] == json!(true), status["code"].as_u64().unwrap(), message, response["warnings"].clone())
    };
    let (good, null) = (config_map(&json!({})), Value::Null);
    let warned = json!(["made by jane"]);
    assert_eq!(judged("CREATE", &good, &null).await, (true, 200, String::new(), warned.clone()));
    let bad = config_map(&json!({"bad": "too large"}));
    assert_eq!(judged("CREATE", &bad, &null).await, (false, 403, "too large".to_owned(), warned));
    let status = config_map(&json!({"bad": "status"}));
    assert_eq!(judged("CREATE", &status, &null).await, (false, 400, "no sense".to_owned(), null.clone()));

    let mut fixed = good.clone();
    fixed["immutable"] = true.into();
    assert_eq!(judged("UPDATE", &bad, &fixed).await, (false, 403, "it is immutable".to_owned(), null.clone()));
    assert!(judged("UPDATE", &bad, &good).await.0);
    assert_eq!(judged("DELETE", &null, &good).await, (false, 403, "web stays".to_owned(), null.clone()));
    assert!(judged("CONNECT", &null, &null).await.0);
    let (allowed, code, message, _) = judged("PAINT", &good, &null).await;
    assert_eq!((allowed, code, &*message), (false, 400, r#"unknown operation "PAINT""#));
}

#[tokio::test]
async fn object_of_another_kind_is_a_bad_request() {
    let webhooks = Webhooks::builder().validator::<Pod, _>(Anything).build().unwrap();
    struct Anything;
    impl Validator<Pod> for Anything {}
    let message = async |object: &Value| {
        let response = ask(&webhooks, "/validate--v1-pod", &review("CREATE", object, &Value::Null)).await;
        assert_eq!(response["status"]["code"], 400);
        response["status"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message(&config_map(&json!({}))).await, "unable to decode v1, Kind=ConfigMap into v1, Kind=Pod");
    assert_eq!(message(&Value::Null).await, "there is no content to decode");
    let wrong = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 7}});
    assert_eq!(message(&wrong).await, "spec.containers: invalid type: integer `7`, expected a sequence");
    let deep = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}, {"name": 1}]}});
    assert!(message(&deep).await.starts_with("spec.containers[1].name: invalid type"), "{}", message(&deep).await);
}

// === C-14.4, C-14.5: chains and answers ===

#[tokio::test]
async fn chained_handler_sees_previous_changes() {
    let add = |key: &'static str| {
        Mutating::<ConfigMap, _>::new(move |object: &mut ConfigMap, _: &Request| {
            let data = object.data.get_or_insert_default();
            data.insert(key.to_owned(), data.len().to_string());
            Ok(())
        })
    };
    let warn = |_: &Request| Response::allowed().with_warnings(["mind the gap"]).with_audit_annotation("seen", "yes");
    let webhooks = handling(Chain::new().then(add("a")).then(warn).then(add("b")).then(warn));
    let response = ask(&webhooks, "/h", &review("CREATE", &config_map(&json!({})), &Value::Null)).await;
    let expected =
        [json!({"op": "add", "path": "/data/a", "value": "0"}), json!({"op": "add", "path": "/data/b", "value": "1"})];
    assert_eq!(patch(&response), expected);
    assert_eq!(response["warnings"], json!(["mind the gap", "mind the gap"]));
    assert_eq!(response["auditAnnotations"], json!({"seen": "yes"}));
}

#[tokio::test]
async fn first_denial_of_a_chain_is_the_response() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    let counted = move |_: &Request| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Response::allowed()
    };
    let chain = Chain::new().then(counted.clone()).then(|_: &Request| Response::denied("not today")).then(counted);
    let response = ask(&handling(chain), "/h", &review("CREATE", &Value::Null, &Value::Null)).await;
    assert_eq!((&response["allowed"], &response["status"]["message"]), (&json!(false), &json!("not today")));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
    let nobody = ask(&handling(Chain::new()), "/h", &review("CREATE", &Value::Null, &Value::Null)).await;
    assert_eq!(nobody["allowed"], json!(true));
}

#[test]
fn responses_have_the_expected_codes() {
    let status = |response: Response| response.to_wire("u", &json!({"a": 1}))["status"].clone();
    assert_eq!(status(Response::allowed()), json!({"metadata": {}, "code": 200}));
    let denied = json!({"metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
    assert_eq!(status(Response::denied("no")), denied);
    let errored = json!({"metadata": {}, "status": "Failure", "code": 504, "message": "late"});
    assert_eq!(status(Response::errored(504, "late")), errored);
    let said = json!({"metadata": {}, "code": 200, "message": "fine"});
    assert_eq!(status(Response::allowed().with_message("fine")), said);
    let patched = Response::patched(json!({"a": 2})).with_warnings(["w"]).to_wire("u", &json!({"a": 1}));
    assert_eq!(patch(&patched), [json!({"op": "replace", "path": "/a", "value": 2})]);
    assert_eq!(patched["warnings"], json!(["w"]));
}
