//! Tests of `windlass explore`. The program that it explores is a test of this file, which is ignored otherwise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    env, fs, future,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_api::{ObjectBuilder as _, ObjectExt as _, Patch};
use windlass_client::Client;
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
    let this = env::current_exe().unwrap();
    windlass(steps, flags, &[this.to_str().unwrap(), "operator", "--exact", "--ignored", "--nocapture"])
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
fn a_program_without_writes_has_no_findings() {
    let steps = steps();
    let Output { status, stdout, stderr } = windlass(steps.path(), &[], &["sleep", "1000"]).output().unwrap();
    assert_eq!(status.code(), Some(0), "{}\n{}", text(&stdout), text(&stderr));
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
    child.wait().unwrap();
    let first: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {rest:?}"));
    assert_eq!(first["interrupted"], true);
    let finished = first["finished"].as_u64().unwrap();
    assert!(finished >= 2 && finished < first["planned"].as_u64().unwrap(), "{first}");

    let flags: Vec<&str> = flags.into_iter().chain(["--time-limit=1s"]).collect();
    let Output { stdout, stderr, .. } = explore(steps.path(), &flags).output().unwrap();
    let second: Value =
        serde_json::from_str(&text(&stdout)).unwrap_or_else(|error| panic!("{error}: {}", text(&stderr)));
    assert!(second["resumed"].as_u64().unwrap() >= finished, "{second}");
}
