//! Queries a cluster with the project's manager, with kubectl.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Instant,
};

use super::{Walkthrough, running::Running};
use crate::{Result, upstream};

/// A minimal object.
const HOME: &str = "apiVersion: shop.example.com/v1
kind: Website
metadata: {name: home}
spec: {message: Welcome}
";

/// kubectl and the kubeconfig of the cluster.
struct Kubectl {
    program: PathBuf,
    kubeconfig: String,
}

/// Runs the project and checks each of its features. Returns the number of manifest lines that the user wrote.
pub(super) fn reconciled(walkthrough: &mut Walkthrough) -> Result<usize> {
    let begun = Instant::now();
    let mut command = Command::new(&walkthrough.windlass);
    let mut running = Running::start(walkthrough.prepare(command.arg("run")))?;
    let kubeconfig = running.wait_for("export KUBECONFIG=")?;
    running.wait_for("ready in ")?;
    walkthrough.typed(begun, "windlass run");
    let lines = if let Some(program) = upstream::built_kubectl().or_else(on_path) {
        ask(walkthrough, &Kubectl { program, kubeconfig: kubeconfig.clone() })?;
        HOME.lines().count()
    } else {
        println!("          there is no kubectl here: the cluster is not checked");
        0
    };

    // Edit a file, save it, and wait for the effect.
    let begun = Instant::now();
    let source = walkthrough.folder.project().join("src/controller/website.rs");
    let edited = fs::read_to_string(&source)?.replace("the object is reconciled", "all is well");
    fs::write(&source, edited)?;
    running.wait_for("changed: src/controller/website.rs")?;
    let took = running.wait_for("restarted in ")?;
    println!("{:6.1} s  an edit: restarted in {took}", begun.elapsed().as_secs_f64());

    // A change that only affects the cluster does not restart the manager.
    let begun = Instant::now();
    let webhooks = walkthrough.folder.project().join("config/webhook/manifests.yaml");
    let edited = fs::read_to_string(&webhooks)?.replace("sideEffects: None", "sideEffects: None\n  timeoutSeconds: 7");
    fs::write(&webhooks, edited)?;
    running.wait_for("changed: config/webhook/manifests.yaml")?;
    running.wait_for("applied: ")?;
    println!("{:6.1} s  an edit of config/: applied, and the manager runs on", begun.elapsed().as_secs_f64());
    running.stop()?;
    if Path::new(&kubeconfig).exists() {
        return Err(format!("windlass run has left {kubeconfig}").into());
    }
    Ok(lines)
}

fn ask(walkthrough: &mut Walkthrough, kubectl: &Kubectl) -> Result {
    kubectl.says(walkthrough, &["apply", "--kustomize", "config/samples"], "website-sample")?;
    for sample in [
        "websites.shop.example.com/website-sample",
        "websites.net.example.com/website-sample",
        "httpgate/httpgate-sample",
    ] {
        let arguments = ["wait", "--for=condition=Ready", "--timeout=180s", sample];
        kubectl.says(walkthrough, &arguments, "condition met")?;
    }

    let begun = Instant::now();
    let output = kubectl.run(walkthrough, &["apply", "--filename", "-"], HOME)?;
    expect("kubectl apply", &output, true, "website.shop.example.com/home created")?;
    walkthrough.typed(begun, "kubectl apply --filename - <<END");
    let label = r"jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by}";
    kubectl.says(walkthrough, &["get", "websites.shop.example.com", "home", "--output", label], "website-operator")?;

    let begun = Instant::now();
    let long_name = HOME.replace("name: home", &format!("name: {}", "x".repeat(53)));
    let output = kubectl.run(walkthrough, &["apply", "--filename", "-"], &long_name)?;
    expect("kubectl apply", &output, false, "denied the request: metadata.name: must be no more than 52 characters")?;
    walkthrough.typed(begun, "kubectl apply --filename - <<END: denied");

    let path = "jsonpath={.apiVersion} {.spec.message}";
    let read = ["get", "websites.v1beta1.shop.example.com", "home", "--output", path];
    kubectl.says(walkthrough, &read, "shop.example.com/v1beta1 Welcome")?;
    // The name is not enough: the manager must do the conversion.
    let path = "jsonpath={.spec.conversion.strategy} {.spec.conversion.webhook.clientConfig.url}";
    let arguments = ["get", "crd", "websites.shop.example.com", "--output", path];
    let output = kubectl.run(walkthrough, &arguments, "")?;
    expect("kubectl get crd", &output, true, "Webhook https://127.0.0.1:")
}

impl Kubectl {
    /// Runs a command that must succeed with this output.
    fn says(&self, walkthrough: &mut Walkthrough, arguments: &[&str], expected: &str) -> Result {
        let (begun, typed) = (Instant::now(), format!("kubectl {}", arguments.join(" ")));
        expect(&typed, &self.run(walkthrough, arguments, "")?, true, expected)?;
        walkthrough.typed(begun, &typed);
        Ok(())
    }

    fn run(&self, walkthrough: &Walkthrough, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", &walkthrough.folder.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process =
            walkthrough.prepare(&mut command).spawn().map_err(|error| format!("starting kubectl: {error}"))?;
        if let Some(mut written) = process.stdin.take() {
            written.write_all(input.as_bytes())?;
        }
        Ok(process.wait_with_output()?)
    }
}

/// Checks a command's exit status and output.
fn expect(typed: &str, output: &Output, success: bool, expected: &str) -> Result {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() == success && said.contains(expected) {
        return Ok(());
    }
    Err(format!("{typed}: {}, without {expected:?}:\n{said}", output.status).into())
}

/// Returns the `kubectl` in `PATH`.
fn on_path() -> Option<PathBuf> {
    let output = Command::new("kubectl").args(["version", "--client"]).output().ok()?;
    output.status.success().then(|| PathBuf::from("kubectl"))
}
