//! What says how many pods there may be, or have to be.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod, policy::v1::PodDisruptionBudget,
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

/// Evicts the first pod, as soon as that is allowed, and then tries the second for a while.
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
        .step("two pods, one of which has to stay", |client| async move {
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
        .step("all are evicted that may be", |client| async move { evict_all_that_may_go(&client).await })
        .always("one pod stays, once there are two", |state| {
            state.get::<PodDisruptionBudget>("web").is_none() || !state.all::<Pod>().is_empty()
        })
        .settled("nobody else may go", |state| {
            let status = state.get::<PodDisruptionBudget>("web").and_then(|budget| budget.status);
            state.all::<Pod>().len() == 1
                && status.is_some_and(|status| {
                    (status.current_healthy, status.disruptions_allowed) == (Some(1), Some(0))
                        && status.disrupted_pods.is_none_or(|pods| pods.is_empty())
                })
        });
    explore(scenario).assert();
}

/// What is measured in a scenario: every run of it begins with this, and nothing changes it.
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
        .step("ten replicas, and work for seven", |client| async move {
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
        // One whose answer was lost has scaled, and does not know when.
        .ignoring_field::<HorizontalPodAutoscaler>("/status/lastScaleTime")
        .always("there is never less than is needed", |state| {
            let deployment = state.get::<Deployment>("web");
            deployment.is_none_or(|deployment| deployment.spec.unwrap().replicas >= Some(7))
        })
        .settled("there is as much as is needed, which is told", |state| {
            let status = state.get::<HorizontalPodAutoscaler>("web").and_then(|autoscaler| autoscaler.status);
            status.is_some_and(|status| (status.current_replicas, status.desired_replicas) == (Some(7), 7))
        });
    explore(scenario).assert();
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
    // Four processors' work, of which each pod is to do half of the one that it requests.
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
    // So it stays.
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
