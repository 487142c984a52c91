use serde_json::{Value, json};

use super::*;

fn pod(container: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {"index": "3"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "busybox:1"}]},
        "status": {"containerStatuses": [
            {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]},
    });
    for (field, value) in container.as_object().unwrap() {
        pod["spec"]["containers"][0][field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn ran(container: Value, disk: &mut Disk) -> (RunTime, i32) {
    let mut scripts = Scripts::default();
    scripts.run(&pod(container), disk, || 1);
    let script = scripts.get("c");
    (script.lasts, script.code)
}

fn script(command: &[&str]) -> (RunTime, i32) {
    ran(json!({"command": command}), &mut Disk::default())
}

fn seconds(seconds: u64) -> RunTime {
    RunTime::So(Duration::from_secs(seconds))
}

#[test]
fn commands_decide_duration_and_exit_code() {
    assert_eq!(script(&["true"]), (RunTime::Usual, 0));
    assert_eq!(script(&["/bin/false"]), (RunTime::Usual, 1));
    assert_eq!(script(&["sleep", "2m"]), (seconds(120), 0));
    assert_eq!(script(&["sleep", "infinity"]), (RunTime::Forever, 0));
    assert_eq!(script(&["sh", "-c", "echo hello; sleep 5 && sleep 1; exit 3"]), (seconds(6), 3));
    assert_eq!(script(&["/bin/bash", "-e", "-c", "false && sleep 9; sleep 2"]), (seconds(2), 0));
    assert_eq!(script(&["/bin/sh", "-ec", "false; sleep 9"]), (RunTime::Usual, 1));
    assert_eq!(script(&["sh", "-c", "sleep 1000000000"]), (RunTime::Forever, 0));
}

#[test]
fn unknown_programs_take_their_time_and_succeed() {
    for command in [&["perl", "-e", "exit 1"][..], &[], &["sh"], &["exit", "3"], &["sh", "-c", "case a in esac"]] {
        assert_eq!(script(command), (RunTime::Usual, 0), "{command:?}");
    }
}

#[test]
fn arguments_and_variables_reach_the_script() {
    let container = json!({
        "command": ["sh", "-c"],
        "args": ["exit $(( $INDEX + $(FOUR) + $1 ))", "sh", "10"],
        "env": [
            {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['index']"}}},
            {"name": "FOUR", "value": "4"},
        ],
    });
    assert_eq!(ran(container, &mut Disk::default()), (RunTime::Usual, 17));
}

#[test]
fn images_that_only_wait_run_for_ever() {
    for (image, args, lasts) in [
        ("registry.k8s.io/pause:3.10", json!([]), RunTime::Forever),
        ("registry.k8s.io/e2e-test-images/agnhost:2.53", json!(["netexec"]), RunTime::Forever),
        ("registry.k8s.io/e2e-test-images/agnhost:2.53", json!(["mounttest"]), RunTime::Usual),
        ("nginx", json!([]), RunTime::Usual),
    ] {
        assert_eq!(ran(json!({"image": image, "args": args}), &mut Disk::default()).0, lasts, "{image} {args}");
    }
}

#[test]
fn a_restarted_container_runs_its_command_again() {
    let fail_once = json!({
        "command": ["/bin/sh", "-c", "if [[ -r /data/foo ]]\nthen\nexit 0\nelse\ntouch /data/foo\nexit 1\nfi\n"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let mut pod = pod(fail_once);
    pod.spec.as_mut().unwrap().volumes = serde_json::from_value(json!([{"name": "data", "emptyDir": {}}])).unwrap();
    let (mut scripts, mut disk) = (Scripts::default(), Disk::default());
    scripts.run(&pod, &mut disk, || 1);
    scripts.run(&pod, &mut disk, || 1);
    assert_eq!(scripts.get("c").code, 1, "a run happens once");
    pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].restart_count = 1;
    scripts.run(&pod, &mut disk, || 1);
    assert_eq!(scripts.get("c").code, 0);
    disk.forget("u");
    let mut anew = Scripts::default();
    anew.run(&pod, &mut disk, || 1);
    assert_eq!(anew.get("c").code, 1, "the files went with the pod");
}

#[test]
fn files_on_a_node_outlive_pods() {
    let container = json!({
        "command": ["sh", "-c", "[ -e /data/sub/x ] && exit 0; touch /data/sub/x; exit 42"],
        "volumeMounts": [{"name": "data", "mountPath": "/data/"}],
    });
    let mut pod = pod(container);
    let host = json!([{"name": "data", "hostPath": {"path": "/tmp/job"}}]);
    pod.spec.as_mut().unwrap().volumes = serde_json::from_value(host).unwrap();
    let mut disk = Disk::default();
    let mut code = |pod: &Pod| {
        let mut scripts = Scripts::default();
        scripts.run(pod, &mut disk, || 1);
        scripts.get("c").code
    };
    assert_eq!(code(&pod), 42);
    pod.metadata.uid = Some("another".to_owned());
    assert_eq!(code(&pod), 0);
    pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
    assert_eq!(code(&pod), 42, "another node has other files");
}

#[test]
fn sigterm_handler_decides_the_scripts_exit() {
    let script = "_term(){\n\tsleep 5\n\texit 143\n}\ntrap _term SIGTERM\nwhile true; do\n\tsleep 1\ndone";
    let mut scripts = Scripts::default();
    scripts.run(&pod(json!({"command": ["/bin/sh", "-c", script]})), &mut Disk::default(), || 1);
    let run = scripts.get("c");
    assert_eq!(run.lasts, RunTime::Forever);
    assert_eq!(run.on_term, Some(Ending { after: Some(Duration::from_secs(5)), code: 143 }));
}
