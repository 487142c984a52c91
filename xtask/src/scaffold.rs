//! What `windlass init` and `windlass create` write is built, linted and tested, as its user would.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Instant,
};

use crate::{Result, cargo::cargo, upstream::root};

/// The name of the project, and of its folder.
const PROJECT: &str = "website-operator";

/// From an empty folder on: a project alone must hold, and one with kinds in namespaces and of the cluster, in two versions, of two groups.
const STEPS: &[Step] = &[
    Step::Windlass(&["init", "--domain", "example.com"]),
    Step::Cargo(&["clippy", "--all-targets", "--", "--deny", "warnings"]),
    Step::Windlass(&["create", "api", "--group", "shop", "--version", "v1", "--kind", "Website"]),
    Step::Windlass(&[
        "create",
        "webhook",
        "--group=shop",
        "--version=v1",
        "--kind=Website",
        "--defaulting",
        "--programmatic-validation",
    ]),
    Step::Windlass(&["create", "api", "--group", "shop", "--version", "v1beta1", "--kind", "Website"]),
    Step::Windlass(&["create", "webhook", "--group=shop", "--version=v1", "--kind=Website", "--conversion"]),
    Step::Windlass(&["create", "api", "--group=net", "--version=v1alpha1", "--kind=HTTPGate", "--namespaced=false"]),
    Step::Windlass(&["create", "webhook", "--group=net", "--version=v1alpha1", "--kind=HTTPGate", "--defaulting"]),
    Step::Windlass(&["generate", "crds", "--check"]),
    Step::Cargo(&["fmt", "--check"]),
    Step::Cargo(&["clippy", "--all-targets", "--", "--deny", "warnings"]),
    Step::Cargo(&["test"]),
];

/// What the user types.
enum Step {
    Windlass(&'static [&'static str]),
    Cargo(&'static [&'static str]),
}

/// Runs the steps in a folder of their own, with the dependencies of this workspace.
pub(crate) fn run(windlass: &Path) -> Result {
    let windlass = windlass.canonicalize().map_err(|error| format!("{}: {error}", windlass.display()))?;
    let folder = Folder::new("scaffold")?;
    fs::copy(root().join("Cargo.lock"), folder.project().join("Cargo.lock"))?;
    for step in STEPS {
        let (mut command, typed) = match step {
            Step::Windlass(arguments) => {
                let mut command = Command::new(&windlass);
                command.args(*arguments);
                if arguments.contains(&"init") {
                    command.arg("--windlass-path").arg(root());
                }
                (command, format!("windlass {}", arguments.join(" ")))
            }
            Step::Cargo(arguments) => {
                let mut command = cargo();
                command.args(*arguments);
                (command, format!("cargo {}", arguments.join(" ")))
            }
        };
        command.env("CARGO_TARGET_DIR", root().join("target"));
        let begun = Instant::now();
        let output = command.current_dir(folder.project()).output().map_err(|error| format!("{typed}: {error}"))?;
        if !output.status.success() {
            let [told, complained] =
                [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            return Err(format!("{typed}: {}\n{told}{complained}", output.status).into());
        }
        println!("{:6.1} s  {typed}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Goes with its owner. It is outside of the workspace, whose member the project is not.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let folder = Self(env::temp_dir().join(format!("windlass-{purpose}-{}", process::id())));
        fs::create_dir_all(folder.project())?;
        Ok(folder)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.0.join(PROJECT)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
