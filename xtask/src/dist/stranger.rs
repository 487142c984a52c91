//! The first steps of a stranger: a project in an empty folder that depends on the crates of the local registry.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::registry_of;
use crate::{
    Result,
    cargo::{cargo, succeed},
    embedded::Embedded,
    package::{self, Uncommitted},
    scaffold::Folder,
    upstream::root,
};

/// The name of the registry in the stranger's configuration.
const REGISTRY: &str = "windlass";

/// The timeout for the first write of the controller. It is long, because it only distinguishes slow from broken ones.
const PATIENCE: Duration = Duration::from_mins(1);

/// The depth of the check: the stranger's program is built, or only its dependencies are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Yes,
    No,
}

impl From<bool> for Build {
    fn from(build: bool) -> Self {
        if build { Self::Yes } else { Self::No }
    }
}

/// A folder with the registry and the projects of the stranger.
pub(crate) struct Stranger {
    folder: Folder,
}

/// Packages the crates. Adds `windlass` from the local registry to a new project with the controller of its README, and
/// to a scaffolded one. With [`Build::Yes`], tests both and runs the controller.
pub(crate) fn walk(build: Build) -> Result {
    let stranger = Stranger::new()?;
    println!("stranger: cargo new, cargo add windlass --registry {REGISTRY}, the controller of the README");
    let controller = stranger.controller()?;
    if build == Build::No {
        return succeed(cargo_in(&controller).args(["tree", "--quiet", "--package=windlass", "--depth=1"]));
    }
    succeed(cargo_in(&controller).args(["test", "--quiet"]))?;
    succeed(cargo_in(&controller).args(["build", "--quiet"]))?;
    succeed(cargo().args(["build", "--quiet", "--package=windlass-cli"]).current_dir(root()))?;
    let windlass = root().join("target/debug/windlass");
    runs(&windlass, &root().join("target/debug/controller"))?;
    println!("stranger: windlass init --windlass-registry {REGISTRY}, create api, cargo test");
    succeed(cargo_in(&stranger.scaffolded(&windlass)?).args(["test", "--quiet"]))
}

/// Gives a project of [`Stranger::operator`] the default features of `windlass`.
pub(crate) fn use_default_features(project: &Path) -> Result {
    succeed(cargo_in(project).args(["add", "--quiet", "windlass", "--registry", REGISTRY, "--default-features"]))
}

impl Stranger {
    /// Packages the crates and writes them to a registry.
    pub(crate) fn new() -> Result<Self> {
        let packages = package::pack(Uncommitted::Allowed)?;
        println!("packages: {} crates with their metadata and files", packages.len());
        let folder = Folder::new("stranger")?;
        registry_of(&packages, &folder.project())?;
        Ok(Self { folder })
    }

    /// Creates the project of the README and returns its folder.
    fn controller(&self) -> Result<PathBuf> {
        let project = self.folder.project().join("controller");
        succeed(cargo().args(["new", "--quiet", "--vcs=none", "--name=controller"]).arg(&project))?;
        self.configure(&project)?;
        let added: [&[&str]; 4] = [
            &["windlass", "--registry", REGISTRY],
            &["windlass", "--registry", REGISTRY, "--dev", "--features=envtest"],
            &["tokio", "--features=macros,rt-multi-thread"],
            &["tokio", "--dev", "--features=test-util"],
        ];
        for arguments in added {
            succeed(cargo_in(&project).args(["add", "--quiet"]).args(arguments))?;
        }
        let readme = fs::read_to_string(root().join("crates/windlass/README.md"))?;
        let code = |label: &str| {
            let code = readme.split(label).nth(1).and_then(|rest| rest.split("```").next());
            code.ok_or_else(|| format!("crates/windlass/README.md has no code block {label:?}"))
        };
        let program = format!("{}\n{}", code("```rust,no_run\n")?, code("```rust,ignore\n")?);
        fs::write(project.join("src/main.rs"), program)?;
        Ok(project)
    }

    /// Creates a project with the sources of an operator and returns its folder. It has the features that the operator
    /// needs, like the one with kube-rs.
    pub(crate) fn operator(&self, sources: &Path, files: &[&str]) -> Result<PathBuf> {
        let project = self.folder.project().join("operator");
        succeed(cargo().args(["new", "--quiet", "--vcs=none", "--name=operator"]).arg(&project))?;
        self.configure(&project)?;
        let added: [&[&str]; 5] = [
            &["windlass", "--registry", REGISTRY, "--no-default-features", "--features=ring,v1_36"],
            &["serde", "--features=derive"],
            &["serde_json"],
            &["tokio", "--features=macros,rt-multi-thread"],
            &["tracing"],
        ];
        for arguments in added {
            succeed(cargo_in(&project).args(["add", "--quiet"]).args(arguments))?;
        }
        for file in files {
            fs::copy(sources.join(file), project.join(file))?;
        }
        Ok(project)
    }

    /// Scaffolds a project with a kind and returns its folder.
    pub(crate) fn scaffolded(&self, windlass: &Path) -> Result<PathBuf> {
        let project = self.folder.project().join("website-operator");
        fs::create_dir(&project)?;
        let command = |arguments: &[&str]| {
            succeed(Command::new(windlass).args(arguments).current_dir(&project).stdout(Stdio::null()))
        };
        command(&["init", "--domain=example.com", "--windlass-registry", REGISTRY])?;
        command(&["create", "api", "--group=shop", "--version=v1", "--kind=Website"])?;
        self.configure(&project)?;
        Ok(project)
    }

    /// Writes the lock file and cargo's configuration of a project.
    fn configure(&self, project: &Path) -> Result {
        // The versions of this workspace, which are downloaded and built already.
        fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
        fs::create_dir_all(project.join(".cargo"))?;
        fs::write(project.join(".cargo/config.toml"), configuration(&self.folder.project().join("registry")))?;
        Ok(())
    }
}

/// Returns cargo in a project, with the target directory of this workspace.
fn cargo_in(project: &Path) -> Command {
    let mut command = cargo();
    command.current_dir(project).env("CARGO_TARGET_DIR", root().join("target"));
    command
}

/// Returns the configuration of docs/how-to/use-a-local-registry.md, with the folder of the registry.
fn configuration(folder: &Path) -> String {
    let page = include_str!("../../../docs/how-to/use-a-local-registry.md");
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    text.replace("/path/to/registry", &folder.display().to_string())
}

/// Runs the controller until it has written its first object.
fn runs(windlass: &Path, controller: &Path) -> Result {
    let embedded = Embedded::start(windlass, &["--controllers=none"])?;
    let kubeconfig = embedded.kubeconfig();
    let started = Instant::now();
    let _running = Running(Command::new(controller).env("KUBECONFIG", &kubeconfig).stdin(Stdio::null()).spawn()?);
    loop {
        let mut get = Command::new(windlass);
        get.args(["get", "networkpolicies.networking.k8s.io", "deny-ingress", "--namespace=default"]);
        if get.env("KUBECONFIG", &kubeconfig).stderr(Stdio::null()).status()?.success() {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err("the controller of the README did not write its NetworkPolicy".into());
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A process that is stopped on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
