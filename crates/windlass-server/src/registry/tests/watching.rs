use super::*;

/// Returns the next item as text: `ADDED a`, `BOOKMARK 7`, `END`.
async fn next(session: &mut WatchSession) -> String {
    match session.next().await {
        None => "END".to_owned(),
        Some(WatchItem::Event(event)) => {
            let frame: Value = serde_json::from_slice(&event.frame()).unwrap();
            let object = &frame["object"];
            assert_eq!(object["metadata"]["resourceVersion"], event.item.revision.0.to_string());
            assert!(event.frame().ends_with(b"}\n"));
            format!("{} {}", frame["type"].as_str().unwrap(), object.text(&["metadata", "name"]))
        }
        Some(WatchItem::Bookmark { initial_end: true, .. }) => "INITIAL".to_owned(),
        Some(WatchItem::Bookmark { revision, .. }) => format!("BOOKMARK {revision}"),
        Some(WatchItem::Error(status)) => format!("ERROR {} {}", status.code, status.message),
    }
}

fn from(revision: Revision) -> WatchParams {
    WatchParams { resource_version: Some(revision.0.to_string()), ..WatchParams::default() }
}

#[tokio::test(start_paused = true)]
async fn watch_continues_at_the_revision_of_a_list() {
    let f = Fixture::new().await;
    let list = f.list("configmaps", ListParams::default()).await.unwrap();
    f.create("configmaps", config_map("a")).await.unwrap();
    let mut session = f.watch("configmaps", from(list.revision)).await;
    f.merge(&f.object("configmaps", "a"), json!({"data": {"k": "w"}})).await.unwrap();
    f.delete("configmaps", "a", DeleteParams::default()).await.unwrap();
    for expected in ["ADDED a", "MODIFIED a", "DELETED a"] {
        assert_eq!(next(&mut session).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_event_has_the_revision_of_the_deletion() {
    let f = Fixture::new().await;
    let created = f.create("configmaps", config_map("a")).await.unwrap();
    let mut session = f.watch("configmaps", from(Revision(version(&created)))).await;
    f.delete("configmaps", "a", DeleteParams::default()).await.unwrap();
    let Some(WatchItem::Event(event)) = session.next().await else { panic!("no event") };
    assert_eq!(event.kind, EventType::Deleted);
    assert_eq!(event.item.revision, f.storage.revision().await.unwrap());
    assert!(event.item.revision.0 > version(&created));
    assert_eq!(event.item.value()["data"]["k"], "v");
}

#[tokio::test(start_paused = true)]
async fn initial_events_precede_changes_if_requested() {
    let f = Fixture::new().await;
    for name in ["b", "a"] {
        f.create("configmaps", config_map(name)).await.unwrap();
    }
    let params = WatchParams {
        send_initial_events: Some(true),
        version_match: Some("NotOlderThan".to_owned()),
        bookmarks: true,
        ..WatchParams::default()
    };
    let mut session = f.watch("configmaps", params).await;
    f.create("configmaps", config_map("c")).await.unwrap();
    for expected in ["ADDED a", "ADDED b", "INITIAL", "ADDED c"] {
        assert_eq!(next(&mut session).await, expected);
    }
    let legacy = WatchParams { resource_version: Some("0".to_owned()), ..WatchParams::default() };
    let mut session = f.watch("configmaps", legacy).await;
    f.delete("configmaps", "a", DeleteParams::default()).await.unwrap();
    for expected in ["ADDED a", "ADDED b", "ADDED c", "DELETED a"] {
        assert_eq!(next(&mut session).await, expected);
    }
    let params = WatchParams { send_initial_events: Some(true), ..WatchParams::default() };
    let error = f.registry.watch(&f.collection("configmaps"), params).await.unwrap_err();
    assert!(error.message.ends_with("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
}

#[tokio::test(start_paused = true)]
async fn selector_changes_become_added_and_deleted_events() {
    let f = Fixture::new().await;
    let start = f.storage.revision().await.unwrap();
    let selected = WatchParams { labels: Some("on=yes".to_owned()), ..from(start) };
    let mut session = f.watch("configmaps", selected).await;
    f.create("configmaps", config_map("a")).await.unwrap();
    let target = f.object("configmaps", "a");
    for (label, data) in [("yes", "1"), ("yes", "2"), ("no", "3"), ("no", "4")] {
        f.merge(&target, json!({"metadata": {"labels": {"on": label}}, "data": {"k": data}})).await.unwrap();
    }
    f.create("configmaps", json!({"metadata": {"name": "b", "labels": {"on": "yes"}}})).await.unwrap();
    assert_eq!(next(&mut session).await, "ADDED a");
    assert_eq!(next(&mut session).await, "MODIFIED a");
    let Some(WatchItem::Event(event)) = session.next().await else { panic!("no event") };
    assert_eq!((event.kind, &event.item.value()["data"]["k"]), (EventType::Deleted, &json!("2")));
    assert_eq!(next(&mut session).await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn pod_is_marked_as_deleting_before_its_removal() {
    let f = Fixture::new().await;
    let start = f.storage.revision().await.unwrap();
    let mut session = f.watch("pods", from(start)).await;
    f.create("pods", pod("p")).await.unwrap();
    f.delete("pods", "p", DeleteParams::default()).await.unwrap();
    for expected in ["ADDED p", "MODIFIED p"] {
        assert_eq!(next(&mut session).await, expected);
    }
    let Some(WatchItem::Event(event)) = session.next().await else { panic!("no event") };
    assert_eq!((event.kind, event.item.value()["metadata"]["generation"].clone()), (EventType::Deleted, json!(2)));
}

#[tokio::test(start_paused = true)]
async fn one_object_can_be_watched() {
    let f = Fixture::new().await;
    let start = f.storage.revision().await.unwrap();
    let one = WatchParams { fields: Some("metadata.name=a".to_owned()), ..from(start) };
    let mut session = f.watch("configmaps", one).await;
    for name in ["ab", "a", "b"] {
        f.create("configmaps", config_map(name)).await.unwrap();
    }
    f.delete("configmaps", "a", DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut session).await, "ADDED a");
    assert_eq!(next(&mut session).await, "DELETED a");
    let now = WatchParams { fields: Some("metadata.name=a".to_owned()), ..WatchParams::default() };
    let mut session = f.watch("configmaps", now).await;
    f.create("configmaps", config_map("a")).await.unwrap();
    assert_eq!(next(&mut session).await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_report_the_current_revision() {
    let f = Fixture::new().await;
    let start = f.storage.revision().await.unwrap();
    let params = WatchParams { bookmarks: true, timeout: Some(Duration::from_secs(100)), ..from(start) };
    let mut session = f.watch("configmaps", params).await;
    f.create("pods", pod("p")).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(next(&mut session).await, format!("BOOKMARK {}", start.next()));
    assert_eq!(began.elapsed().as_secs(), 60);
    next(&mut session).await;
    assert_eq!(began.elapsed().as_secs(), 98);
    assert_eq!(next(&mut session).await, "END");
    assert_eq!(began.elapsed().as_secs(), 100);
    assert_eq!(next(&mut session).await, "END");
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_compacted_version_is_rejected() {
    let f = Fixture::new().await;
    for name in ["a", "b", "c"] {
        f.create("configmaps", config_map(name)).await.unwrap();
    }
    let now = f.storage.revision().await.unwrap();
    f.storage.compact(now).await.unwrap();
    let mut session = f.watch("configmaps", from(Revision(2))).await;
    assert_eq!(next(&mut session).await, format!("ERROR 410 too old resource version: 2 ({now})"));
    assert_eq!(next(&mut session).await, "END");
}

#[tokio::test(start_paused = true)]
async fn watchers_of_the_same_resource_share_frames() {
    let f = Fixture::new().await;
    let start = f.storage.revision().await.unwrap();
    let (mut a, mut b) = (f.watch("configmaps", from(start)).await, f.watch("configmaps", from(start)).await);
    f.create("configmaps", config_map("a")).await.unwrap();
    let mut frames = Vec::new();
    for session in [&mut a, &mut b] {
        let Some(WatchItem::Event(event)) = session.next().await else { panic!("no event") };
        frames.push(event.frame());
    }
    assert_eq!(frames[0].as_ptr(), frames[1].as_ptr());
}

#[tokio::test(start_paused = true)]
async fn registry_can_drop_its_watches() {
    let f = Fixture::new().await;
    let mut session = f.watch("configmaps", from(f.storage.revision().await.unwrap())).await;
    f.registry.drop_watches();
    assert_eq!(next(&mut session).await, "END");
}
