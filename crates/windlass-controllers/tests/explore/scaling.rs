//! Explorations of the controllers that limit or set the number of pods.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
        core::v1::Pod,
        policy::v1::PodDisruptionBudget,
    },
    serde_json::{Value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{Clock, ObjectRef, Patch};
use windlass_client::Client;
use windlass_controllers::{Autoscaling, BuiltIn, Controllers, MemoryMetrics};
use windlass_envtest::{
    Environment,
    explore::{Scenario, StepResult, explore},
};

use crate::{LOOK, PATIENCE, create, of, pods_become};

/// Evicts the first pod as soon as that is allowed, and then tries to evict the second for a while.
async fn evict_all_that_may_go(client: &Client) -> StepResult {
    for (name, patience) in [("a", PATIENCE), ("b", Duration::from_secs(10))] {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match client.resources::<Pod>().evict(ObjectRef::new(name).within("default")).await {
                Ok(_) => break,
                Err(error) if error.is_too_many_requests() || error.is_conflict() => sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

#[test]
fn disruption_budgets() {
    let scenario = of(BuiltIn::Disruption)
        .step("two pods, one of which must stay", |client| async move {
            for name in ["a", "b"] {
                let metadata = json!({"name": name, "namespace": "default", "labels": {"app": "web"}});
                let spec = json!({"containers": [{"name": "web", "image": "web"}]});
                create::<Pod>(&client, json!({"metadata": metadata, "spec": spec})).await?;
            }
            let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
            create::<PodDisruptionBudget>(
                &client,
                json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
            )
            .await
        })
        .step("both are ready", |client| async move { pods_become(&client, 2, "Running").await })
        .step("the allowed eviction happens", |client| async move { evict_all_that_may_go(&client).await })
        .always("one pod stays, once there are two", |state| {
            state.get::<PodDisruptionBudget>("web").is_none() || !state.all::<Pod>().is_empty()
        })
        .settled("no further eviction is allowed", |state| {
            let status = state.get::<PodDisruptionBudget>("web").and_then(|budget| budget.status);
            state.all::<Pod>().len() == 1
                && status.is_some_and(|status| {
                    (status.current_healthy, status.disruptions_allowed) == (Some(1), Some(0))
                        && status.disrupted_pods.is_none_or(|pods| pods.is_empty())
                })
        });
    explore(scenario).assert();
}

#[tokio::test(start_paused = true)]
async fn stale_disruption_condition_is_removed() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    Controllers::of([BuiltIn::Disruption]).add_to(&mut manager);
    env.run(manager);
    let client = env.client();
    let spec = json!({"containers": [{"name": "web", "image": "web"}]});
    create::<Pod>(&client, json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec})).await.unwrap();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    });
    let status = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [condition]}}));
    client.patch::<Pod>("a", status).subresource("status").await.unwrap();
    let pod = env
        .eventually::<Pod>("a", |pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "False")
        })
        .await;
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert_eq!((conditions.len(), conditions[0].reason.as_deref()), (1, None));
    env.stop().await.unwrap();
}

/// Returns the metrics of a scenario: every run starts with this value, and nothing changes it.
fn orders(amount: &str) -> Autoscaling {
    let metrics = MemoryMetrics::new(Clock::from_fn(|| jiff::Timestamp::UNIX_EPOCH));
    metrics.set_external("default", "orders", [], amount.parse().unwrap());
    Autoscaling::default().metrics(Arc::new(metrics))
}

async fn create_deployment(client: &Client, replicas: i32) -> StepResult {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}]},
    });
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    create::<Deployment>(client, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})).await
}

async fn create_autoscaler(client: &Client, metric: Value, more: Value) -> StepResult {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": [metric]});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    create::<HorizontalPodAutoscaler>(
        client,
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}),
    )
    .await
}

fn ten_orders_each() -> Value {
    json!({
        "type": "External",
        "external": {"metric": {"name": "orders"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    })
}

async fn set_existing(client: &Client, replicas: i32) -> StepResult {
    let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
    client.patch::<Deployment>("web", status).subresource("status").await?;
    Ok(())
}

#[test]
fn autoscalers() {
    let scenario = Scenario::new("horizontalpodautoscaling")
        .controller(|manager| {
            let controllers = Controllers::of([BuiltIn::HorizontalPodAutoscaling]);
            controllers.autoscaling(orders("70")).add_to(manager);
        })
        .step("ten replicas, and a load for seven", |client| async move {
            create_deployment(&client, 10).await?;
            set_existing(&client, 10).await?;
            let behavior = json!({"behavior": {
                "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]},
            }});
            create_autoscaler(&client, ten_orders_each(), behavior).await
        })
        .step("seven of them are left", |client| async move {
            let begun = Instant::now();
            while client.get_scale::<Deployment>("web").within("default").await?.spec.and_then(|spec| spec.replicas)
                != Some(7)
            {
                if begun.elapsed() > PATIENCE {
                    return Err("it does not shrink".into());
                }
                sleep(LOOK).await;
            }
            set_existing(&client, 7).await
        })
        // If the response to the scaling is lost, the time of the scaling is unknown.
        .ignoring_field::<HorizontalPodAutoscaler>("/status/lastScaleTime")
        .always("there are never too few replicas", |state| {
            let deployment = state.get::<Deployment>("web");
            deployment.is_none_or(|deployment| deployment.spec.unwrap().replicas >= Some(7))
        })
        .settled("the replicas match the load, and the status shows it", |state| {
            let status = state.get::<HorizontalPodAutoscaler>("web").and_then(|autoscaler| autoscaler.status);
            status.is_some_and(|status| (status.current_replicas, status.desired_replicas) == (Some(7), 7))
        });
    explore(scenario).assert();
}

/// Waits until the condition holds of the status.
async fn until(client: &Client, what: &str, holds: impl Fn(&HorizontalPodAutoscalerStatus) -> bool) {
    let begun = Instant::now();
    loop {
        let status = client.get::<HorizontalPodAutoscaler>("web").await.unwrap().status.unwrap_or_default();
        if holds(&status) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE * 4, "{what}: {status:?}");
        sleep(LOOK).await;
    }
}

#[tokio::test(start_paused = true)]
async fn object_and_pod_metrics_scale_and_overlap_is_reported() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    let metrics = MemoryMetrics::new(Clock::from_fn(|| jiff::Timestamp::UNIX_EPOCH));
    let controllers = [BuiltIn::HorizontalPodAutoscaling, BuiltIn::Deployment, BuiltIn::ReplicaSet, BuiltIn::Nodes];
    let autoscaling = Autoscaling::default().metrics(Arc::new(metrics.clone()));
    Controllers::of(controllers).nodes(1).autoscaling(autoscaling).add_to(&mut manager);
    env.run(manager);
    let client = env.client();

    // 70 requests at a target of 20, with two pods.
    metrics.set_of_object("default", "Service", "web", "requests", "70".parse().unwrap());
    create_deployment(&client, 2).await.unwrap();
    let object = json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "metric": {"name": "requests"}, "target": {"type": "Value", "value": "20"},
    }});
    sleep(LOOK * 5).await;
    create_autoscaler(&client, object, json!({})).await.unwrap();
    // First to four replicas at once, then as far as the ratio requires.
    until(&client, "it grows", |status| status.desired_replicas == 10).await;

    // All pods are idle: the target shrinks to the minimum after five minutes of stabilization.
    for pod in client.list::<Pod>().within("default").await.unwrap().items {
        metrics.set_of_pod("default", pod.metadata.name.as_deref().unwrap(), "busy", "1".parse().unwrap());
    }
    let busy = json!({"type": "Pods", "pods": {"metric": {"name": "busy"}, "target": {"type": "AverageValue", "averageValue": "10"}}});
    let patch = Patch::Merge(json!({"spec": {"metrics": [busy]}}));
    let begun = Instant::now();
    client.patch::<HorizontalPodAutoscaler>("web", patch).await.unwrap();
    until(&client, "it shrinks", |status| status.desired_replicas == 1).await;
    assert!(begun.elapsed() >= Duration::from_mins(4), "{:?}", begun.elapsed());

    let second = json!({
        "metadata": {"name": "other", "namespace": "default"},
        "spec": client.get::<HorizontalPodAutoscaler>("web").await.unwrap().spec,
    });
    create::<HorizontalPodAutoscaler>(&client, second).await.unwrap();
    until(&client, "its condition reports the other autoscaler", |status| {
        status.conditions.iter().flatten().any(|condition| {
            condition.reason.as_deref() == Some("AmbiguousSelector")
                && condition.message.as_deref()
                    == Some("pods by selector app=web are controlled by multiple HPAs: [{other default} {web default}]")
        })
    })
    .await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_that_share_work_become_as_many_as_it_takes() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    let controllers = [BuiltIn::HorizontalPodAutoscaling, BuiltIn::Deployment, BuiltIn::ReplicaSet, BuiltIn::Nodes];
    Controllers::of(controllers).nodes(1).add_to(&mut manager);
    env.run(manager);
    let client = env.client();
    create_deployment(&client, 1).await.unwrap();
    // A load of 4 CPUs. Each pod requests 1 CPU, and the target is 50 %.
    let load = json!({"spec": {"template": {"metadata": {"annotations": {"windlass.dev/load": "cpu=4"}}}}});
    client.patch::<Deployment>("web", Patch::Merge(load)).await.unwrap();
    let metric = json!({
        "type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    });
    create_autoscaler(&client, metric, json!({})).await.unwrap();
    let ready = async || {
        let status = client.get::<Deployment>("web").await.unwrap().status.unwrap_or_default();
        status.ready_replicas
    };
    let begun = Instant::now();
    while ready().await != Some(8) {
        assert!(begun.elapsed() < PATIENCE, "{:?} of eight are ready", ready().await);
        sleep(LOOK).await;
    }
    // The replica count stays stable.
    sleep(Duration::from_mins(10)).await;
    let autoscaler = client.get::<HorizontalPodAutoscaler>("web").await.unwrap();
    let status = autoscaler.status.unwrap();
    let conditions: Vec<_> =
        status.conditions.iter().flatten().map(|condition| condition.reason.as_deref().unwrap()).collect();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(8), 8));
    assert_eq!(conditions, ["ReadyForNewScale", "ValidMetricFound", "DesiredWithinRange"]);
    let current = status.current_metrics.unwrap().remove(0).resource.unwrap().current;
    assert_eq!(current.average_utilization, Some(50));
    env.stop().await.unwrap();
}
