use serde_json::{Value, json};

use super::*;
use crate::autoscaler::metrics::Sample;

const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that requests 100m CPU and 100 bytes of memory.
fn pod(name: &str, phase: &str, more: Value) -> Arc<Pod> {
    let requests = json!({"requests": {"cpu": "100m", "memory": "100"}});
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": requests}]},
        "status": {
            "phase": phase, "startTime": at(0).to_string(),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(10).to_string()}],
        },
    });
    for (pointer, value) in more.as_object().into_iter().flatten() {
        *pod.pointer_mut(pointer).unwrap() = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn running(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|index| pod(&format!("p{index}"), "Running", json!({}))).collect()
}

/// Usage of pods in thousandths; `None` is a pod without metrics.
fn samples(amounts: &[Option<i64>]) -> Samples {
    let known = amounts.iter().enumerate().filter_map(|(index, amount)| Some((index, (*amount)?)));
    known
        .map(|(index, amount)| {
            let value = windlass_api::Quantity::milli(amount, windlass_api::QuantityFormat::DecimalSi);
            (format!("p{index}"), Sample { value, at: at(NOW), window: Duration::from_mins(1) })
        })
        .collect()
}

fn measured(pods: &[Arc<Pod>], current: i32) -> Measured<'_> {
    let readiness = Readiness { initialization: Duration::from_mins(5), delay: Duration::from_secs(30), now: at(NOW) };
    Measured { pods, readiness, tolerances: Tolerances { down: 0.1, up: 0.1 }, current }
}

fn utilization(pods: &[Arc<Pod>], amounts: &[Option<i64>], target: i32) -> Utilization {
    let current = i32::try_from(pods.len()).unwrap();
    measured(pods, current).by_utilization(&samples(amounts), "cpu", None, target).unwrap()
}

#[test]
fn utilization_is_relative_to_requests() {
    // The usage of each of three pods of its 100m, the target in percent, and the outcome.
    for (used, target, replicas, percent) in [
        ([90, 90, 90], 30, 9, 90),
        ([90, 90, 90], 90, 3, 90),
        ([98, 98, 98], 90, 3, 98),
        ([100, 100, 100], 90, 4, 100),
        ([10, 20, 30], 50, 2, 20),
        ([300, 0, 0], 50, 6, 100),
        ([0, 0, 0], 50, 0, 0),
    ] {
        let found = utilization(&running(3), &used.map(Some), target);
        assert_eq!((found.replicas, found.percent), (replicas, percent), "{used:?} of {target}");
        assert_eq!(found.average, used.iter().sum::<i64>() / 3);
    }
}

#[test]
fn pods_without_metrics_limit_scaling() {
    let of = |amounts: [Option<i64>; 4], target| utilization(&running(4), &amounts, target).replicas;
    // When scaling up, pods without metrics count as idle …
    assert_eq!(of([Some(200), Some(200), Some(200), Some(200)], 50), 16);
    assert_eq!(of([Some(200), Some(200), Some(200), None], 50), 12);
    assert_eq!(of([Some(60), Some(60), None, None], 50), 4, "it would turn, so that nothing is done");
    // … when scaling down, as using their full request, or the target if that is more.
    assert_eq!(of([Some(10), Some(10), Some(10), Some(10)], 50), 1);
    assert_eq!(of([Some(10), Some(10), Some(10), None], 50), 3);
    assert_eq!(of([Some(10), Some(10), None, None], 50), 4);
    assert_eq!(of([Some(10), Some(10), Some(10), None], 200), 2);
    // At the target, they are ignored.
    assert_eq!(of([Some(50), Some(50), Some(50), None], 50), 4);
}

#[test]
fn unready_pods_count_as_idle_up_and_are_ignored_down() {
    let unready =
        json!({"/status/conditions/0/status": "False", "/status/conditions/0/lastTransitionTime": at(10).to_string()});
    let with = |odd: Arc<Pod>, used: i64| {
        let pods = [running(2), vec![odd]].concat();
        utilization(&pods, &[Some(used), Some(used), Some(1000)], 50).replicas
    };
    // It became unready within 30 seconds of its start, so it was never ready.
    assert_eq!((with(pod("p2", "Running", unready.clone()), 200), with(pod("p2", "Running", unready), 10)), (8, 1));
    assert_eq!((with(pod("p2", "Pending", json!({})), 200), with(pod("p2", "Pending", json!({})), 10)), (8, 1));
    // It became unready later, so its usage counts.
    let later =
        json!({"/status/conditions/0/status": "False", "/status/conditions/0/lastTransitionTime": at(100).to_string()});
    assert_eq!(with(pod("p2", "Running", later), 10), 21);
    // A failed or terminating pod is ignored.
    assert_eq!((with(pod("p2", "Failed", json!({})), 200), with(pod("p2", "Failed", json!({})), 10)), (8, 1));
}

#[test]
fn processor_time_of_the_start_does_not_count() {
    let started = |measured_from: i64| {
        json!({
            "/status/startTime": at(NOW - 200).to_string(),
            "/status/conditions/0/lastTransitionTime": at(measured_from).to_string(),
        })
    };
    let of = |measured_from: i64| {
        let pods = [running(1), vec![pod("p1", "Running", started(measured_from))]].concat();
        utilization(&pods, &[Some(50), Some(500)], 50).percent
    };
    // Ready for longer than the measured window, and for less.
    assert_eq!((of(NOW - 60), of(NOW - 59)), (275, 50));
    // Memory counts from the start.
    let pods = [running(1), vec![pod("p1", "Running", started(NOW))]].concat();
    let memory = measured(&pods, 2).by_utilization(&samples(&[Some(50_000), Some(150_000)]), "memory", None, 50);
    assert_eq!(memory.unwrap(), Utilization { replicas: 4, percent: 100, average: 100_000 });
}

#[test]
fn an_amount_for_each_pod_is_an_average() {
    let of = |amounts: &[Option<i64>], target| {
        measured(&running(amounts.len()), 3).by_usage(&samples(amounts), false, target).unwrap()
    };
    assert_eq!(of(&[Some(20), Some(10), Some(30)], 15), Usage { replicas: 4, amount: 20 });
    assert_eq!(of(&[Some(20), Some(10), Some(30)], 19), Usage { replicas: 3, amount: 20 });
    assert_eq!(of(&[Some(20), None, Some(40)], 15), Usage { replicas: 4, amount: 30 });
    assert_eq!(of(&[Some(5), None, Some(5)], 15), Usage { replicas: 2, amount: 5 });
}

#[test]
fn shared_metric_scales_the_ready_pods() {
    let pods = [running(3), vec![pod("p3", "Pending", json!({}))]].concat();
    let of = |current, amount, target| measured(&pods, current).by_total(amount, target).unwrap().replicas;
    assert_eq!([of(4, 40, 20), of(4, 21, 20), of(4, 10, 20)], [6, 4, 2]);
    assert_eq!(of(0, 50, 20), 3, "from nothing, pods do not count");
    assert!(matches!(measured(&[], 4).by_total(40, 20), Err(MetricUnavailable::NoReadyPods)));
}

#[test]
fn a_share_for_each_pod_is_a_quotient() {
    let of = |amount, existing| by_share(amount, 1000, existing, Tolerances { down: 0.1, up: 0.1 });
    assert_eq!(of(8_600, 5), Usage { replicas: 9, amount: 1720 });
    assert_eq!(of(4_600, 5), Usage { replicas: 5, amount: 920 }, "near enough");
    assert_eq!(of(i64::MAX, 5), Usage { replicas: i32::MAX, amount: i64::MAX });
}

#[test]
fn incomputable_replicas_are_an_error() {
    let said = |pods: &[Arc<Pod>], amounts: &[Option<i64>], resource: &str, container: Option<&str>| {
        measured(pods, 1).by_utilization(&samples(amounts), resource, container, 50).unwrap_err().to_string()
    };
    assert_eq!(said(&[], &[Some(1)], "cpu", None), "no pods returned by selector while calculating replica count");
    let none = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(said(&[pod("p0", "Pending", json!({}))], &[Some(1)], "cpu", None), none);
    assert_eq!(said(&running(1), &[Some(1)], "disk", None), "missing request for disk in container c of Pod p0");
    assert_eq!(said(&running(1), &[Some(1)], "cpu", Some("d")), "container d not found in Pod p0");
    let free = pod("p0", "Running", json!({"/spec/containers/0/resources/requests/cpu": "0"}));
    assert_eq!(said(&[free], &[Some(1)], "cpu", None), "no metrics returned matched known pods");
}
