//! Tests of `windlass explore`. The programs that it explores are tests of this file, which are ignored otherwise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    env, fs, future,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_api::{ObjectBuilder as _, ObjectExt as _, Patch};
use windlass_client::{Client, Config};
use windlass_runtime::{Action, Context, Controller, Manager, Result, Watch};

const STEP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: default, labels: {app: web}}}";

/// The annotation with the name of the Secret.
const SECRET: &str = "example.com/secret";

/// The operator. It creates a Secret with a generated name, and records the name afterwards, which is a bug.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the program that the other tests explore"]
async fn operator() {
    let mut manager = Manager::new(Client::try_default().await.unwrap());
    manager.add(Controller::watching(Watch::<ConfigMap>::all().labels("app=web")).reconcile(reconcile));
    manager.run(future::pending()).await.unwrap();
}

async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    if !config.annotations().contains_key(SECRET) {
        let secret = cx.client().create(&Secret::with_generated_name("web-").in_namespace("default")).await?;
        let annotation = json!({"metadata": {"annotations": {SECRET: secret.name()}}});
        cx.client().patch::<ConfigMap>(config.object_ref(), Patch::Merge(annotation)).await?;
    }
    Ok(Action::await_change())
}

/// The port of the operator with a fixed port, and the variable with an argument of its process outside of its group.
const PORT: u16 = 28_471;
const MARK: &str = "WINDLASS_EXPLORE_TEST_MARK";

/// An operator that listens at a fixed port and at the one of its arguments, writes a file to a fixed path, and starts a
/// process outside of its process group.
#[tokio::test]
#[ignore = "a program that the other tests explore"]
async fn operator_at_fixed_port() {
    let fixed = TcpListener::bind(("127.0.0.1", PORT));
    let file = fs::OpenOptions::new().write(true).create_new(true).open("/tmp/windlass-explore-test");
    let port: u16 = env::args().find_map(|argument| argument.parse().ok()).unwrap();
    let forwarded = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let child = Command::new("setsid").args(["sleep", &env::var(MARK).unwrap()]).stdout(Stdio::null()).spawn();
    let errors = format!("{:?}", [fixed.as_ref().err(), file.as_ref().err(), child.as_ref().err()]);
    let state = ConfigMap::named("state").in_namespace("default").with(|state| {
        state.data = Some([("errors".to_owned(), errors), ("port".to_owned(), port.to_string())].into());
    });
    let client = Client::try_default().await.unwrap();
    client.create(&state).await.unwrap();
    // A run waits until the program watches something.
    let _watch = client.watch::<ConfigMap>().await.unwrap();
    for connection in forwarded.incoming() {
        connection.unwrap().write_all(b"forwarded").unwrap();
    }
}

/// A step that connects to the operator.
#[tokio::test]
#[ignore = "a step of the other tests"]
async fn step_of_operator_at_fixed_port() {
    let state = Client::try_default().await.unwrap().get::<ConfigMap>("state").await.unwrap();
    let data = state.data.as_ref().unwrap();
    assert_eq!(data["errors"], "[None, None, None]");
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", data["port"].parse().unwrap())).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "forwarded");
}

/// An operator that uses the environment of its pod only.
#[tokio::test]
#[ignore = "a program that the other tests explore"]
async fn operator_in_pod() {
    assert!(env::var_os("KUBECONFIG").is_none());
    let client = Client::new(Config::in_cluster().unwrap()).unwrap();
    let name = env::var("POD_NAME").unwrap();
    let namespace = fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace").unwrap();
    assert_eq!(namespace, env::var("POD_NAMESPACE").unwrap());
    let pod = client.get::<Pod>(name.as_str()).within(namespace.as_str()).await.unwrap();
    let host = Command::new("uname").arg("-n").output().unwrap();
    let state = ConfigMap::named("state").in_namespace("default").with(|state| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let host = text(&host.stdout).trim_end().to_owned();
        state.data = Some([("phase".to_owned(), phase.unwrap_or_default()), ("host".to_owned(), host)].into());
    });
    client.create(&state).await.unwrap();
    let _watch = client.watch::<ConfigMap>().await.unwrap();
    future::pending::<()>().await;
}

/// Returns a directory with a step.
fn steps() -> TempDir {
    let steps = TempDir::new().unwrap();
    fs::write(steps.path().join("1-create.yaml"), STEP).unwrap();
    steps
}

fn windlass(steps: &Path, flags: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["explore", "--jobs=4", "--steps"]).arg(steps).args(flags).arg("--").args(program);
    command
}

/// Explores the operator of this file.
fn explore(steps: &Path, flags: &[&str]) -> Command {
    explore_program(steps, flags, &["operator"])
}

/// Explores another test of this file.
fn explore_program(steps: &Path, flags: &[&str], program: &[&str]) -> Command {
    let this = env::current_exe().unwrap();
    let program = [&[this.to_str().unwrap()], program, &["--exact", "--ignored", "--nocapture"]].concat();
    windlass(steps, flags, &program)
}

/// Reports whether this system permits namespaces. Prints the reason if it does not.
fn is_isolated() -> bool {
    let (steps, flags) = (steps(), ["--isolation=namespaces"]);
    let Output { stderr, .. } = windlass(steps.path(), &flags, &["/no/such/program"]).output().unwrap();
    let refused = text(&stderr).contains("cannot isolate");
    if refused {
        eprintln!("skipped: {}", text(&stderr));
    }
    !refused
}

/// Returns the number of processes with an argument.
fn processes_with(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    let has_argument = |line: &Vec<u8>| line.split(|byte| *byte == 0).any(|found| found == argument.as_bytes());
    // Other processes end at any time.
    processes.filter_map(|path| fs::read(path).ok()).filter(has_argument).count()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
#[ignore = "takes a minute: cargo xtask long explorations"]
fn a_finding_is_reported() {
    let (steps, report) = (steps(), TempDir::new().unwrap());
    let directory = report.path().to_str().unwrap();
    let flags = ["--plan", "crash@1:create:secrets/default/web-*", "--output=json", "--report", directory];
    let Output { status, stdout, stderr } = explore(steps.path(), &flags).output().unwrap();
    let (stdout, stderr) = (text(&stdout), text(&stderr));
    assert_eq!(status.code(), Some(1), "{stdout}\n{stderr}");
    let results: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(results["finished"], 1);
    let finding = &results["findings"][0];
    assert!(finding["text"].as_str().unwrap().contains("secrets/default/web-*"), "{finding}");
    assert!(stderr.contains("1/1, 1 finding"), "{stderr}");
    for extension in ["txt", "json", "html", "xml"] {
        let file = report.path().join("report").with_extension(extension);
        assert!(fs::read_to_string(&file).unwrap().contains("web-*"), "{}", file.display());
    }
}

#[test]
#[ignore = "takes half a minute: cargo xtask long explorations"]
fn a_program_without_writes_has_no_findings() {
    let steps = steps();
    let Output { status, stdout, stderr } = windlass(steps.path(), &[], &["sleep", "1000"]).output().unwrap();
    assert_eq!(status.code(), Some(0), "{}\n{}", text(&stdout), text(&stderr));
}

#[test]
fn isolated_runs_share_no_ports_files_and_processes() {
    if !is_isolated() {
        return;
    }
    let (steps, mark) = (TempDir::new().unwrap(), format!("10000.{}", std::process::id()));
    let wait = "{apiVersion: v1, kind: ConfigMap, metadata: {name: state, namespace: default}, condition: 'true'}";
    fs::write(steps.path().join("1-started.wait.yaml"), wait).unwrap();
    let connect = steps.path().join("2-connect");
    let this = env::current_exe().unwrap();
    let test = "step_of_operator_at_fixed_port --exact --ignored --nocapture";
    fs::write(&connect, format!("#!/bin/sh\nexec '{}' {test}\n", this.display())).unwrap();
    fs::set_permissions(&connect, fs::Permissions::from_mode(0o755)).unwrap();
    // The second and the third run are made at the same time.
    let mut command = explore_program(steps.path(), &["--plan=none"], &["operator_at_fixed_port", "{port}"]);
    let Output { status, stdout, stderr } = command.env(MARK, &mark).output().unwrap();
    assert_eq!(status.code(), Some(0), "{}\n{}", text(&stdout), text(&stderr));
    assert_eq!(processes_with(&mark), 0, "a process outside of the group has ended");
    assert!(!Path::new("/tmp/windlass-explore-test").exists());
}

#[test]
fn program_in_cluster_uses_its_service_account_and_pod() {
    if !is_isolated() {
        return;
    }
    let steps = TempDir::new().unwrap();
    let wait = "{apiVersion: v1, kind: ConfigMap, metadata: {name: state, namespace: default}, \
                condition: \"object.data == {'phase': 'Running', 'host': 'operator-0'}\"}";
    fs::write(steps.path().join("1-started.wait.yaml"), wait).unwrap();
    let flags = ["--plan=none", "--in-cluster=system/operator-0"];
    let Output { status, stdout, stderr } =
        explore_program(steps.path(), &flags, &["operator_in_pod"]).output().unwrap();
    assert_eq!(status.code(), Some(0), "{}\n{}", text(&stdout), text(&stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn refused_namespaces_are_reported() {
    let steps = steps();
    let limited = |flag: &str| {
        let explore = windlass(steps.path(), &[flag], &["/no/such/program"]);
        let mut command = Command::new("unshare");
        let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" \"$@\"";
        command.args(["--user", "--map-root-user", "sh", "-c", script]);
        text(&command.arg(explore.get_program()).args(explore.get_args()).output().unwrap().stderr)
    };
    let (required, optional) = (limited("--isolation=namespaces"), limited("--isolation=auto"));
    if required.contains("unshare failed") || required.contains("max_net_namespaces") {
        eprintln!("skipped: {required}");
        return;
    }
    let refused = "cannot isolate the program: creating namespaces: No space left on device";
    assert!(required.contains(refused) && !required.contains("/no/such/program"), "{required}");
    assert!(optional.contains(refused) && optional.contains("cannot start /no/such/program"), "{optional}");
    let disabled = limited("--isolation=none");
    assert!(!disabled.contains("isolate") && disabled.contains("/no/such/program"), "{disabled}");
}

#[test]
fn errors_have_their_own_exit_code() {
    let missing = Path::new("/no/such/steps");
    let Output { status, stderr, .. } = explore(missing, &[]).output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(text(&stderr).contains("/no/such/steps"), "{}", text(&stderr));
    let steps = steps();
    let Output { status, stderr, .. } = windlass(steps.path(), &[], &["/no/such/program"]).output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(text(&stderr).contains("/no/such/program"), "{}", text(&stderr));
    let plan = "--plan=crash@2:create:pods/default/a";
    let Output { status, stderr, .. } = windlass(steps.path(), &[plan], &["sleep", "1000"]).output().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(text(&stderr).contains("the plan names step 2, but the last step is 1"), "{}", text(&stderr));
}

#[test]
#[ignore = "takes half a minute: cargo xtask long explorations"]
fn a_plan_that_is_not_reached_is_an_error() {
    let (steps, plan) = (steps(), "crash@1:create:pods/default/a");
    let Output { status, stderr, .. } = windlass(steps.path(), &["--plan", plan], &["sleep", "1000"]).output().unwrap();
    assert_eq!(status.code(), Some(2));
    let expected = format!("the run did not reach the point of {plan}, so it has not shown anything");
    assert!(text(&stderr).contains(&expected), "{}", text(&stderr));
}

#[test]
#[ignore = "takes a minute: cargo xtask long explorations"]
fn interrupt_prints_the_results_so_far_and_resume_continues() {
    let (steps, state) = (steps(), TempDir::new().unwrap());
    let flags = ["--output=json", "--resume", state.path().to_str().unwrap()];
    let mut child = explore(steps.path(), &flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("2/")), "no plan has finished");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let status = child.wait().unwrap();
    let first: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {rest:?}"));
    assert_eq!(first["interrupted"], true);
    let has_findings = !first["findings"].as_array().unwrap().is_empty();
    assert_eq!(status.code(), Some(if has_findings { 1 } else { 130 }));
    let finished = first["finished"].as_u64().unwrap();
    assert!(finished >= 2 && finished < first["planned"].as_u64().unwrap(), "{first}");

    let flags: Vec<&str> = flags.into_iter().chain(["--time-limit=1s"]).collect();
    let Output { stdout, stderr, .. } = explore(steps.path(), &flags).output().unwrap();
    let second: Value =
        serde_json::from_str(&text(&stdout)).unwrap_or_else(|error| panic!("{error}: {}", text(&stderr)));
    assert!(second["resumed"].as_u64().unwrap() >= finished, "{second}");
}
