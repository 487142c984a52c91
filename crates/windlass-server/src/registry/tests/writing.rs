use super::*;

#[tokio::test(start_paused = true)]
async fn created_object_gets_system_metadata() {
    let f = Fixture::new().await;
    let mut object = config_map("a");
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["managedFields"] = json!([{"manager": "m"}]);
    let created = f.create("configmaps", object).await.unwrap();
    assert_eq!(created["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(created["metadata"]["creationTimestamp"], format_time(f.registry.clock().now()));
    assert_eq!(created.items(&["metadata", "managedFields"])[0]["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}));
    assert_eq!(created.at(&["metadata", "generation"]), None);
    assert_eq!(created["metadata"]["namespace"], "default");
    let text = created.to_string();
    assert!(
        text.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid""#),
        "{text}"
    );
    assert_eq!(f.get("configmaps", "a").await.unwrap(), created);
}

#[tokio::test(start_paused = true)]
async fn invalid_creates_have_specific_errors() {
    let f = Fixture::new().await;
    f.create("configmaps", config_map("a")).await.unwrap();
    let error = f.create("configmaps", config_map("a")).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (409, r#"configmaps "a" already exists"#));
    let error = f.create("configmaps", json!({"metadata": {}})).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (422, r#"ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#)
    );
    let error = f.create("configmaps", json!({"metadata": {"name": "b", "resourceVersion": "3"}})).await.unwrap_err();
    assert_eq!(
        (error.code, error.reason, error.message.as_str()),
        (500, None, "resourceVersion should not be set on objects to be created")
    );
    let error = f.create("configmaps", json!({"metadata": {"name": "b", "namespace": "other"}})).await.unwrap_err();
    assert_eq!(error.code, 400);
    let mut target = f.collection("configmaps");
    target.namespace = Some("nowhere".to_owned());
    let error = f.registry.create(&target, Body::Value(config_map("b")), WriteParams::default()).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (404, r#"namespaces "nowhere" not found"#));
    let error = f.create("configmaps", json!({"metadata": {"name": "b", "finalizers": ["foo"]}})).await.unwrap_err();
    assert_eq!(
        error.message,
        r#"ConfigMap "b" is invalid: metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified"#
    );
}

#[tokio::test(start_paused = true)]
async fn generate_name_creates_unique_names() {
    let f = Fixture::new().await;
    let object = || json!({"metadata": {"generateName": "web-"}});
    let (a, b) = (f.create("configmaps", object()).await.unwrap(), f.create("configmaps", object()).await.unwrap());
    let (a, b) = (a.text(&["metadata", "name"]), b.text(&["metadata", "name"]));
    assert!(a.starts_with("web-") && a.len() == 9 && a != b, "{a} {b}");
}

#[tokio::test(start_paused = true)]
async fn update_without_changes_is_not_written() {
    let f = Fixture::new().await;
    let created = f.create("configmaps", config_map("a")).await.unwrap();
    let before = f.storage.revision().await.unwrap();
    assert_eq!(f.update("configmaps", created.clone()).await.unwrap(), created);
    assert_eq!(f.storage.revision().await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn stale_update_is_a_conflict() {
    let f = Fixture::new().await;
    let first = f.create("configmaps", config_map("a")).await.unwrap();
    let mut second = first.clone();
    second["data"]["k"] = "w".into();
    let second = f.update("configmaps", second).await.unwrap();
    assert!(version(&second) > version(&first));
    let mut stale = first.clone();
    stale["data"]["k"] = "x".into();
    let error = f.update("configmaps", stale.clone()).await.unwrap_err();
    assert_eq!((error.code, error.is_conflict()), (409, true));
    assert_eq!(
        error.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    stale["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
    assert_eq!(f.update("configmaps", stale.clone()).await.unwrap()["data"]["k"], "x");
    stale["metadata"]["uid"] = "zzz".into();
    let error = f.update("configmaps", stale).await.unwrap_err();
    assert!(error.message.contains("Precondition failed: UID in precondition: zzz"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn leases_are_created_by_update_and_require_a_version() {
    let f = Fixture::new().await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let target = f.object("leases", "l");
    let written = f.registry.update(&target, Body::Value(lease.clone()), WriteParams::default()).await.unwrap();
    assert!(written.created);
    let error = f.update("leases", lease).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            422,
            "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        )
    );
    assert!(f.update("configmaps", config_map("none")).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn generation_counts_spec_changes() {
    let f = Fixture::new().await;
    let created = f.create("deployments", deployment("d")).await.unwrap();
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"]["replicas"], 1);
    assert_eq!(created["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let target = f.object("deployments", "d");
    let scaled = f.merge(&target, json!({"spec": {"replicas": 3}})).await.unwrap();
    assert_eq!(scaled["metadata"]["generation"], 2);
    let labeled = f.merge(&target, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    assert_eq!(labeled["metadata"]["generation"], 2);
    let annotated = f.merge(&target, json!({"metadata": {"annotations": {"a": "b"}}})).await.unwrap();
    assert_eq!(annotated["metadata"]["generation"], 3);
}

#[tokio::test(start_paused = true)]
async fn status_is_written_by_its_subresource_only() {
    let f = Fixture::new().await;
    let mut object = deployment("d");
    object["status"] = json!({"replicas": 7});
    let created = f.create("deployments", object).await.unwrap();
    assert_eq!(created["status"], json!({}));
    let main = f.merge(&f.object("deployments", "d"), json!({"status": {"replicas": 7}})).await.unwrap();
    assert_eq!(version(&main), version(&created));
    let target = f.object("deployments", "d").subresource("status");
    let changed = f.merge(&target, json!({"status": {"replicas": 7}, "spec": {"replicas": 9}})).await.unwrap();
    assert_eq!((&changed["status"]["replicas"], &changed["spec"]["replicas"]), (&json!(7), &json!(1)));
    assert_eq!(changed["metadata"]["generation"], 1);
    let error = f.merge(&target, json!({"status": {"readyReplicas": 8}})).await.unwrap_err();
    assert!(
        error.message.contains("status.readyReplicas: Invalid value: 8: cannot be greater than status.replicas"),
        "{}",
        error.message
    );
}

#[tokio::test(start_paused = true)]
async fn scale_is_a_view_of_replicas() {
    let f = Fixture::new().await;
    let created = f.create("deployments", deployment("d")).await.unwrap();
    let target = f.object("deployments", "d").subresource("scale");
    let scale = f.registry.get(&target, GetParams::default()).await.unwrap().value();
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=d"}));
    let mut modified = scale.clone();
    modified["spec"]["replicas"] = 4.into();
    assert_eq!(f.update_at(&target, modified.clone()).await.unwrap()["spec"]["replicas"], 4);
    assert!(f.update_at(&target, modified).await.unwrap_err().is_conflict());
    assert_eq!(f.merge(&target, json!({"spec": {"replicas": 5}})).await.unwrap()["spec"]["replicas"], 5);
    let deployment = f.get("deployments", "d").await.unwrap();
    assert_eq!((&deployment["spec"]["replicas"], &deployment["metadata"]["generation"]), (&json!(5), &json!(3)));
    let error = f.merge(&target, json!({"spec": {"replicas": -1}})).await.unwrap_err();
    assert_eq!(error.code, 422);
}

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing() {
    let f = Fixture::new().await;
    let before = f.storage.revision().await.unwrap();
    let dry = WriteParams { dry_run: DryRun::All, ..WriteParams::default() };
    let target = f.collection("services");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let written = f.registry.create(&target, Body::Value(service.clone()), dry).await.unwrap();
    let object = value(&written);
    assert_eq!(object.at(&["metadata", "resourceVersion"]), None);
    assert!(object.at(&["metadata", "uid"]).is_some());
    assert_eq!(f.storage.revision().await.unwrap(), before);
    f.create("services", service).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn immutable_fields_cannot_be_changed() {
    let f = Fixture::new().await;
    f.create("deployments", deployment("d")).await.unwrap();
    let target = f.object("deployments", "d");
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "e"}}, "template": {"metadata": {"labels": {"app": "e"}}}}});
    let error = f.merge(&target, patch).await.unwrap_err();
    assert_eq!(
        error.message,
        r#"Deployment.apps "d" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"e"}}: field is immutable"#
    );
    f.create("pods", pod("p")).await.unwrap();
    let target = f.object("pods", "p");
    assert_eq!(f.merge(&target, json!({"spec": {"nodeName": "n"}})).await.unwrap_err().code, 422);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}});
    let patch = f.registry.patch(&target, PatchType::Strategic, image.to_string().into(), WriteParams::default());
    assert_eq!(value(&patch.await.unwrap())["spec"]["containers"][0]["image"], "nginx:2");
    let error = f.merge(&target, json!({"metadata": {"name": "q"}})).await.unwrap_err();
    assert_eq!(error.message, "the name of the object (q) does not match the name on the URL (p)");
    let error = f.merge(&target, json!({"metadata": {"uid": "u"}})).await.unwrap_err();
    assert!(error.message.contains("metadata.uid: Invalid value: \"u\": field is immutable"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn concurrent_patches_are_all_applied() {
    let f = Fixture::new().await;
    f.create("configmaps", config_map("a")).await.unwrap();
    let target = f.object("configmaps", "a");
    let patches = (0..20).map(|index| f.merge(&target, json!({"data": {(index.to_string()): "x"}})));
    for patched in futures::future::join_all(patches).await {
        patched.unwrap();
    }
    assert_eq!(f.get("configmaps", "a").await.unwrap()["data"].as_object().unwrap().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn services_get_unique_cluster_ips() {
    let f = Fixture::new().await;
    let kubernetes = f.get("services", "kubernetes").await.unwrap();
    assert_eq!(kubernetes["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    let service =
        |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    let a = f.create("services", service("a", "ClusterIP")).await.unwrap();
    assert_eq!(a["spec"]["ports"][0], json!({"protocol": "TCP", "port": 80, "targetPort": 80}));
    assert_eq!(a["status"], json!({"loadBalancer": {}}));
    let mut taken = service("b", "ClusterIP");
    taken["spec"]["clusterIP"] = a["spec"]["clusterIP"].clone();
    let error = f.create("services", taken.clone()).await.unwrap_err();
    assert!(error.message.ends_with("provided IP is already allocated"), "{}", error.message);
    let mut moved = a.clone();
    moved["spec"]["clusterIP"] = "10.0.0.9".into();
    moved["spec"]["clusterIPs"] = json!(["10.0.0.9"]);
    let error = f.update("services", moved).await.unwrap_err();
    assert!(error.message.ends_with("may not change once set"), "{}", error.message);
    let node = f.merge(&f.object("services", "a"), json!({"spec": {"type": "NodePort"}})).await.unwrap();
    assert!(node.int(&["spec", "ports"]).is_none() && node["spec"]["ports"][0].int(&["nodePort"]).unwrap() >= 30_000);
    assert_eq!(node["spec"]["clusterIP"], a["spec"]["clusterIP"]);
    let back = f.merge(&f.object("services", "a"), json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    assert_eq!(back["spec"]["ports"][0].at(&["nodePort"]), None);
    f.delete("services", "a", DeleteParams::default()).await.unwrap();
    f.create("services", taken).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn allocated_cluster_ips_survive_a_restart() {
    let f = Fixture::new().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let a = f.create("services", service).await.unwrap();
    let again = Fixture::over(Arc::clone(&f.storage)).await;
    let mut taken = json!({"metadata": {"name": "b"}, "spec": {"ports": [{"port": 80}]}});
    taken["spec"]["clusterIP"] = a["spec"]["clusterIP"].clone();
    assert_eq!(again.create("services", taken).await.unwrap_err().code, 422);
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_once() {
    let f = Fixture::new().await;
    let created = f.create("pods", pod("p")).await.unwrap();
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!((&created["spec"]["priority"], &created["metadata"]["generation"]), (&json!(0), &json!(1)));
    let target = f.object("pods", "p").subresource("binding");
    let binding = || Body::Value(json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}));
    let bound = f.registry.create(&target, binding(), WriteParams::default()).await.unwrap();
    assert_eq!(
        value(&bound),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    );
    let after = f.get("pods", "p").await.unwrap();
    assert_eq!(after["spec"]["nodeName"], "n1");
    assert_eq!(after["status"]["conditions"][0]["type"], "PodScheduled");
    let error = f.registry.create(&target, binding(), WriteParams::default()).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (409, r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1""#)
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_shared_by_both_groups() {
    let f = Fixture::new().await;
    let resources = f.registry.resources();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started", "message": "hello", "source": {"component": "kubelet"}, "type": "Normal", "count": 1});
    let core = Target::collection(resources.get("", "v1", "events").unwrap(), Some("default"));
    f.registry.create(&core, Body::Value(event), WriteParams::default()).await.unwrap();
    let events = resources.get("events.k8s.io", "v1", "events").unwrap();
    let item = f.registry.get(&Target::object(events, Some("default"), "e"), GetParams::default()).await.unwrap();
    let seen = item.value();
    assert_eq!((&seen["apiVersion"], &seen["note"]), (&json!("events.k8s.io/v1"), &json!("hello")));
    let target = Target::object(events, Some("default"), "e");
    let error = f.merge(&target, json!({"note": "again"})).await.unwrap_err();
    assert_eq!(error.message, r#"Event "e" is invalid: message: Invalid value: "again": field is immutable"#);
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    assert_eq!(f.merge(&target, series).await.unwrap()["series"]["count"], 2);
    let target = Target::object(resources.get("", "v1", "events").unwrap(), Some("default"), "e");
    assert_eq!(f.registry.get(&target, GetParams::default()).await.unwrap().value()["series"]["count"], 2);
    let params = ListParams { fields: Some("regarding.name=p,reason=Started".to_owned()), ..ListParams::default() };
    let list = f.registry.list(&Target::collection(events, Some("default")), params).await.unwrap();
    assert_eq!(names(&list.items), ["e"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_pods_are_rejected_with_their_causes() {
    let f = Fixture::new().await;
    let error = f.create("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).await.unwrap_err();
    assert_eq!(error.message, r#"Pod "p" is invalid: spec.containers: Required value"#);
    let mut bad = pod("p");
    bad["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "x", "mountPath": "/x"}]);
    bad["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "c"}));
    bad["spec"]["restartPolicy"] = "Sometimes".into();
    let error = f.create("pods", bad).await.unwrap_err();
    let causes: Vec<_> = error.details.unwrap().causes.into_iter().map(|cause| (cause.field, cause.reason)).collect();
    let expected = [
        ("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound"),
        ("spec.containers[1].image", "FieldValueRequired"),
        ("spec.containers[1].name", "FieldValueDuplicate"),
        ("spec.restartPolicy", "FieldValueNotSupported"),
    ];
    assert_eq!(causes, expected.map(|(field, reason)| (field.to_owned(), reason.to_owned())));
    let mut bad = deployment("d");
    bad["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    let error = f.create("deployments", bad).await.unwrap_err();
    assert_eq!(
        error.message,
        "Deployment.apps \"d\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"d\"}: `selector` does not match template `labels`"
    );
}
