//! Tests of `windlass run` with a project whose cargo, manager and manifests are scripts.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use tokio::time::{Instant, sleep};
use windlass_api::Entropy;
use windlass_client::{Client, Config, Kubeconfig, kubeconfig::Selection};

/// A timeout that is far longer than required.
const PATIENCE: Duration = Duration::from_mins(1);

const PROJECT: &str = "domain: example.com\nlayout:\n- windlass.dev/v1\nprojectName: shop-operator\nversion: \"3\"\n";

/// A fake cargo that fails on a broken project. The manager is a copy of `src/main.sh`.
const CARGO: &str = r#"#!/bin/sh
[ -f src/broken ] && exit 101
mkdir -p target
cmp -s src/main.sh target/shop-operator || { cp src/main.sh target/new && chmod +x target/new && mv target/new target/shop-operator; }
for program in shop-operator manifests; do
  echo "{\"reason\":\"compiler-artifact\",\"target\":{\"kind\":[\"bin\"],\"name\":\"$program\"},\"executable\":\"$PWD/target/$program\"}"
done
"#;

const MANIFESTS: &str = "#!/bin/sh\nmkdir -p config/crd/bases && cp src/definition.yaml config/crd/bases/sites.yaml\n";

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.shop.example.com}
spec:
  group: shop.example.com
  names: {kind: Site, plural: sites}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

/// Returns a manager script that reports its generation and stops on request.
fn manager(generation: u8) -> String {
    format!(
        "#!/bin/sh\ntrap 'exit 0' TERM\necho {generation} $$ $KUBECONFIG $* >target/told\nwhile :; do sleep 0.02; done\n"
    )
}

/// A project in a folder that is deleted on drop.
struct Project(PathBuf);

impl Project {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("windlass-run-{}", Entropy::os().uuid()));
        fs::create_dir_all(folder.join("src/inner")).unwrap();
        let project = Self(fs::canonicalize(folder).unwrap());
        project.write("PROJECT", PROJECT);
        project.write("Cargo.toml", "");
        project.write("src/definition.yaml", DEFINITION);
        project.program("bin/cargo", CARGO);
        project.program("target/manifests", MANIFESTS);
        project
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, path: &str, text: &str) {
        self.write(path, text);
        fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the process ID and arguments reported by the manager with this number, which it writes a moment after
    /// its start.
    async fn told(&self, number: u8) -> (String, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = fs::read_to_string(self.0.join("target/told")).unwrap_or_default();
            let mut words = told.trim().splitn(3, ' ').map(str::to_owned);
            if told.ends_with('\n') && words.next() == Some(number.to_string()) {
                return (words.next().unwrap(), words.next().unwrap());
            }
            assert!(Instant::now() < until, "manager {number} does not run; the last report: {told:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The running command and its output.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the command in a folder inside the project.
    fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// Starts the command with further flags.
    fn start_with(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.arg("run").args(flags).args(["--", "--health-probe-bind-address=0", "--webhook-port=1", "--own"]);
        command.env("CARGO", folder.join("bin/cargo")).env_remove("WINDLASS_LOG").env_remove("KUBECONFIG");
        let child = command.current_dir(folder.join("src/inner")).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        Self { child, lines }
    }

    /// Returns the rest of the next line of output, which must start with a prefix.
    #[track_caller]
    fn says(&self, beginning: &str) -> String {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        line.strip_prefix(beginning).unwrap_or_else(|| panic!("{line:?} does not begin with {beginning:?}")).to_owned()
    }

    fn stop(mut self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lives(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).stderr(Stdio::null()).status().unwrap().success()
}

#[tokio::test]
async fn manager_restarts_when_files_change_and_stops_at_the_end() {
    let project = Project::new();
    project.write("src/main.sh", &manager(1));
    let running = Running::start(&project.0);
    running.says("API server: https://127.0.0.1:");
    let kubeconfig = running.says("export KUBECONFIG=");
    running.says("building");
    running.says("ready in ");
    let (first, arguments) = project.told(1).await;
    let expected = "--health-probe-bind-address=0 --webhook-port=1 --own --webhook-host=127.0.0.1";
    assert_eq!(arguments, format!("{kubeconfig} {expected}"));

    // A second run would replace the kubeconfig of the first.
    let second = Command::new(env!("CARGO_BIN_EXE_windlass")).arg("run").current_dir(&project.0).output().unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    let expected =
        format!("process {}, windlass run, already runs the project in {}", running.child.id(), project.0.display());
    assert!(!second.status.success() && error.contains(&expected), "{error}");

    // The CustomResourceDefinition exists when the manager starts.
    let config = Kubeconfig::read(Path::new(&kubeconfig)).unwrap();
    let client = Client::new(Config::from_kubeconfig(&config, &Selection::default()).unwrap()).unwrap();
    client.get::<CustomResourceDefinition>("sites.shop.example.com").await.unwrap();

    project.write("src/main.sh", &manager(2));
    assert_eq!(running.says("changed: "), "src/main.sh");
    running.says("restarted in ");
    let (second, _) = project.told(2).await;
    assert_eq!((lives(&first), lives(&second)), (false, true));

    project.write("src/broken", "");
    assert_eq!(running.says("changed: "), "src/broken");
    running.says("the build failed; the previous manager keeps running");
    assert!(lives(&second));

    // Changes only the manifests.
    fs::remove_file(project.0.join("src/broken")).unwrap();
    assert_eq!(running.says("changed: "), "src/broken");
    running.says("applied: 1 manifests; the manager keeps running");
    assert!(lives(&second));

    running.stop();
    assert!(!lives(&second), "the manager stops with the command");
    assert!(!Path::new(&kubeconfig).exists());
}

#[tokio::test]
async fn ended_manager_is_reported_and_restarted_on_change() {
    let project = Project::new();
    project.write("src/broken", "");
    project.write("src/main.sh", "#!/bin/sh\nexit 7\n");
    let running = Running::start(&project.0);
    for line in ["API server: ", "export KUBECONFIG=", "building", "the build failed; waiting for a change"] {
        running.says(line);
    }
    fs::remove_file(project.0.join("src/broken")).unwrap();
    running.says("changed: src/broken");
    let mut told = running.says("");
    if told.starts_with("restarted in ") {
        // The old manager had not ended yet, and its readiness is not probed.
        told = running.says("");
    }
    assert_eq!(told, "the manager exited (exit status: 7); it restarts after a change");
    project.write("src/main.sh", &manager(1));
    running.says("changed: src/main.sh");
    running.says("restarted in ");
    let (process, _) = project.told(1).await;
    assert!(lives(&process));
    running.stop();
    assert!(!lives(&process));
}

/// Returns a client of the next control plane that the command starts, once the manager runs.
fn ready(running: &Running) -> Client {
    running.says("API server: https://127.0.0.1:");
    let kubeconfig = Kubeconfig::read(Path::new(&running.says("export KUBECONFIG="))).unwrap();
    running.says("building");
    running.says("ready in ");
    Client::new(Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap()).unwrap()
}

#[tokio::test]
async fn cluster_is_kept_between_runs_unless_a_fresh_one_is_requested() {
    let project = Project::new();
    project.write("src/main.sh", &manager(1));
    let running = Running::start(&project.0);
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("kept".to_owned());
    let created = ready(&running).create(&namespace).await.unwrap();
    running.stop();

    let running = Running::start(&project.0);
    let kept = ready(&running).get::<Namespace>("kept").await.unwrap();
    assert_eq!(kept.metadata.uid, created.metadata.uid);
    running.stop();

    let running = Running::start_with(&project.0, &["--fresh"]);
    let error = ready(&running).get::<Namespace>("kept").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    running.stop();
}

#[test]
fn command_outside_a_project_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass")).arg("run").current_dir("/").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("/PROJECT: no such file; `windlass init --domain …` creates a project"), "{error}");
}
