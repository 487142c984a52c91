//! The five-minute path: what `windlass init` and `windlass create` write is built, linted and tested, as its user would, then run by `windlass run`, and asked
//! by an unmodified kubectl.

mod asked;
mod running;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Instant,
};

use crate::{Result, cargo::cargo, upstream::root};

/// The name of the project, and of its folder.
const PROJECT: &str = "website-operator";

/// From an empty folder on: a project alone must hold, and one with kinds in namespaces and of the cluster, in two versions, and of two groups.
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
    // A kind whose name, and that of an object of it, the files of a scaffold have for something else.
    Step::Windlass(&["create", "api", "--group=net", "--version=v1", "--kind=Event"]),
    Step::Windlass(&[
        "create",
        "webhook",
        "--group=net",
        "--version=v1",
        "--kind=Event",
        "--defaulting",
        "--programmatic-validation",
    ]),
    Step::Windlass(&["generate", "all", "--check"]),
    Step::Cargo(&["fmt", "--check"]),
    Step::Cargo(&["clippy", "--all-targets", "--", "--deny", "warnings"]),
    Step::Cargo(&["test"]),
];

/// What the user types.
enum Step {
    Windlass(&'static [&'static str]),
    Cargo(&'static [&'static str]),
}

/// The way so far: where it is gone, and what it took.
struct Way {
    windlass: PathBuf,
    folder: Folder,
    commands: usize,
    begun: Instant,
}

/// Runs the steps in a folder of their own, with the dependencies of this workspace.
pub(crate) fn run(windlass: &Path) -> Result {
    let windlass = windlass.canonicalize().map_err(|error| format!("{}: {error}", windlass.display()))?;
    let mut way = Way { windlass, folder: Folder::new("scaffold")?, commands: 0, begun: Instant::now() };
    fs::copy(root().join("Cargo.lock"), way.folder.project().join("Cargo.lock"))?;
    for step in STEPS {
        let (mut command, typed) = match step {
            Step::Windlass(arguments) => {
                let mut command = Command::new(&way.windlass);
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
        way.output(&mut command, &typed)?;
    }
    way.licensed()?;
    let lines = asked::reconciled(&mut way)?;
    let seconds = way.begun.elapsed().as_secs_f64();
    println!(
        "{} commands, {lines} lines of a manifest and none of code typed, {seconds:.0} s of machine time",
        way.commands
    );
    Ok(())
}

/// What the project says of the dependencies that it may have.
const DENY: &[&str] = &["deny", "check", "bans", "licenses", "sources"];

impl Way {
    /// Whether the project may have the dependencies that it has, by its own rules: where cargo-deny is, which is no part of cargo.
    fn licensed(&mut self) -> Result {
        if !self.folder.project().join("deny.toml").is_file() {
            return Err("the project has no deny.toml, which says what its dependencies may be".into());
        }
        if !cargo().args(["deny", "--version"]).output()?.status.success() {
            println!("          there is no cargo-deny here: the dependencies are not looked at");
            return Ok(());
        }
        let typed = format!("cargo {}", DENY.join(" "));
        self.output(cargo().args(DENY), &typed).map(drop)
    }

    /// What a command prints, which must end well.
    fn output(&mut self, command: &mut Command, typed: &str) -> Result<String> {
        let begun = Instant::now();
        let output = self.prepare(command).output().map_err(|error| format!("{typed}: {error}"))?;
        let [told, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        if !output.status.success() {
            return Err(format!("{typed}: {}\n{told}{complained}", output.status).into());
        }
        self.typed(begun, typed);
        Ok(told)
    }

    /// In the project, with the artefacts of this workspace: what it does not say of profiles is as here.
    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("CARGO_TARGET_DIR", root().join("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").env("CARGO_PROFILE_TEST_DEBUG", "line-tables-only");
        command.current_dir(self.folder.project())
    }

    /// Counts a command that was typed.
    fn typed(&mut self, begun: Instant, typed: &str) {
        self.commands += 1;
        println!("{:6.1} s  {typed}", begun.elapsed().as_secs_f64());
    }
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
