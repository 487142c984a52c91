mod controller;
mod storage_version;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use windlass_api::{Clock, Entropy, FieldValidation, Status};

use crate::{
    bootstrap,
    codec::Format,
    discovery,
    object::Tree,
    registry::{
        DeleteParams, GetParams, ListParams, PatchType, Registry, ResponseBody, WatchParams, WriteParams, Written,
    },
    resource::{Body, Target},
    storage::{MemoryStorage, Storage},
};

async fn registry_over(storage: Arc<dyn Storage>) -> Registry {
    let others = Arc::default();
    let started = bootstrap::start(
        storage,
        Clock::system(),
        Entropy::seeded(7),
        bootstrap::RegistryOptions::default(),
        Arc::default(),
        &others,
        bootstrap::Announced::at("127.0.0.1:443"),
    );
    started.await.unwrap().0
}

async fn registry() -> Registry {
    registry_over(Arc::new(MemoryStorage::default())).await
}

fn definitions(registry: &Registry) -> Target {
    let table = registry.resources();
    let resource = table.get("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap();
    Target::collection(resource, None)
}

fn definition_named(registry: &Registry, name: &str) -> Target {
    Target { name: Some(name.to_owned()), ..definitions(registry) }
}

/// Returns the collection of a custom resource in the namespace `default`.
fn collection(registry: &Registry, group: &str, version: &str, plural: &str) -> Option<Target> {
    let table = registry.resources();
    let resource = table.get(group, version, plural)?;
    Some(Target::collection(resource, resource.is_namespaced().then_some("default")))
}

fn one(registry: &Registry, version: &str, name: &str) -> Target {
    Target { name: Some(name.to_owned()), ..collection(registry, "ex.io", version, "foos").unwrap() }
}

fn bytes(object: &Value) -> Body {
    Body::Encoded { bytes: object.to_string().into(), format: Format::Json }
}

fn value(written: Written) -> Value {
    match written.answer {
        ResponseBody::Object(item) => item.value(),
        ResponseBody::Status(status) => panic!("{status:?}"),
    }
}

async fn create(registry: &Registry, target: &Target, object: &Value) -> Result<Value, Status> {
    registry.create(target, bytes(object), WriteParams::default()).await.map(value)
}

async fn get(registry: &Registry, target: &Target) -> Result<Value, Status> {
    registry.get(target, GetParams::default()).await.map(|item| item.value())
}

async fn merge(registry: &Registry, target: &Target, patch: Value) -> Result<Value, Status> {
    registry.patch(target, PatchType::Merge, patch.to_string().into(), WriteParams::default()).await.map(value)
}

/// Waits until the controller has brought the registry into a state.
async fn until<T>(what: &str, mut state: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(state) = state().await {
                return state;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object.items(&["status", "conditions"]);
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

async fn established(registry: &Registry, name: &str) -> Value {
    until("Established", async || {
        get(registry, &definition_named(registry, name)).await.ok().filter(|object| holds(object, "Established"))
    })
    .await
}

/// A CRD in the group `ex.io` that uses many features.
fn foos() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "n": {"type": "string", "nullable": true},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "io": {"x-kubernetes-int-or-string": true},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "tmpl": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "nested": {"type": "object", "default": {}, "properties": {
                "a": {"type": "string", "default": "x"},
                "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {
                        "k": {"type": "string"}, "d": {"type": "integer", "default": 5}}}}}}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema,
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                    "selectableFields": [{"jsonPath": ".spec.color"}]},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": schema},
            ],
        },
    })
}

fn foo(spec: &Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "t"}, "spec": spec})
}

async fn with_foos() -> Registry {
    let registry = registry().await;
    create(&registry, &definitions(&registry), &foos()).await.unwrap();
    established(&registry, "foos.ex.io").await;
    registry
}

#[tokio::test]
async fn crd_is_established_once_it_is_served() {
    let registry = registry().await;
    let created = create(&registry, &definitions(&registry), &foos()).await.unwrap();
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"]["names"]["singular"], "foo");
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    assert_eq!(created["status"], status);
    assert!(collection(&registry, "ex.io", "v1", "foos").is_none(), "not served yet");

    let definition = established(&registry, "foos.ex.io").await;
    let reasons = definition.items(&["status", "conditions"]).iter();
    let reasons = reasons.map(|c| (c.text(&["type"]), c.text(&["reason"]), c.text(&["message"]))).collect::<Vec<_>>();
    assert_eq!(
        reasons,
        [
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted")
        ]
    );
    assert_eq!(definition["status"]["acceptedNames"], definition["spec"]["names"]);
    assert!(collection(&registry, "ex.io", "v1", "foos").is_some());
    assert!(collection(&registry, "ex.io", "v1beta1", "foos").is_some());
}

#[tokio::test]
async fn served_versions_are_in_discovery_and_openapi() {
    let registry = with_foos().await;
    let table = registry.resources();
    let discovered = |path: &str| {
        let document =
            discovery::answer(&table, &discovery::Request { path, ..discovery::Request::default() }).unwrap().unwrap();
        serde_json::from_slice::<Value>(&document.body).unwrap()
    };
    let group = discovered("/apis/ex.io");
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let list = discovered("/apis/ex.io/v1");
    assert_eq!(
        list["resources"][0].to_string(),
        "{\"name\":\"foos\",\"singularName\":\"foo\",\"namespaced\":true,\"kind\":\"Foo\",\"verbs\":[\"delete\",\
         \"deletecollection\",\"get\",\"list\",\"patch\",\"create\",\"update\",\"watch\"],\"shortNames\":[\"fo\"],\
         \"categories\":[\"all\"],\"storageVersionHash\":\"Ic0/Fpq4BGQ=\"}"
    );
    assert_eq!(list["resources"][2]["group"], "autoscaling");
    assert_eq!(discovered("/apis/ex.io/v1beta1")["resources"].as_array().unwrap().len(), 1);

    let path = "/openapi/v3/apis/ex.io/v1";
    let now = windlass_api::Clock::system().now();
    let descriptions = crate::descriptions::Descriptions::new(crate::descriptions::tests::source);
    let request = crate::openapi::Request {
        path,
        query: None,
        accept: None,
        if_none_match: None,
        descriptions: &descriptions,
        now,
        foreign: &[],
        foreign_paths: &[],
    };
    let document = crate::openapi::answer(&table, &request).unwrap();
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    let schema = &document["components"]["schemas"]["io.ex.v1.Foo"];
    let description = |property: &str| schema["properties"][property]["description"].clone();
    assert_eq!(["apiVersion", "kind", "metadata"].map(description), ["the version", "the kind", "the metadata"]);
    assert_eq!(
        schema["properties"]["spec"]["properties"]["io"]["anyOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(schema["properties"]["spec"]["properties"]["tmpl"]["required"], json!(["kind", "apiVersion"]));
    assert!(schema["properties"]["metadata"]["allOf"].is_array());

    let info = table.get("ex.io", "v1", "foos").unwrap();
    let columns = crate::table::columns(info);
    assert_eq!(columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["Name", "Size"]);
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_sorted() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let object = json!({
        "kind": "Foo", "apiVersion": "ex.io/v1", "metadata": {"name": "t", "annotations": {"b": "1", "a": "2"}},
        "spec": {"zz": 1, "size": 1.0, "nested": {"l": [{"k": "a", "y": 1}], "q": 1}, "any": {"x": {"y": null, "z": 1.0}}},
        "extra": 1, "status": {"replicas": 3},
    });
    let params = WriteParams::default();
    let warnings = params.warnings.clone();
    let written = registry.create(&foos, bytes(&object), params).await.unwrap();
    assert_eq!(
        warnings.headers(),
        [
            r#"299 - "unknown field \"extra\"""#,
            r#"299 - "unknown field \"spec.nested.l[0].y\"""#,
            r#"299 - "unknown field \"spec.nested.q\"""#,
            r#"299 - "unknown field \"spec.zz\"""#,
        ]
    );
    let ResponseBody::Object(item) = &written.answer else { panic!() };
    let text = String::from_utf8(item.to_bytes().to_vec()).unwrap();
    let spec = "\"spec\":{\"any\":{\"x\":{\"y\":null,\"z\":1}},\"color\":\"red\",\"nested\":{\"a\":\"x\",\"l\":[{\"d\":5,\
                \"k\":\"a\"}]},\"size\":1}}";
    assert!(text.starts_with("{\"apiVersion\":\"ex.io/v1\",\"kind\":\"Foo\",\"metadata\":{\"annotations\":"), "{text}");
    assert!(text.ends_with(spec), "{text}");

    let strict = WriteParams { field_validation: FieldValidation::Strict, ..WriteParams::default() };
    let status = registry.create(&foos, bytes(&object), strict).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(
        status.message.starts_with(
            "Foo in version \"v1\" cannot be handled as a Foo: strict decoding error: unknown field \"extra\", unknown field"
        ),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn nulls_are_dropped_defaulted_or_kept_by_the_schema() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let spec = json!({"size": 1, "color": null, "tags": null, "n": null, "nested": null, "m": {"a": null}});
    let created = create(&registry, &foos, &foo(&spec)).await.unwrap();
    assert_eq!(created["spec"], json!({"color": "red", "m": {}, "n": null, "nested": {"a": "x"}, "size": 1}));
}

#[tokio::test]
async fn schema_violations_have_the_messages_of_kube_apiserver() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let of_type = |path: &str, kind: &str, found: &str| {
        format!("{path}: Invalid value: \"{found}\": {path} in body must be of type {kind}: \"{found}\"")
    };
    let accessor = ".spec.size: Invalid value: 0: .spec.size accessor error: a is of the type string, expected int64";
    for (spec, complaint) in [
        (json!({}), "spec.size: Required value".to_owned()),
        (json!({"size": null}), "spec.size: Required value".to_owned()),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1".to_owned(),
        ),
        (json!({"size": "a"}), format!("[{}, {accessor}]", of_type("spec.size", "integer", "string"))),
        (
            json!({"size": 1, "color": "blue"}),
            "spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"".to_owned(),
        ),
        (json!({"size": 1, "io": true}), of_type("spec.io", "integer,string", "boolean")),
        (json!({"size": 1, "io": 1.5}), of_type("spec.io", "integer,string", "number")),
        (json!({"size": 1, "tags": [1, "a"]}), of_type("spec.tags[0]", "string", "integer")),
        (json!({"size": 1, "m": {"a": "x"}}), of_type("spec.m.a", "integer", "string")),
        (json!({"size": 1, "nested": "x"}), of_type("spec.nested", "object", "string")),
        (
            json!({"size": 1, "nested": {"l": [{"k": "a"}, {"k": "a"}]}}),
            "spec.nested.l[1]: Duplicate value: {\"k\":\"a\"}".to_owned(),
        ),
        (
            json!({"size": 1, "tmpl": {"metadata": {"name": "x"}}}),
            "[spec.tmpl.apiVersion: Required value, spec.tmpl.kind: Required value]".to_owned(),
        ),
    ] {
        let status = create(&registry, &foos, &foo(&spec)).await.unwrap_err();
        assert_eq!(status.message, format!("Foo.ex.io \"t\" is invalid: {complaint}"), "{spec}");
        assert_eq!(status.code, 422);
    }
}

#[tokio::test]
async fn body_of_another_kind_or_version_is_rejected() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    for (body, code, message) in [
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Fooz", "metadata": {"name": "t"}}),
            422,
            "Fooz.ex.io \"t\" is invalid: kind: Invalid value: \"Fooz\": must be Foo",
        ),
        (
            json!({"apiVersion": "ex.io/v1beta1", "kind": "Foo", "metadata": {"name": "t"}}),
            400,
            "the API version in the data (ex.io/v1beta1) does not match the expected API version (ex.io/v1)",
        ),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "t", "labels": {"a": 1}}}),
            400,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal number into Go struct field \
             ObjectMeta.labels of type string",
        ),
        (
            json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "t"}, "spec": {"size": 1, "tmpl": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": 1}}}}}),
            400,
            "Foo in version \"v1\" cannot be handled as a Foo: spec.tmpl.metadata: Invalid value: \
             {\"labels\":{\"x\":1},\"name\":\"a\"}: json: cannot unmarshal number into Go struct field ObjectMeta.labels \
             of type string",
        ),
    ] {
        let status = create(&registry, &foos, &body).await.unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
}

#[tokio::test]
async fn status_is_written_separately_and_keeps_the_generation() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    create(&registry, &foos, &foo(&json!({"size": 3}))).await.unwrap();
    let target = one(&registry, "v1", "t");

    let changed = merge(&registry, &target, json!({"spec": {"size": 4}, "status": {"replicas": 9}})).await.unwrap();
    assert_eq!((&changed["metadata"]["generation"], changed.get("status")), (&json!(2), None));
    let status = target.clone().subresource("status");
    let patch = json!({"status": {"replicas": 9}, "spec": {"size": 99}, "metadata": {"labels": {"x": "y"}}});
    let changed = merge(&registry, &status, patch).await.unwrap();
    assert_eq!((&changed["spec"]["size"], &changed["status"]["replicas"]), (&json!(4), &json!(9)));
    assert_eq!((&changed["metadata"]["generation"], changed["metadata"].get("labels")), (&json!(2), None));

    let scale = target.clone().subresource("scale");
    let scaled = merge(&registry, &scale, json!({"spec": {"replicas": 7}})).await.unwrap();
    assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(7)));
    let mut object = get(&registry, &target).await.unwrap();
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(7), &json!(3)));

    object["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
    let refused = registry.update(&target, bytes(&object), WriteParams::default()).await.unwrap_err();
    let message =
        "foos.ex.io \"t\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(refused.message, message);
    let refused = merge(&registry, &status, json!({"status": {"replicas": "x"}})).await.unwrap_err();
    let message = "Foo.ex.io \"t\" is invalid: [status.replicas: Invalid value: \"string\": replicas in body must be of type \
                   integer: \"string\", .status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the \
                   type string, expected int64]";
    assert_eq!(refused.message, message);
}

#[tokio::test]
async fn object_is_readable_in_every_version() {
    let registry = with_foos().await;
    let beta = collection(&registry, "ex.io", "v1beta1", "foos").unwrap();
    let body = json!({"apiVersion": "ex.io/v1beta1", "kind": "Foo", "metadata": {"name": "t"}, "spec": {"size": 1}});
    let written = registry.create(&beta, bytes(&body), WriteParams::default()).await.unwrap();
    assert_eq!(beta.resource.deprecation.as_deref(), Some("ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo"));
    assert_eq!(value(written)["apiVersion"], "ex.io/v1beta1");
    assert_eq!(get(&registry, &one(&registry, "v1", "t")).await.unwrap()["apiVersion"], "ex.io/v1");
    let seen = get(&registry, &one(&registry, "v1beta1", "t")).await.unwrap();
    assert_eq!((&seen["apiVersion"], &seen["spec"]["color"]), (&json!("ex.io/v1beta1"), &json!("red")));
}

#[tokio::test]
async fn changed_schema_applies_to_existing_objects() {
    let registry = with_foos().await;
    let foos_target = collection(&registry, "ex.io", "v1", "foos").unwrap();
    create(&registry, &foos_target, &foo(&json!({"size": 3}))).await.unwrap();
    let mut changed = foos();
    for version in changed["spec"]["versions"].as_array_mut().unwrap() {
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        spec["shape"] = json!({"type": "string", "default": "round"});
        spec.as_object_mut().unwrap().shift_remove("color");
        // Selectable fields must be in the schema.
        version.as_object_mut().unwrap().shift_remove("selectableFields");
    }
    merge(&registry, &definition_named(&registry, "foos.ex.io"), json!({"spec": changed["spec"]})).await.unwrap();
    let spec = until("the new default", async || {
        let object = get(&registry, &one(&registry, "v1", "t")).await.unwrap();
        (object["spec"]["shape"] == "round").then(|| object["spec"].clone())
    })
    .await;
    assert_eq!(spec, json!({"nested": {"a": "x"}, "shape": "round", "size": 3}));
}

#[tokio::test]
async fn deleted_crd_deletes_its_objects() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let mut object = foo(&json!({"size": 1}));
    create(&registry, &foos, &object).await.unwrap();
    object["metadata"] = json!({"name": "held", "finalizers": ["a.b/c"]});
    create(&registry, &foos, &object).await.unwrap();

    let definition = definition_named(&registry, "foos.ex.io");
    let deleted = registry.delete(&definition, DeleteParams::default()).await.unwrap();
    let ResponseBody::Object(item) = deleted.answer else { panic!("the object is the answer") };
    let deleted = item.value();
    assert_eq!(deleted["metadata"]["finalizers"], json!([crate::apiextensions::crd::FINALIZER]));
    assert_eq!(deleted["metadata"]["generation"], 1);
    assert!(deleted["metadata"].get("deletionGracePeriodSeconds").is_none());
    let last = deleted.items(&["status", "conditions"]).last().unwrap();
    assert_eq!((&last["type"], &last["reason"]), (&json!("Terminating"), &json!("InstanceDeletionPending")));

    until("the deletion of objects", async || {
        let left = registry.list(&foos, ListParams::default()).await.unwrap().items.len();
        let definition = get(&registry, &definition).await.unwrap();
        (left == 1 && definition.to_string().contains("InstanceDeletionInProgress")).then_some(())
    })
    .await;
    object["metadata"] = json!({"name": "late"});
    let late = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let refused = create(&registry, &late, &object).await.unwrap_err();
    assert_eq!(
        refused.message,
        "foos.ex.io \"late\" is forbidden: create not allowed while custom resource definition is terminating"
    );

    merge(&registry, &one(&registry, "v1", "held"), json!({"metadata": {"finalizers": null}})).await.unwrap();
    until("the end of the definition", async || {
        let gone = get(&registry, &definition).await.is_err_and(|status| status.is_not_found());
        (gone && collection(&registry, "ex.io", "v1", "foos").is_none()).then_some(())
    })
    .await;
    let request = discovery::Request { path: "/apis/ex.io", ..discovery::Request::default() };
    assert!(discovery::answer(&registry.resources(), &request).is_none());
}

#[tokio::test]
async fn conflicting_names_are_accepted_once_they_are_free() {
    let registry = with_foos().await;
    let mut second = foos();
    second["metadata"]["name"] = "fooz.ex.io".into();
    second["spec"]["names"] = json!({"plural": "fooz", "kind": "Foo", "singular": "foo2", "listKind": "FoozList"});
    create(&registry, &definitions(&registry), &second).await.unwrap();
    let target = definition_named(&registry, "fooz.ex.io");
    let status = until("a verdict", async || {
        let object = get(&registry, &target).await.unwrap();
        object["status"]["conditions"].is_array().then(|| object["status"].clone())
    })
    .await;
    let shown = status["conditions"].as_array().unwrap().iter();
    let shown = shown.map(|c| (c.text(&["reason"]), c.text(&["message"]))).collect::<Vec<_>>();
    assert_eq!(shown, [("KindConflict", "\"Foo\" is already in use"), ("NotAccepted", "not all names are accepted")]);
    assert_eq!(
        status["acceptedNames"],
        json!({"plural": "fooz", "singular": "foo2", "kind": "", "listKind": "FoozList"})
    );
    assert!(collection(&registry, "ex.io", "v1", "fooz").is_none());

    registry.delete(&definition_named(&registry, "foos.ex.io"), DeleteParams::default()).await.unwrap();
    established(&registry, "fooz.ex.io").await;
    assert!(collection(&registry, "ex.io", "v1", "fooz").is_some());
}

#[tokio::test]
async fn changed_crd_ends_watches_of_its_objects() {
    let registry = with_foos().await;
    let foos = collection(&registry, "ex.io", "v1", "foos").unwrap();
    let mut watch = registry.watch(&foos, WatchParams::default()).await.unwrap();
    let definition = definition_named(&registry, "foos.ex.io");
    merge(&registry, &definition, json!({"spec": {"names": {"shortNames": ["foe"]}}})).await.unwrap();
    let end = async { while watch.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("the watch ends");
    assert_eq!(registry.resources().get("ex.io", "v1", "foos").unwrap().short_names, ["foe"]);
}

#[tokio::test]
async fn established_crd_is_served_right_after_a_restart() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let first = registry_over(Arc::clone(&storage)).await;
    create(&first, &definitions(&first), &foos()).await.unwrap();
    established(&first, "foos.ex.io").await;
    drop(first);
    let second = registry_over(storage).await;
    let foos = collection(&second, "ex.io", "v1", "foos").expect("served without delay");
    create(&second, &foos, &foo(&json!({"size": 1}))).await.unwrap();
}

#[tokio::test]
async fn invalid_crds_have_the_messages_of_kube_apiserver() {
    let registry = registry().await;
    let target = definitions(&registry);
    let plain = || {
        let mut definition = foos();
        definition["spec"]["versions"] =
            json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
        definition
    };
    let schema = |property: Value| {
        let mut definition = plain();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"a": property});
        definition
    };
    let with = |path: &str, value: Value| {
        let mut definition = plain();
        *definition.pointer_mut(path).unwrap() = value;
        definition
    };
    let a = "spec.validation.openAPIV3Schema.properties[a]";
    for (definition, complaint) in [
        (
            with("/metadata/name", json!("x.ex.io")),
            "metadata.name: Invalid value: \"x.ex.io\": must be spec.names.plural+\".\"+spec.group".to_owned(),
        ),
        (
            with("/spec/scope", json!("Foo")),
            "spec.scope: Unsupported value: \"Foo\": supported values: \"Cluster\", \"Namespaced\"".to_owned(),
        ),
        (
            with("/spec/versions/0/schema", json!({})),
            "spec.versions[0].schema.openAPIV3Schema: Required value".to_owned(),
        ),
        (
            with("/spec/versions/0/storage", json!(false)),
            "[spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":false,\
             \"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\
             \"SelectableFields\":null}]: must have exactly one version marked as storage version, status.storedVersions: \
             Invalid value: null: must have at least one stored version]"
                .to_owned(),
        ),
        (
            with("/spec/versions/0/schema/openAPIV3Schema", json!({"type": "string"})),
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root".to_owned(),
        ),
        (schema(json!({})), format!("{a}.type: Required value: must not be empty for specified object fields")),
        (schema(json!({"type": "array"})), format!("{a}.items: Required value: must be specified")),
        (
            schema(json!({"type": "foo"})),
            format!(
                "{a}.type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \
                 \"object\", \"string\""
            ),
        ),
        (
            schema(json!({"type": "integer", "default": "x"})),
            format!("{a}.default: Invalid value: \"string\":  in body must be of type integer: \"string\""),
        ),
        (
            schema(json!({"type": "object", "default": {"x": 1}})),
            format!("{a}.default: Invalid value: {{\"x\":1}}: must not have unknown fields"),
        ),
        (
            schema(json!({"anyOf": [{"type": "string"}]})),
            format!(
                "[{a}.anyOf[0].type: Forbidden: must be empty to be structural, {a}.type: Required value: must not be empty \
                 for specified object fields]"
            ),
        ),
        (
            schema(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}})),
            format!(
                "{a}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must \
                 have a default or be a required property"
            ),
        ),
    ] {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let status = create(&registry, &target, &definition).await.unwrap_err();
        let expected = format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {complaint}");
        assert_eq!(status.message, expected);
    }
    create(&registry, &target, &schema(json!({"type": "string"}))).await.unwrap();
}

#[tokio::test]
async fn scope_and_kind_of_an_established_crd_are_immutable() {
    let registry = with_foos().await;
    let target = definition_named(&registry, "foos.ex.io");
    for (patch, path, shown) in [
        (json!({"spec": {"scope": "Cluster"}}), "spec.scope", "\"Cluster\""),
        (json!({"spec": {"names": {"kind": "Fooz"}}}), "spec.names.kind", "\"Fooz\""),
    ] {
        let status = merge(&registry, &target, patch).await.unwrap_err();
        let expected = format!(
            "CustomResourceDefinition.apiextensions.k8s.io \"foos.ex.io\" is invalid: {path}: Invalid value: {shown}: field \
             is immutable"
        );
        assert_eq!(status.message, expected);
    }
    let v2 = json!({"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let mut versions = foos()["spec"]["versions"].clone();
    versions[0]["storage"] = false.into();
    versions.as_array_mut().unwrap().push(v2.clone());
    let changed = merge(&registry, &target, json!({"spec": {"versions": versions}})).await.unwrap();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    let refused = merge(&registry, &target, json!({"spec": {"versions": [v2]}})).await.unwrap_err();
    assert!(
        refused.message.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{refused:?}"
    );
}
