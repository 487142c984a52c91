//! Faults of watches, and rewound views.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time;

use crate::{
    cluster::{
        Command,
        fixture::{CONFIG_MAPS, Fixture, PATIENCE, config_map},
    },
    record::{Actor, ChangeVerb},
};

/// Selects the ConfigMaps of the tests.
const OURS: &str = "fieldSelector=metadata.name!=kube-root-ca.crt";

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn version(list: &Value) -> String {
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn lag_holds_events_until_the_release() {
    let fixture = Fixture::start("lag@0:create:configmaps/default/b").await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    let (_, list) = program.get(&format!("{CONFIG_MAPS}?{OURS}")).await;
    let mut watch = program.watch(&format!("{OURS}&resourceVersion={}", version(&list))).await;
    other.create("a").await;
    assert_eq!(watch.name().await, "ADDED a");
    other.create("b").await;
    other.set("a", "blue").await;
    assert!(watch.is_quiet().await);
    assert!(fixture.cluster.activity().is_holding);
    assert_eq!(fixture.cluster.activity().undelivered, 0, "held events count");
    // A consistent list is current, and a watch that begins now is held, too.
    let (_, now) = program.get(&format!("{CONFIG_MAPS}?{OURS}")).await;
    assert_eq!(names(&now), ["a", "b"]);
    let mut second = program.watch(&format!("{OURS}&resourceVersion={}", version(&list))).await;
    assert_eq!(second.name().await, "ADDED a");
    assert!(second.is_quiet().await);
    let before = fixture.cluster.activity().last_change;
    fixture.cluster.release();
    assert!(fixture.cluster.activity().last_change > before, "the time without changes begins again");
    for watch in [&mut watch, &mut second] {
        assert_eq!(watch.name().await, "ADDED b");
        assert_eq!(watch.name().await, "MODIFIED a");
    }
    assert!(!fixture.cluster.activity().is_holding);
    fixture.until(|cluster| cluster.activity().undelivered == 0).await;
    assert_eq!(fixture.finish().await.injections.len(), 2);
}

#[tokio::test]
async fn websocket_handshake_of_a_watch_gets_a_complete_response() {
    let fixture = Fixture::start("none").await;
    let program = fixture.process(1);
    let handshake = Request::get(format!("{CONFIG_MAPS}?watch=true&{OURS}"))
        .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
        .body(Bytes::new());
    let response = program.0.request(handshake.unwrap());
    let response = time::timeout(PATIENCE, response).await.expect("a response").unwrap();
    assert_eq!(response.status(), 200);
    let body = time::timeout(PATIENCE, response.into_body().collect()).await.expect("the end of the response");
    assert!(body.unwrap().to_bytes().is_empty());
    // The client watches without a WebSocket then.
    let mut watch = program.watch(OURS).await;
    fixture.administrator().create("a").await;
    assert_eq!(watch.name().await, "ADDED a");
    fixture.finish().await;
}

/// More than the buffers of a connection take.
#[tokio::test]
async fn event_that_the_program_does_not_read_is_undelivered() {
    let fixture = Fixture::start("none").await;
    let program = fixture.process(1);
    let mut watch = program.watch(OURS).await;
    let mut large = config_map("large");
    let mut events = 0;
    while fixture.cluster.activity().undelivered == 0 {
        large["data"]["color"] = format!("{events}{}", "x".repeat(900_000)).into();
        let target = format!("{CONFIG_MAPS}/large?fieldManager=test");
        fixture.administrator().succeed(Method::PATCH, &target, large.clone()).await;
        events += 1;
        assert!(events < 50);
    }
    for _ in 0..events {
        watch.next().await.unwrap();
    }
    fixture.until(|cluster| cluster.activity().undelivered == 0).await;
}

#[tokio::test]
async fn gap_ends_watches_with_code_410() {
    let plan = "gap(until 0:delete:configmaps/default/a)@0:create:configmaps/default/a";
    let fixture = Fixture::start(plan).await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    let (_, list) = program.get(&format!("{CONFIG_MAPS}?{OURS}")).await;
    let from = format!("{OURS}&resourceVersion={}", version(&list));
    let mut watch = program.watch(&from).await;
    other.create("a").await;
    other.create("b").await;
    assert!(watch.is_quiet().await);
    other.delete("a").await;
    // Also a watch that begins later at the same version.
    for watch in [&mut watch, &mut program.watch(&from).await] {
        let (kind, status) = watch.next().await.unwrap();
        assert_eq!((kind.as_str(), &status["code"], &status["reason"]), ("ERROR", &410.into(), &"Expired".into()));
        assert!(watch.next().await.is_none());
    }
    let (_, list) = program.get(&format!("{CONFIG_MAPS}?{OURS}")).await;
    assert_eq!(names(&list), ["b"]);
    let mut watch = program.watch(&format!("{OURS}&resourceVersion={}", version(&list))).await;
    other.create("c").await;
    assert_eq!(watch.name().await, "ADDED c");
    assert!(!fixture.cluster.activity().is_holding);
}

#[tokio::test]
async fn gap_without_its_end_is_released() {
    let plan = "gap(until 0:delete:configmaps/default/x)@0:create:configmaps/default/a";
    let fixture = Fixture::start(plan).await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    let (_, list) = program.get(CONFIG_MAPS).await;
    let mut watch = program.watch(&format!("resourceVersion={}", version(&list))).await;
    other.create("a").await;
    assert!(watch.is_quiet().await);
    fixture.cluster.release();
    assert_eq!(watch.next().await.unwrap().0, "ERROR");
}

#[tokio::test]
async fn gap_continues_until_the_step_of_its_end() {
    let plan = "gap(until 1:update:configmaps/default/a:data.color)@0:create:configmaps/default/a";
    let fixture = Fixture::start(plan).await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    let (_, list) = program.get(CONFIG_MAPS).await;
    let mut watch = program.watch(&format!("resourceVersion={}", version(&list))).await;
    other.create("a").await;
    assert!(watch.is_quiet().await);
    let activity = fixture.cluster.activity();
    assert!(activity.is_holding && activity.is_gap_beyond_step);
    fixture.cluster.begin_step(1);
    let activity = fixture.cluster.activity();
    assert!(activity.is_holding && !activity.is_gap_beyond_step);
    other.set("a", "blue").await;
    assert_eq!(watch.next().await.unwrap().0, "ERROR");
    assert!(!fixture.cluster.activity().is_holding);
}

/// Old clients renew them every few seconds.
#[tokio::test]
async fn records_of_leader_elections_are_no_changes() {
    let fixture = Fixture::start("none").await;
    let program = fixture.process(1);
    let mut record = config_map("leader");
    record["metadata"]["annotations"] = serde_json::json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    program.succeed(Method::POST, CONFIG_MAPS, record).await;
    program.set("leader", "blue").await;
    program.create("a").await;
    let observed = fixture.finish().await;
    let changed: Vec<_> = observed.of_config_maps().map(|change| change.object.name.as_str()).collect();
    assert_eq!(changed, ["a"]);
    assert!(observed.end.keys().all(|object| object.name != "leader"));
}

#[tokio::test]
async fn rewind_shows_the_next_process_an_earlier_state() {
    let plan = "rewind(configmaps,before 0:create:configmaps/default/b)@0:delete:configmaps/default/b";
    let mut fixture = Fixture::start(plan).await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    for name in ["a", "b"] {
        program.create(name).await;
    }
    let mut old = program.watch(OURS).await;
    assert_eq!(old.name().await, "ADDED a");
    assert_eq!(old.name().await, "ADDED b");
    let ended = program.clone();
    let deletion = tokio::spawn(async move { ended.delete("b").await });
    assert!(matches!(fixture.command().await, Command::Rewind { process: 1 }));
    assert!(old.is_quiet().await, "the ended process gets events");
    assert!(!deletion.is_finished(), "the ended process gets a response");
    fixture.cluster.rewind();
    let program = fixture.process(2);
    other.create("c").await;

    // Reads with version 0 are stale.
    let (_, stale) = program.get(&format!("{CONFIG_MAPS}?{OURS}&resourceVersion=0&limit=1")).await;
    assert_eq!(names(&stale), ["a"]);
    let (status, a) = program.get(&format!("{CONFIG_MAPS}/a?resourceVersion=0")).await;
    assert_eq!((status, &a["kind"], &a["metadata"]["name"]), (200, &"ConfigMap".into(), &"a".into()));
    assert_eq!(program.get(&format!("{CONFIG_MAPS}/c?resourceVersion=0")).await.0, 404);
    // A version that the view includes permits it, too.
    let not_older = format!("{CONFIG_MAPS}?{OURS}&resourceVersion=1&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&program.get(&not_older).await.1), ["a"]);
    // Other reads are consistent.
    assert_eq!(names(&program.get(&format!("{CONFIG_MAPS}?{OURS}")).await.1), ["a", "c"]);
    assert_eq!(program.get(&format!("{CONFIG_MAPS}/c")).await.0, 200);
    // Other resources are current.
    let (_, accounts) = program.get("/api/v1/namespaces/default/serviceaccounts?resourceVersion=0").await;
    assert_eq!(names(&accounts), ["default"]);

    // Watches have the later events after the release.
    let mut from_list = program.watch(&format!("{OURS}&resourceVersion={}", version(&stale))).await;
    let watch_list =
        "resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch_list = program.watch(&format!("{OURS}&{watch_list}")).await;
    assert_eq!(watch_list.name().await, "ADDED a");
    let (kind, bookmark) = watch_list.next().await.unwrap();
    assert_eq!((kind.as_str(), version(&bookmark)), ("BOOKMARK", version(&stale)));
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let consistent = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut consistent = program.watch(&format!("{OURS}&{consistent}")).await;
    assert_eq!((consistent.name().await, consistent.name().await), ("ADDED a".to_owned(), "ADDED c".to_owned()));
    assert!(from_list.is_quiet().await && watch_list.is_quiet().await);
    assert!(fixture.cluster.activity().is_holding);
    fixture.cluster.release();
    for watch in [&mut from_list, &mut watch_list] {
        for expected in ["ADDED b", "DELETED b", "ADDED c"] {
            assert_eq!(watch.name().await, expected);
        }
    }
    let (_, current) = program.get(&format!("{CONFIG_MAPS}?{OURS}&resourceVersion=0")).await;
    assert_eq!(names(&current), ["a", "c"]);
    assert!(!fixture.cluster.activity().is_holding);
    // The write of the ended process was stored, and is its own.
    let observed = fixture.finish().await;
    let deleted = observed.of_config_maps().find(|change| change.verb == ChangeVerb::Delete).unwrap();
    assert_eq!(deleted.actor, Actor::Program(1));
}

#[tokio::test]
async fn metadata_is_rewound_as_metadata() {
    let plan = "rewind(all,after 0:create:configmaps/default/a)@0:update:configmaps/default/a:data.color";
    let mut fixture = Fixture::start(plan).await;
    let other = fixture.administrator();
    let _first = fixture.process(1);
    let created = other.create("a").await;
    other.set("a", "blue").await;
    assert!(matches!(fixture.command().await, Command::Rewind { process: 1 }));
    fixture.cluster.rewind();
    let program = fixture.process(2);
    let request = http::Request::get(format!("{CONFIG_MAPS}/a?resourceVersion=0"))
        .header("accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .body(bytes::Bytes::new());
    let object: Value = program.0.request_json(request.unwrap()).await.unwrap();
    assert_eq!((&object["kind"], &object["data"]), (&"PartialObjectMetadata".into(), &Value::Null));
    assert_eq!(object["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}
