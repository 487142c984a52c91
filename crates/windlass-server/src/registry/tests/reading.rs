use super::*;

async fn three() -> Fixture {
    let f = Fixture::new().await;
    for name in ["a", "b", "c"] {
        f.create("pods", pod(name)).await.unwrap();
    }
    f
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_consistent_snapshot() {
    let f = three().await;
    let page = ListParams { limit: 2, ..ListParams::default() };
    let first = f.list("pods", page.clone()).await.unwrap();
    assert_eq!((names(&first.items), first.remaining), (vec!["a".to_owned(), "b".to_owned()], Some(1)));
    f.create("pods", pod("d")).await.unwrap();
    let next = ListParams { continue_token: first.continue_token.clone(), ..page.clone() };
    let second = f.list("pods", next.clone()).await.unwrap();
    assert_eq!((names(&second.items), second.revision), (vec!["c".to_owned()], first.revision));
    assert_eq!((second.continue_token, second.remaining), (None, None));
    let error =
        f.list("pods", ListParams { resource_version: Some("3".to_owned()), ..next.clone() }).await.unwrap_err();
    assert_eq!(error.message, "specifying resource version is not allowed when using continue");
    let now = f.storage.revision().await.unwrap();
    f.storage.compact(now).await.unwrap();
    let expired = f.list("pods", next).await.unwrap_err();
    assert_eq!(expired.code, 410);
    let token = expired.metadata.continue_token;
    let rest = f.list("pods", ListParams { continue_token: token, ..page }).await.unwrap();
    assert_eq!(names(&rest.items), ["c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_filter_lists() {
    let f = three().await;
    f.merge(&f.object("pods", "b").subresource("status"), json!({"status": {"phase": "Running"}})).await.unwrap();
    for (labels, fields, expected) in [
        (Some("app=a"), None, vec!["a"]),
        (Some("app!=a"), Some("status.phase=Pending"), vec!["c"]),
        (None, Some("status.phase=Running"), vec!["b"]),
        (None, Some("metadata.name=c"), vec!["c"]),
        (None, Some("metadata.name=c,metadata.namespace=other"), vec![]),
        (None, Some("spec.hostNetwork=false,metadata.name!=a"), vec!["b", "c"]),
    ] {
        let params = ListParams {
            labels: labels.map(str::to_owned),
            fields: fields.map(str::to_owned),
            ..ListParams::default()
        };
        assert_eq!(names(&f.list("pods", params).await.unwrap().items), expected, "{labels:?} {fields:?}");
    }
    for (plural, fields, message) in [
        ("pods", "spec.x=1", "field label not supported: spec.x"),
        (
            "configmaps",
            "data.x=1",
            r#""data.x" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        ("pods", "a", "invalid selector: 'a'; can't understand 'a'"),
    ] {
        let params = ListParams { fields: Some(fields.to_owned()), ..ListParams::default() };
        let error = f.list(plural, params).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, message));
    }
}

#[tokio::test(start_paused = true)]
async fn limit_counts_selected_objects_only() {
    let f = three().await;
    let page = ListParams { limit: 1, labels: Some("app!=a".to_owned()), ..ListParams::default() };
    let first = f.list("pods", page.clone()).await.unwrap();
    assert_eq!((names(&first.items), first.remaining), (vec!["b".to_owned()], None));
    let second = f.list("pods", ListParams { continue_token: first.continue_token, ..page.clone() }).await.unwrap();
    assert_eq!(names(&second.items), ["c"]);
    assert_eq!(second.continue_token, None);
}

#[tokio::test(start_paused = true)]
async fn list_of_one_name_has_no_pages() {
    let f = three().await;
    for name in ["aa", "a-b"] {
        f.create("pods", pod(name)).await.unwrap();
    }
    for (name, labels, expected) in
        [("a", None, vec!["a"]), ("0", None, vec![]), ("a-", None, vec![]), ("a", Some("none=x"), vec![])]
    {
        let page = ListParams {
            limit: 1,
            fields: Some(format!("metadata.name={name}")),
            labels: labels.map(str::to_owned),
            ..ListParams::default()
        };
        let list = f.list("pods", page.clone()).await.unwrap();
        assert_eq!(names(&list.items), expected);
        assert_eq!((list.continue_token, list.remaining), (None, None));
        let invalid = ListParams { continue_token: Some("invalid".to_owned()), ..page };
        assert_eq!(f.list("pods", invalid).await.unwrap_err().code, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn resource_version_selects_the_list_revision() {
    let f = three().await;
    let now = f.storage.revision().await.unwrap().0;
    let at = |version: u64, kind: Option<&str>| ListParams {
        resource_version: Some(version.to_string()),
        version_match: kind.map(str::to_owned),
        ..ListParams::default()
    };
    assert_eq!(f.list("pods", at(now - 1, Some("Exact"))).await.unwrap().items.len(), 2);
    assert_eq!(f.list("pods", at(now - 1, Some("NotOlderThan"))).await.unwrap().items.len(), 3);
    assert_eq!(f.list("pods", at(now - 1, None)).await.unwrap().items.len(), 3);
    let error = f.list("pods", at(now + 9, None)).await.unwrap_err();
    assert_eq!(
        (error.code, error.message),
        (504, format!("Timeout: Too large resource version: {}, current: {now}", now + 9))
    );
    let (later, ()) = tokio::join!(f.list("pods", at(now + 1, None)), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        f.create("pods", pod("d")).await.unwrap();
    });
    assert_eq!(later.unwrap().items.len(), 4);
    let error = f.list("pods", at(0, Some("Exact"))).await.unwrap_err();
    assert_eq!(
        error.message,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for \
         resourceVersion \"0\""
    );
    let params = ListParams { resource_version: Some("abc".to_owned()), ..ListParams::default() };
    let error = f.list("pods", params).await.unwrap_err();
    assert_eq!(
        error.message,
        "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
    );
}

#[tokio::test(start_paused = true)]
async fn paged_list_is_consistent_under_concurrent_writes() {
    let retention = Retention { events: 3, bytes: 0, percent_of_live: 0, ..Retention::default() };
    for fields in [None, Some("metadata.name!=none")] {
        let f = Fixture::over(Arc::new(MemoryStorage::with_retention(retention))).await;
        let expected: Vec<_> = (0..10).map(|n| format!("a-{n}")).collect();
        for name in &expected {
            f.create("configmaps", config_map(name)).await.unwrap();
        }
        let mut page = ListParams { limit: 3, fields: fields.map(str::to_owned), ..ListParams::default() };
        let (mut found, mut round) = (Vec::new(), 0);
        loop {
            let list = f.list("configmaps", page.clone()).await.unwrap();
            assert!(list.items.iter().all(|item| item.value()["data"]["k"] == "v"));
            found.extend(names(&list.items));
            let Some(next) = list.continue_token else { break };
            page.continue_token = Some(next);
            for name in &expected {
                f.merge(&f.object("configmaps", name), json!({"data": {"k": format!("round {round}")}})).await.unwrap();
            }
            round += 1;
        }
        assert_eq!((found, round), (expected, 3), "{fields:?}");
    }
}

#[tokio::test]
async fn scope_of_a_list_counts_objects_that_are_not_selected() {
    let f = three().await;
    let scope = async |labels: Option<&str>, fields: Option<&str>, limit| {
        let (labels, fields) = (labels.map(str::to_owned), fields.map(str::to_owned));
        let list = f.list("pods", ListParams { labels, fields, limit, ..ListParams::default() }).await.unwrap();
        list.scope.map(|scope| (scope.count, scope.read, scope.bytes > 100 * scope.read))
    };
    assert_eq!(scope(None, None, 0).await, Some((3, 3, true)));
    assert_eq!(scope(Some("app=none"), None, 0).await, Some((3, 3, true)));
    assert_eq!(scope(None, None, 2).await, Some((3, 2, true)));
    assert_eq!(scope(None, Some("metadata.name=c"), 0).await, None);
}
