//! Faults of writes.

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, timeout};

use crate::{
    cluster::{
        Command,
        fixture::{CONFIG_MAPS, Fixture, Sender, config_map},
    },
    record::{Actor, ChangeVerb},
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

/// A time in which the gateway would have answered.
const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn wrong_token_is_unauthorized() {
    let fixture = Fixture::start("none").await;
    let kubeconfig = fixture.cluster.access(1).kubeconfig;
    let stranger = Sender::new(&kubeconfig.replace("-1", "-2"));
    let (status, body) = stranger.get(CONFIG_MAPS).await;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401,
    });
    assert_eq!((status, body), (401, expected));
    assert_eq!(Sender::new(&kubeconfig).get(CONFIG_MAPS).await.0, 200);
    let administrator = Sender::new(&fixture.cluster.admin_kubeconfig());
    assert_eq!(administrator.get(CONFIG_MAPS).await.0, 200);
    assert_eq!(fixture.finish().await.requests.len(), 1);
}

#[tokio::test]
async fn large_body_is_refused() {
    let fixture = Fixture::start("none").await;
    let mut large = config_map("a");
    large["data"]["color"] = "x".repeat(3 << 20).into();
    let (status, body) = fixture.process(1).send(Method::POST, CONFIG_MAPS, large).await.unwrap();
    assert_eq!((status, body["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
}

#[tokio::test]
async fn crash_stores_the_write_and_answers_nothing() {
    let mut fixture = Fixture::start("crash@0:create:configmaps/default/a").await;
    let program = fixture.process(1);
    program.create("before").await;
    let writer = program.clone();
    let write = tokio::spawn(async move { writer.send(Method::POST, CONFIG_MAPS, config_map("a")).await });
    assert!(matches!(fixture.command().await, Command::Crash { process: 1 }));
    assert_eq!(fixture.administrator().get(A).await.0, 200);
    assert!(fixture.cluster.activity().is_striking);
    assert!(timeout(MOMENT, program.get(A)).await.is_err(), "another request was answered");
    assert!(!write.is_finished(), "the write was answered");
    assert_eq!(fixture.cluster.activity().in_flight, 0, "requests of an ended process count");
    let next = fixture.process(2);
    let activity = fixture.cluster.activity();
    assert!(!activity.is_striking && activity.is_starting, "the next process has not begun");
    assert_eq!(next.get(A).await.0, 200);
    assert!(!fixture.cluster.activity().is_striking);
    // It strikes once.
    next.delete("a").await;
    next.create("a").await;
    let observed = fixture.finish().await;
    let [injection] = &observed.injections[..] else { panic!("{:?}", observed.injections) };
    assert_eq!(injection.description, "killed process 1 after the create of configmaps default/a in step 0");
    let crashed = observed.requests.iter().find(|request| request.method == "POST" && request.answered.is_none());
    assert_eq!(crashed.unwrap().status, Some(201));
}

#[tokio::test]
async fn lost_response_closes_the_connection() {
    let mut fixture = Fixture::start("lost-response@0:create:configmaps/default/a").await;
    let program = fixture.process(1);
    assert!(program.send(Method::POST, CONFIG_MAPS, config_map("a")).await.is_err());
    assert_eq!(program.get(A).await.0, 200);
    assert!(timeout(MOMENT, fixture.command()).await.is_err());
    let observed = fixture.finish().await;
    assert_eq!(observed.of_config_maps().next().unwrap().actor, Actor::Program(1));
    assert_eq!(observed.injections.len(), 1);
}

#[tokio::test]
async fn stalled_response_waits_for_the_release() {
    let fixture = Fixture::start("stalled@0:create:configmaps/default/a").await;
    let program = fixture.process(1);
    let write = tokio::spawn(async move { program.send(Method::POST, CONFIG_MAPS, config_map("a")).await });
    fixture.until(|cluster| cluster.activity().is_holding).await;
    assert_eq!(fixture.administrator().get(A).await.0, 200);
    fixture.until(|cluster| cluster.activity().in_flight == 0).await;
    assert!(!write.is_finished());
    fixture.cluster.release();
    assert_eq!(write.await.unwrap().unwrap().0, 201);
    assert!(!fixture.cluster.activity().is_holding);
}

/// Two faults in one plan strike one after the other.
#[tokio::test]
async fn refused_writes_have_the_responses_of_kube_apiserver() {
    let plan = "refused(409)@0:update:configmaps/default/a:data.color & refused(429)@0:create:configmaps/default/b";
    let fixture = Fixture::start(plan).await;
    let program = fixture.process(1);
    program.create("a").await;
    let blue = json!({"data": {"color": "blue"}});
    let (status, body) = program.send(Method::PATCH, A, blue.clone()).await.unwrap();
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
                   changes to the latest version and try again";
    assert_eq!((status, body["message"].as_str(), body["reason"].as_str()), (409, Some(message), Some("Conflict")));
    assert_eq!(body["details"], json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(program.get(A).await.1["data"]["color"], "red");
    let (status, body) = program.send(Method::POST, CONFIG_MAPS, config_map("b")).await.unwrap();
    assert_eq!((status, body["reason"].as_str()), (429, Some("TooManyRequests")));
    assert_eq!(body["details"], json!({"retryAfterSeconds": 1}));
    program.create("b").await;
    program.succeed(Method::PATCH, A, blue).await;
    let observed = fixture.finish().await;
    let refused = observed.requests.iter().find(|request| request.method == "PATCH").unwrap();
    assert_eq!((refused.status, refused.revision, refused.answered.is_some()), (None, None, true));
    assert_eq!(observed.injections.len(), 2);
}

#[tokio::test]
async fn refused_deletions_and_creations_are_not_stored() {
    let plan = "refused(500)@0:delete:configmaps/default/a & refused(504)@0:create:configmaps/default/b-*";
    let fixture = Fixture::start(plan).await;
    let program = fixture.process(1);
    program.create("a").await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let (status, body) = program.send(Method::DELETE, A, options).await.unwrap();
    assert_eq!((status, body["reason"].as_str()), (500, Some("InternalError")));
    assert_eq!(program.get(A).await.0, 200);
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "b-"}});
    let (status, body) = program.send(Method::POST, CONFIG_MAPS, generated).await.unwrap();
    assert_eq!((status, body["reason"].as_str()), (504, Some("Timeout")));
    let observed = fixture.finish().await;
    assert_eq!(observed.of_config_maps().count(), 1);
}

/// A second write with the same content is another point.
#[tokio::test]
async fn fault_strikes_at_its_occurrence() {
    let fixture = Fixture::start("refused(500)@0:update:configmaps/default/a:data.color#2").await;
    let program = fixture.process(1);
    program.create("a").await;
    program.set("a", "green").await;
    // A write without an effect is no point, and neither is a dry run.
    program.set("a", "green").await;
    program.succeed(Method::PATCH, &format!("{A}?dryRun=All"), json!({"data": {"color": "blue"}})).await;
    let (status, _) = program.send(Method::PATCH, A, json!({"data": {"color": "blue"}})).await.unwrap();
    assert_eq!(status, 500);
    program.set("a", "blue").await;
    assert_eq!(fixture.finish().await.of_config_maps().count(), 3);
}

#[tokio::test]
async fn delayed_write_is_stored_later() {
    let fixture = Fixture::start("delayed@0:create:configmaps/default/a").await;
    let program = fixture.process(1);
    let begun = Instant::now();
    let write = tokio::spawn(async move { program.create("a").await });
    fixture.until(|cluster| cluster.activity().is_striking).await;
    assert_eq!(fixture.administrator().get(A).await.0, 404);
    write.await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(!fixture.cluster.activity().is_striking);
    assert_eq!(fixture.administrator().get(A).await.0, 200);
}

#[tokio::test]
async fn conflict_fails_an_update_with_a_version() {
    let fixture = Fixture::start("conflict@0:update:configmaps/default/a:data.color").await;
    let program = fixture.process(1);
    let mut object = program.create("a").await;
    object["data"]["color"] = "blue".into();
    let (status, body) = program.send(Method::PUT, A, object).await.unwrap();
    assert_eq!((status, body["reason"].as_str()), (409, Some("Conflict")));
    let (_, mut now) = program.get(A).await;
    assert_eq!((&now["metadata"]["annotations"], now["data"]["color"].as_str()), (&Value::Null, Some("red")));
    now["data"]["color"] = "blue".into();
    program.succeed(Method::PUT, A, now).await;
    let observed = fixture.finish().await;
    let actors: Vec<_> = observed.of_config_maps().map(|change| change.actor.clone()).collect();
    assert_eq!(actors, [Actor::Program(1), Actor::Other, Actor::Other, Actor::Program(1)]);
}

#[tokio::test]
async fn deposed_write_waits_for_the_next_leader() {
    let mut fixture = Fixture::start("deposed@0:delete:configmaps/default/a").await;
    let program = fixture.process(1);
    program.create("a").await;
    let write = tokio::spawn(async move { program.delete("a").await });
    let Command::Depose { process: 1, resume } = fixture.command().await else { panic!("another command") };
    let next = fixture.process(2);
    assert_eq!(next.get(A).await.0, 200);
    assert!(fixture.cluster.activity().is_striking && !write.is_finished());
    resume.send(()).unwrap();
    write.await.unwrap();
    assert_eq!(next.get(A).await.0, 404);
    let observed = fixture.finish().await;
    let last = observed.of_config_maps().last().unwrap();
    assert_eq!((last.verb, last.actor.clone()), (ChangeVerb::Delete, Actor::Program(1)));
}
