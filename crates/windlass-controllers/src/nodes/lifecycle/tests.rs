use serde_json::{Value, json};

use super::{super::disk::Disk, *};

const PLACE: Place = Place { host_ip: Ipv4Addr::new(172, 18, 0, 2), pod_ip: Some(Ipv4Addr::new(10, 244, 0, 2)) };

fn pod(spec: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1},
        "spec": {"nodeName": "node-0", "restartPolicy": "Always", "containers": [{"name": "c", "image": "web:1"}]},
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

/// Returns the next step of a kubelet, after running the commands of the pod's containers.
fn next_step(pod: &Pod, place: Place, due: impl FnMut(Stage) -> bool, now: Timestamp) -> Step {
    let mut scripts = Scripts::default();
    scripts.run(pod, &mut Disk::default(), || 1);
    super::next_step(pod, place, &scripts, due, now)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Takes the next step, and returns the pod with the reported status.
fn reported(mut pod: Pod, second: i64) -> Pod {
    match next_step(&pod, PLACE, |_| true, at(second)) {
        Step::Report(status) => pod.status = Some(*status),
        other => panic!("{other:?}"),
    }
    pod
}

fn running(spec: &Value) -> Pod {
    reported(reported(pod(spec), 1), 2)
}

fn deleted(mut pod: Pod, grace: i64) -> Pod {
    pod.metadata.deletion_timestamp = Some(Time(at(100)));
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    pod
}

fn condition(pod: &Pod, type_: &str) -> String {
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    let since = found.last_transition_time.as_ref().map(|time| time.0.as_second());
    format!("{} {:?} {since:?}", found.status, found.reason.as_deref().unwrap_or_default())
}

fn state(pod: &Pod) -> Value {
    serde_json::to_value(pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].state.as_ref()).unwrap()
}

#[test]
fn pod_is_pending_then_running_then_idle() {
    let creating = reported(pod(&json!({})), 1);
    let status = creating.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(status.start_time, Some(Time(at(1))));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"), "what others have written stays");
    assert_eq!(status.pod_ip, None);
    assert_eq!(state(&creating), json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(condition(&creating, "Ready"), r#"False "ContainersNotReady" Some(1)"#);
    assert_eq!(condition(&creating, "PodScheduled"), r#"True "" None"#);

    assert_eq!(next_step(&creating, PLACE, |_| false, at(2)), Step::Wait(Stage::Start));
    let running = reported(creating, 2);
    let status = running.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.244.0.2"), Some("172.18.0.2")));
    assert_eq!(status.pod_ips.as_ref().unwrap()[0].ip, "10.244.0.2");
    assert_eq!(status.start_time, Some(Time(at(1))));
    assert_eq!(state(&running), json!({"running": {"startedAt": "1970-01-01T00:00:02Z"}}));
    assert_eq!(condition(&running, "Ready"), r#"True "" Some(2)"#);
    assert_eq!(condition(&running, "ContainersReady"), r#"True "" Some(2)"#);
    assert_eq!(condition(&running, "Initialized"), r#"True "" Some(1)"#);
    assert!(pods::is_ready(&running));

    assert_eq!(next_step(&running, PLACE, |_| true, at(9)), Step::Rest);
}

#[test]
fn a_pod_without_an_address_stays_pending() {
    let creating = reported(pod(&json!({})), 1);
    assert_eq!(next_step(&creating, Place { pod_ip: None, ..PLACE }, |_| true, at(2)), Step::Rest);
}

#[test]
fn a_pod_in_the_network_of_its_node_has_its_address() {
    let running = running(&json!({"hostNetwork": true}));
    assert_eq!(running.status.unwrap().pod_ip.as_deref(), Some("172.18.0.2"));
}

#[test]
fn pod_without_restarts_succeeds_after_its_work() {
    for policy in ["Never", "OnFailure"] {
        let running = running(&json!({"restartPolicy": policy}));
        assert_eq!(next_step(&running, PLACE, |_| false, at(3)), Step::Wait(Stage::Work));
        let ended = reported(running, 3);
        assert_eq!(ended.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded"));
        assert_eq!(state(&ended)["terminated"]["exitCode"], 0);
        assert_eq!(state(&ended)["terminated"]["startedAt"], "1970-01-01T00:00:02Z");
        assert_eq!(state(&ended)["terminated"]["finishedAt"], "1970-01-01T00:00:03Z");
        assert_eq!(condition(&ended, "Ready"), r#"False "PodCompleted" Some(3)"#);
        assert_eq!(next_step(&ended, PLACE, |_| true, at(4)), Step::Rest);
    }
}

fn commanded(policy: &str, command: &[&str]) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "web:1", "command": command}]})
}

#[test]
fn command_decides_when_and_how_a_pod_ends() {
    let failing = running(&commanded("Never", &["sh", "-c", "sleep 5; exit 3"]));
    let sleep = Stage::Sleep(Duration::from_secs(5));
    assert_eq!(next_step(&failing, PLACE, |_| false, at(3)), Step::Wait(sleep));
    let ended = reported(failing, 7);
    assert_eq!(ended.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
    assert_eq!(
        (&state(&ended)["terminated"]["exitCode"], &state(&ended)["terminated"]["reason"]),
        (&json!(3), &json!("Error"))
    );
    assert_eq!(condition(&ended, "Ready"), r#"False "PodFailed" Some(7)"#);
    let endless = running(&commanded("Never", &["sleep", "infinity"]));
    assert_eq!(next_step(&endless, PLACE, |_| true, at(3)), Step::Rest);
    let serving = running(&commanded("Always", &["false"]));
    assert_eq!(next_step(&serving, PLACE, |_| true, at(3)), Step::Rest, "what is not meant to end does not");
}

#[test]
fn failed_container_is_restarted_after_back_off() {
    let failing = running(&commanded("OnFailure", &["false"]));
    let crashed = reported(failing, 3);
    assert_eq!(crashed.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(state(&crashed), json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    assert_eq!(condition(&crashed, "Ready"), r#"False "ContainersNotReady" Some(3)"#);
    let wait = Stage::BackOff(Duration::from_secs(10));
    assert_eq!(next_step(&crashed, PLACE, |_| false, at(4)), Step::Wait(wait));
    let again = reported(crashed, 13);
    let status = &again.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.restart_count, 1);
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 1);
    let crashed = reported(again, 14);
    assert_eq!(next_step(&crashed, PLACE, |_| false, at(15)), Step::Wait(Stage::BackOff(Duration::from_secs(20))));
}

#[test]
fn a_pod_that_is_interrupted_at_its_work_has_failed() {
    let stopped = reported(deleted(running(&json!({"restartPolicy": "Never"})), 30), 5);
    assert_eq!(stopped.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
    assert_eq!(state(&stopped)["terminated"]["exitCode"], 137);
}

#[test]
fn a_deleted_pod_stops_then_is_removed() {
    let going = deleted(running(&json!({})), 30);
    assert_eq!(next_step(&going, PLACE, |_| false, at(5)), Step::Wait(Stage::Stop));
    let stopped = reported(going, 5);
    assert!(!pods::is_ready(&stopped) && pods::is_finished(&stopped));
    assert_eq!(next_step(&stopped, PLACE, |_| true, at(6)), Step::Remove);
    // Removed, except for other finalizers.
    assert_eq!(next_step(&deleted(stopped, 0), PLACE, |_| true, at(7)), Step::Rest);
}

#[test]
fn a_pod_that_never_ran_is_removed_at_once() {
    assert_eq!(next_step(&deleted(pod(&json!({})), 30), PLACE, |_| false, at(1)), Step::Remove);
    let creating = reported(pod(&json!({})), 1);
    assert_eq!(next_step(&deleted(creating, 30), PLACE, |_| false, at(1)), Step::Remove);
}

#[test]
fn init_containers_run_first_and_sidecars_continue() {
    let init = json!({"initContainers": [
        {"name": "setup", "image": "a"},
        {"name": "proxy", "image": "b", "restartPolicy": "Always"},
    ]});
    let creating = reported(pod(&init), 1);
    assert_eq!(condition(&creating, "Initialized"), r#"False "ContainersNotInitialized" Some(1)"#);
    let running = reported(creating, 2);
    let statuses = running.status.as_ref().unwrap().init_container_statuses.clone().unwrap();
    assert!(statuses[0].state.as_ref().unwrap().terminated.is_some() && !statuses[0].ready);
    assert!(statuses[1].state.as_ref().unwrap().running.is_some() && statuses[1].ready);
    assert_eq!(condition(&running, "Initialized"), r#"True "" Some(2)"#);
    assert_eq!(next_step(&running, PLACE, |_| true, at(3)), Step::Rest);
}

#[test]
fn changed_image_restarts_the_container() {
    let mut pod = running(&json!({}));
    pod.metadata.generation = Some(2);
    pod.spec.as_mut().unwrap().containers[0].image = Some("web:2".to_owned());
    let restarted = reported(pod, 7);
    let status = &restarted.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!((status.image.as_str(), status.restart_count), ("web:2", 1));
    assert!(status.last_state.as_ref().unwrap().terminated.is_some());
    assert_eq!(restarted.status.as_ref().unwrap().observed_generation, Some(2));
    assert_eq!(next_step(&restarted, PLACE, |_| true, at(8)), Step::Rest);
}

#[test]
fn pod_is_unready_until_its_readiness_gates_are_true() {
    let mut pod = running(&json!({"readinessGates": [{"conditionType": "example.com/lb"}]}));
    assert_eq!(condition(&pod, "Ready"), r#"False "ReadinessGatesNotReady" Some(1)"#);
    assert_eq!(condition(&pod, "ContainersReady"), r#"True "" Some(2)"#);
    pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(PodCondition {
        type_: "example.com/lb".to_owned(),
        status: "True".to_owned(),
        ..PodCondition::default()
    });
    assert_eq!(condition(&reported(pod, 5), "Ready"), r#"True "" Some(5)"#);
}

#[test]
fn pod_annotation_keeps_it_unready() {
    let mut pod = running(&json!({}));
    pod.metadata.annotations = Some([(READY.to_owned(), "false".to_owned())].into());
    let mut unready = reported(pod, 5);
    assert_eq!(unready.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(condition(&unready, "Ready"), r#"False "ContainersNotReady" Some(5)"#);
    assert_eq!(condition(&unready, "ContainersReady"), r#"False "ContainersNotReady" Some(5)"#);
    assert!(!unready.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].ready);
    assert_eq!(next_step(&unready, PLACE, |_| true, at(6)), Step::Rest);
    unready.metadata.annotations = None;
    assert_eq!(condition(&reported(unready, 7), "Ready"), r#"True "" Some(7)"#);
}

#[test]
fn a_pod_past_its_deadline_fails() {
    let active = running(&json!({"activeDeadlineSeconds": 10}));
    assert_eq!(deadline(&active), Some(at(11)));
    assert_eq!(next_step(&active, PLACE, |_| false, at(10)), Step::Rest);
    let expired = reported(active, 11);
    let status = expired.status.as_ref().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("DeadlineExceeded")));
    assert_eq!(status.message.as_deref(), Some("Pod was active on the node longer than the specified deadline"));
    assert_eq!(state(&expired)["terminated"]["exitCode"], 137);
    assert_eq!(condition(&expired, "Ready"), r#"False "PodFailed" Some(11)"#);
    assert_eq!(deadline(&expired), None);

    let creating = reported(pod(&json!({"activeDeadlineSeconds": 10})), 1);
    let expired = reported(creating, 11);
    assert_eq!(expired.status.as_ref().unwrap().reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(deadline(&running(&json!({"activeDeadlineSeconds": i64::MAX}))), None, "that never comes");
}

#[test]
fn a_pod_whose_port_is_taken_is_rejected() {
    let mut rejected_pod = pod(&json!({}));
    assert!(is_new(&rejected_pod));
    rejected_pod.status = Some(rejected(&rejected_pod, at(3)));
    let status = rejected_pod.status.as_ref().unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("NodePorts")));
    let message =
        "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(status.message.as_deref(), Some(message));
    assert!(!is_new(&rejected_pod));
    assert_eq!(next_step(&rejected_pod, PLACE, |_| true, at(4)), Step::Rest);
    assert_eq!(next_step(&deleted(rejected_pod, 30), PLACE, |_| false, at(5)), Step::Remove);
}

#[test]
fn ephemeral_containers_start_in_a_running_pod() {
    let mut pod = running(&json!({}));
    let debugger = json!([{"name": "debugger", "image": "busybox", "command": ["sh"]}]);
    pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_value(debugger).unwrap();
    let started = reported(pod, 5);
    let status = &started.status.as_ref().unwrap().ephemeral_container_statuses.as_ref().unwrap()[0];
    assert_eq!((status.name.as_str(), status.ready, status.started), ("debugger", false, None));
    assert!(status.state.as_ref().unwrap().running.is_some());
    assert_eq!(condition(&started, "Ready"), r#"True "" Some(2)"#);
    assert_eq!(next_step(&started, PLACE, |_| true, at(6)), Step::Rest);
    let stopped = reported(deleted(started, 30), 7);
    let status = &stopped.status.as_ref().unwrap().ephemeral_container_statuses.as_ref().unwrap()[0];
    assert!(status.state.as_ref().unwrap().terminated.is_some());
}

#[test]
fn sigterm_handler_decides_the_commands_exit() {
    let script = "trap 'sleep 5; exit 143' TERM; while true; do sleep 1; done";
    let going = deleted(running(&commanded("Never", &["sh", "-c", script])), 30);
    assert_eq!(next_step(&going, PLACE, |_| false, at(5)), Step::Wait(Stage::Term(Duration::from_secs(5))));
    assert_eq!(state(&reported(going.clone(), 10))["terminated"]["exitCode"], 143);
    let hasty = deleted(going, 2);
    assert_eq!(next_step(&hasty, PLACE, |_| false, at(5)), Step::Wait(Stage::Term(Duration::from_secs(2))));
    assert_eq!(state(&reported(hasty, 7))["terminated"]["exitCode"], 137, "it was too slow");
}
