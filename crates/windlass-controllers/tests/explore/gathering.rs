//! Explorations of the controllers that collect data from other objects (endpoints, roles, accounts) or protect objects
//! in use.

use std::time::Duration;

use k8s_openapi::{
    api::{
        core::v1::{
            ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
            ServiceAccount,
        },
        discovery::v1::EndpointSlice,
        rbac::v1::ClusterRole,
        storage::v1::VolumeAttributesClass,
    },
    serde_json::{Value, json},
};
use windlass_api::{ObjectBuilder as _, ObjectExt as _, ObjectRef, Patch};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::explore::{Scenario, StepResult, explore};

use tokio::time::{Instant, sleep};

use crate::{LOOK, PATIENCE, create, of};

fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "spec": spec})
}

async fn ready_pod(client: &Client, name: &str, address: &str) -> StepResult {
    let spec = json!({"containers": [{"name": "web", "image": "web"}], "nodeName": "node"});
    create::<Pod>(client, pod(name, spec)).await?;
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    client.patch::<Pod>(name, Patch::Merge(status)).subresource("status").await?;
    Ok(())
}

fn service_scenario(controller: BuiltIn) -> Scenario {
    of(controller)
        .step("a service with a pod", |client| async move {
            // A fixed address, not one chosen by the server.
            let spec = json!({"clusterIP": "10.0.0.77", "selector": {"app": "web"}, "ports": [{"port": 80}]});
            create::<Service>(&client, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
                .await?;
            ready_pod(&client, "web-0", "10.1.0.1").await
        })
        .step("another pod", |client| async move { ready_pod(&client, "web-1", "10.1.0.2").await })
        .step("the first is deleted", |client| async move {
            client.delete::<Pod>("web-0").grace_period(std::time::Duration::ZERO).await?;
            Ok(())
        })
}

#[test]
fn endpoint_slices() {
    let scenario = service_scenario(BuiltIn::EndpointSlice)
        // A service that seems to have no pods gets a slice without ports, which is not reused for one with ports. A
        // recreated slice has no trigger time.
        .may_churn::<EndpointSlice>()
        .ignoring_field::<EndpointSlice>("/metadata/annotations")
        .settled("one address is left", |state| {
            let slices: Vec<EndpointSlice> = state.all();
            slices.iter().filter(|slice| slice.name().starts_with("web")).flat_map(|slice| &slice.endpoints).count()
                == 1
        });
    explore(scenario).assert();
}

#[test]
fn endpoints() {
    let scenario = service_scenario(BuiltIn::Endpoints).settled("one address is left", |state| {
        let subsets = state.get::<Endpoints>("web").and_then(|endpoints| endpoints.subsets).unwrap_or_default();
        subsets.iter().flat_map(|subset| subset.addresses.iter().flatten()).count() == 1
    });
    explore(scenario).assert();
}

#[test]
fn service_accounts() {
    let scenario = Scenario::new("serviceaccount")
        .controller(|manager| Controllers::of([BuiltIn::ServiceAccount]).root_ca("PEM").add_to(manager))
        .step("a namespace", |client| async move {
            client.create(&Namespace::named("shop")).await?;
            Ok(())
        })
        .step("both are deleted", |client| async move {
            client.delete::<ServiceAccount>(ObjectRef::<ServiceAccount>::new("default").within("shop")).await?;
            client.delete::<ConfigMap>(ObjectRef::<ConfigMap>::new("kube-root-ca.crt").within("shop")).await?;
            Ok(())
        })
        .step("the certificate is changed", |client| async move {
            let other = Patch::Merge(json!({"data": {"ca.crt": "another"}}));
            client.patch::<ConfigMap>(ObjectRef::<ConfigMap>::new("kube-root-ca.crt").within("shop"), other).await?;
            Ok(())
        })
        .settled("both exist with the right content", |state| {
            let ca = state.get::<ConfigMap>("shop/kube-root-ca.crt").and_then(|config| config.data);
            ca.is_some_and(|ca| ca["ca.crt"] == "PEM") && state.get::<ServiceAccount>("shop/default").is_some()
        });
    explore(scenario).assert();
}

#[test]
fn aggregated_roles() {
    let part = |name: &'static str, verb: &'static str| {
        json!({
            "metadata": {"name": name, "labels": {"part-of": "shop"}},
            "rules": [{"apiGroups": ["shop"], "resources": ["orders"], "verbs": [verb]}],
        })
    };
    let scenario = of(BuiltIn::RoleAggregation)
        .step("an aggregated role", move |client| async move {
            create::<ClusterRole>(&client, part("read", "get")).await?;
            let selector = json!([{"matchLabels": {"part-of": "shop"}}]);
            let whole = json!({"metadata": {"name": "shop"}, "aggregationRule": {"clusterRoleSelectors": selector}, "rules": []});
            create::<ClusterRole>(&client, whole).await
        })
        .step("another role", move |client| async move { create::<ClusterRole>(&client, part("write", "update")).await })
        .step("the first selected role is deleted", |client| async move {
            client.delete::<ClusterRole>("read").await?;
            Ok(())
        })
        .settled("it has the rules of the selected roles", |state| {
            state.get::<ClusterRole>("shop").and_then(|role| role.rules).is_some_and(|rules| rules.len() == 1)
        });
    explore(scenario).assert();
}

#[test]
fn claims_in_use() {
    let scenario = of(BuiltIn::StorageProtection)
        .step("a claim and its pod", |client| async move {
            let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            create::<PersistentVolumeClaim>(
                &client,
                json!({"metadata": {"name": "data", "namespace": "default"}, "spec": spec}),
            )
            .await?;
            let spec = json!({
                "nodeName": "node-0", "containers": [{"name": "db", "image": "db"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            });
            create::<Pod>(&client, pod("db", spec)).await
        })
        .step("the claim is deleted", |client| async move {
            client.delete::<PersistentVolumeClaim>("data").await?;
            Ok(())
        })
        .step("the pod is deleted", |client| async move {
            client.delete::<Pod>("db").grace_period(Duration::ZERO).await?;
            Ok(())
        })
        .always("a claim in use exists", |state| {
            state.get::<Pod>("db").is_none() || state.get::<PersistentVolumeClaim>("data").is_some()
        })
        .settled("the claim is gone", |state| state.get::<PersistentVolumeClaim>("data").is_none());
    explore(scenario).assert();
}

#[test]
fn mirrored_endpoints() {
    let subsets = |address: &str| json!([{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]);
    let scenario = of(BuiltIn::EndpointSliceMirroring)
        // A recreated slice has another name.
        .may_churn::<EndpointSlice>()
        .step("a service without a selector, and its addresses", move |client| async move {
            let spec = json!({"clusterIP": "10.0.0.78", "ports": [{"port": 80}]});
            create::<Service>(&client, json!({"metadata": {"name": "db", "namespace": "default"}, "spec": spec}))
                .await?;
            let metadata = json!({"name": "db", "namespace": "default"});
            create::<Endpoints>(&client, json!({"metadata": metadata, "subsets": subsets("192.0.2.1")})).await
        })
        .step("another address", move |client| async move {
            client.patch::<Endpoints>("db", Patch::Merge(json!({"subsets": subsets("192.0.2.2")}))).await?;
            Ok(())
        })
        .settled("one slice has the address", |state| {
            let slices: Vec<EndpointSlice> = state.all();
            let mirrored: Vec<_> = slices.iter().filter(|slice| slice.name().starts_with("db-")).collect();
            let addresses = mirrored.iter().flat_map(|slice| slice.endpoints.iter().flatten());
            mirrored.len() == 1 && addresses.flat_map(|endpoint| &endpoint.addresses).eq(["192.0.2.2"])
        });
    explore(scenario).assert();
}

#[test]
fn classes_of_volume_attributes_in_use() {
    let scenario = of(BuiltIn::StorageProtection)
        .step("a class and its claim", |client| async move {
            let class = json!({"metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"iops": "9"}});
            create::<VolumeAttributesClass>(&client, class).await?;
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "volumeAttributesClassName": "gold",
            });
            create::<PersistentVolumeClaim>(
                &client,
                json!({"metadata": {"name": "data", "namespace": "default"}, "spec": spec}),
            )
            .await?;
            // Wait until the controller has added its finalizer.
            let begun = Instant::now();
            while client.get::<VolumeAttributesClass>("gold").await?.finalizers().is_empty() {
                if begun.elapsed() > PATIENCE {
                    return Err("the class gets no finalizer".into());
                }
                sleep(LOOK).await;
            }
            client.delete::<VolumeAttributesClass>("gold").await?;
            Ok(())
        })
        .step("the claim is deleted", |client| async move {
            client.delete::<PersistentVolumeClaim>("data").await?;
            Ok(())
        })
        .always("a class in use exists", |state| {
            state.get::<PersistentVolumeClaim>("data").is_none() || state.get::<VolumeAttributesClass>("gold").is_some()
        })
        .settled("the class is gone", |state| state.get::<VolumeAttributesClass>("gold").is_none());
    explore(scenario).assert();
}

#[test]
fn volumes_in_use() {
    async fn become_phase(client: &Client, phase: &str) -> StepResult {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        client.patch::<PersistentVolume>("disk", status).subresource("status").await?;
        Ok(())
    }
    let scenario = of(BuiltIn::StorageProtection)
        .step("a bound volume", |client| async move {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
            });
            create::<PersistentVolume>(&client, json!({"metadata": {"name": "disk"}, "spec": spec})).await?;
            become_phase(&client, "Bound").await
        })
        .step("it is deleted", |client| async move {
            client.delete::<PersistentVolume>("disk").await?;
            Ok(())
        })
        // This step fails if the volume is already gone.
        .step("its claim is gone", |client| async move { become_phase(&client, "Released").await })
        .settled("it is gone", |state| state.get::<PersistentVolume>("disk").is_none());
    explore(scenario).assert();
}

#[test]
fn node_lifecycle() {
    // The node sends no heartbeats, and its conditions are not what is explored.
    let hour = Duration::from_hours(1);
    let controllers = move || Controllers::of([BuiltIn::NodeLifecycle]).node_monitor_grace_period(hour);
    let scenario = Scenario::new("nodelifecycle")
        .controller(move |manager| controllers().add_to(manager))
        .step("a node", |client| async move {
            client.create(&Node::named("node")).await?;
            Ok(())
        })
        .step("its annotations are removed", |client| async move {
            let none = Patch::Merge(json!({"metadata": {"annotations": null}}));
            client.patch::<Node>("node", none).await?;
            Ok(())
        })
        .settled("the node has its annotation", |state| {
            state.get::<Node>("node").is_some_and(|node| !node.annotations().is_empty())
        });
    explore(scenario).assert();
}

#[test]
fn simulated_nodes() {
    let scenario = Scenario::new("nodes")
        .controller(|manager| Controllers::of([BuiltIn::Nodes]).nodes(2).add_to(manager))
        .step("a pod", |client| async move {
            create::<Pod>(&client, pod("web", json!({"containers": [{"name": "web", "image": "web"}]}))).await
        })
        .step("it is deleted", |client| async move {
            client.delete::<Pod>("web").await?;
            Ok(())
        })
        .ignoring::<Node>()
        .ignoring_field::<Pod>("/spec/nodeName")
        .settled("it is gone", |state| state.get::<Pod>("web").is_none());
    explore(scenario).assert();
}
