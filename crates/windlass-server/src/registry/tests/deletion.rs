use super::*;

#[tokio::test(start_paused = true)]
async fn delete_returns_a_status_or_the_object_by_kind() {
    let f = Fixture::new().await;
    let created = f.create("configmaps", config_map("a")).await.unwrap();
    let answer = answered(&f.delete("configmaps", "a", DeleteParams::default()).await.unwrap());
    assert_eq!(
        answer,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}})
    );
    assert!(f.delete("configmaps", "a", DeleteParams::default()).await.unwrap_err().is_not_found());
    f.create("pods", pod("p")).await.unwrap();
    let answer = answered(&f.delete("pods", "p", DeleteParams::default()).await.unwrap());
    assert_eq!((&answer["kind"], &answer["metadata"]["deletionGracePeriodSeconds"]), (&json!("Pod"), &json!(0)));
    assert!(f.get("pods", "p").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_an_object_until_the_last_is_removed() {
    let f = Fixture::new().await;
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    let created = f.create("configmaps", object).await.unwrap();
    let marked = answered(&f.delete("configmaps", "a", DeleteParams::default()).await.unwrap());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(version(&marked) > version(&created));
    let again = answered(&f.delete("configmaps", "a", DeleteParams::default()).await.unwrap());
    assert_eq!(again, marked);
    let error = f.create("configmaps", config_map("a")).await.unwrap_err();
    assert_eq!(error.message, r#"object is being deleted: configmaps "a" already exists"#);
    let mut more = marked.clone();
    more["metadata"]["finalizers"] = json!(["ex.io/hold", "ex.io/more"]);
    let error = f.update("configmaps", more).await.unwrap_err();
    assert!(error.message.contains(r#"found new finalizers []string{"ex.io/more"}"#), "{}", error.message);
    let mut free = marked.clone();
    free["metadata"].as_object_mut().unwrap().shift_remove("finalizers");
    let last = f.update("configmaps", free).await.unwrap();
    assert_eq!(version(&last), version(&marked));
    assert!(f.get("configmaps", "a").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn propagation_policy_sets_the_gc_finalizer() {
    let f = Fixture::new().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        f.create("replicasets", deployment("r")).await.unwrap();
        let params = DeleteParams { propagation: Some(policy.to_owned()), ..DeleteParams::default() };
        let marked = answered(&f.delete("replicasets", "r", params).await.unwrap());
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert_eq!(marked["metadata"]["generation"], 2);
        let background = DeleteParams { propagation: Some("Background".to_owned()), ..DeleteParams::default() };
        f.delete("replicasets", "r", background).await.unwrap();
        assert!(f.get("replicasets", "r").await.unwrap_err().is_not_found());
    }
    f.create(
        "jobs",
        json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
    )
    .await
    .unwrap();
    let params = DeleteParams::default();
    let deleted = f.registry.delete(&f.object("jobs", "j"), params.clone()).await.unwrap();
    assert_eq!(answered(&deleted.answer)["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(params.warnings.headers().len(), 1);
    let wrong = DeleteParams { propagation: Some("X".to_owned()), ..DeleteParams::default() };
    let error = f.delete("configmaps", "none", wrong).await.unwrap_err();
    assert_eq!(
        error.message,
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"X\": supported values: \
         \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
}

#[tokio::test(start_paused = true)]
async fn scheduled_pod_is_deleted_with_a_grace_period() {
    let f = Fixture::new().await;
    let mut object = pod("p");
    object["spec"]["nodeName"] = "n".into();
    f.create("pods", object).await.unwrap();
    let marked = answered(&f.delete("pods", "p", DeleteParams::default()).await.unwrap());
    let ends = parse_time(marked.text(&["metadata", "deletionTimestamp"])).unwrap();
    assert_eq!(ends.as_second(), START + 30);
    assert_eq!(marked["metadata"]["generation"], 2);
    f.advance_clock(5);
    let grace = |seconds| DeleteParams { grace_period: Some(seconds), ..DeleteParams::default() };
    let longer = answered(&f.delete("pods", "p", grace(60)).await.unwrap());
    assert_eq!(longer, marked);
    let shorter = answered(&f.delete("pods", "p", grace(10)).await.unwrap());
    let ends = parse_time(shorter.text(&["metadata", "deletionTimestamp"])).unwrap();
    assert_eq!((ends.as_second(), &shorter["metadata"]["deletionGracePeriodSeconds"]), (START + 10, &json!(10)));
    f.delete("pods", "p", grace(0)).await.unwrap();
    assert!(f.get("pods", "p").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn eviction_deletes_the_pod() {
    let f = Fixture::new().await;
    f.create("pods", pod("p")).await.unwrap();
    let target = f.object("pods", "p").subresource("eviction");
    let eviction = Body::Value(json!({"metadata": {"name": "p"}}));
    f.registry.create(&target, eviction, WriteParams::default()).await.unwrap();
    assert!(f.get("pods", "p").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn evictions_of_running_pods_use_the_disruption_budget() {
    let f = Fixture::new().await;
    let guarded = |name: &str| {
        let mut guarded = pod(name);
        guarded["metadata"]["labels"]["app"] = json!("guarded");
        guarded["spec"]["nodeName"] = json!("n");
        guarded
    };
    for name in ["a", "b"] {
        f.create("pods", guarded(name)).await.unwrap();
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        f.merge(&f.object("pods", name).subresource("status"), running).await.unwrap();
    }
    let budget = json!({"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "guarded"}}, "minAvailable": 1}});
    f.create("poddisruptionbudgets", budget).await.unwrap();
    let evict = async |name: &str| {
        let eviction = Body::Value(json!({"metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": 0}}));
        f.registry.create(&f.object("pods", name).subresource("eviction"), eviction, WriteParams::default()).await
    };
    assert_eq!(evict("a").await.unwrap_err().code, 429, "the budget has not been processed");
    let counted = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    f.merge(&f.object("poddisruptionbudgets", "b").subresource("status"), counted).await.unwrap();
    evict("a").await.unwrap();
    assert!(f.get("pods", "a").await.unwrap_err().is_not_found());
    assert_eq!(evict("b").await.unwrap_err().code, 429, "the one disruption is taken");
    let budget = f.get("poddisruptionbudgets", "b").await.unwrap();
    assert_eq!(budget.int(&["status", "disruptionsAllowed"]), Some(0));
    assert!(budget.at(&["status", "disruptedPods", "a"]).is_some());
    f.delete("poddisruptionbudgets", "b", DeleteParams::default()).await.unwrap();
    evict("b").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_checked() {
    let f = Fixture::new().await;
    let created = f.create("configmaps", config_map("g")).await.unwrap();
    let uid = created.text(&["metadata", "uid"]);
    let with = |uid: Option<&str>, version: Option<&str>| DeleteParams {
        preconditions: Preconditions { uid: uid.map(str::to_owned), resource_version: version.map(str::to_owned) },
        ..DeleteParams::default()
    };
    let error = f.delete("configmaps", "g", with(Some("abc"), None)).await.unwrap_err();
    assert_eq!(
        error.message,
        format!(
            "Operation cannot be fulfilled on ConfigMap \"g\": the UID in the precondition (abc) does not match the UID in record \
             ({uid}). The object might have been deleted and then recreated"
        )
    );
    assert!(f.delete("configmaps", "g", with(None, Some("1"))).await.unwrap_err().is_conflict());
    f.delete("configmaps", "g", with(Some(uid), Some(created.text(&["metadata", "resourceVersion"])))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn namespace_is_removed_when_finalized() {
    let f = Fixture::new().await;
    let created = f.create("namespaces", json!({"metadata": {"name": "n"}})).await.unwrap();
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    assert_eq!(
        (&created["spec"]["finalizers"], &created["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let marked = answered(&f.delete("namespaces", "n", DeleteParams::default()).await.unwrap());
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked.at(&["metadata", "deletionGracePeriodSeconds"]), None);
    let mut target = f.collection("configmaps");
    target.namespace = Some("n".to_owned());
    let error = f.registry.create(&target, Body::Value(config_map("late")), WriteParams::default()).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            403,
            "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
        )
    );
    assert!(error.has_cause("NamespaceTerminating"));
    assert_eq!(answered(&f.delete("namespaces", "n", DeleteParams::default()).await.unwrap()), marked);
    let mut free = marked;
    free["spec"]["finalizers"] = json!([]);
    f.update_at(&f.object("namespaces", "n").subresource("finalize"), free).await.unwrap();
    assert!(f.get("namespaces", "n").await.unwrap_err().is_not_found());
    let error = f.delete("namespaces", "default", DeleteParams::default()).await.unwrap_err();
    assert_eq!(error.message, r#"namespaces "default" is forbidden: this namespace may not be deleted"#);
}

#[tokio::test(start_paused = true)]
async fn delete_collection_deletes_selected_objects_only() {
    let f = Fixture::new().await;
    for name in ["a", "b", "c"] {
        f.create("pods", pod(name)).await.unwrap();
    }
    let selected = ListParams { labels: Some("app in (a,c)".to_owned()), ..ListParams::default() };
    let target = f.collection("pods");
    let deleted = f.registry.delete_collection(&target, DeleteParams::default(), selected).await.unwrap();
    assert_eq!(names(&deleted.items), ["a", "c"]);
    assert_eq!(names(&f.list("pods", ListParams::default()).await.unwrap().items), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn dry_run_delete_keeps_the_object() {
    let f = Fixture::new().await;
    f.create("configmaps", config_map("a")).await.unwrap();
    let dry = DeleteParams { dry_run: DryRun::All, ..DeleteParams::default() };
    assert_eq!(answered(&f.delete("configmaps", "a", dry).await.unwrap())["status"], "Success");
    f.get("configmaps", "a").await.unwrap();
}
