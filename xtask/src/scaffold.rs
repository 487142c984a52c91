//! A user's first steps with `windlass init` and `windlass create`. The generated project is built, linted and tested,
//! then run by `windlass run` and queried with an unmodified kubectl.

mod queries;
mod running;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    time::Instant,
};

use crate::{
    Result,
    cargo::{as_in_a_shell, cargo, lints},
    upstream::root,
};

/// The name of the project and its directory.
const PROJECT: &str = "website-operator";

/// The steps from an empty directory: first the project alone, then with namespaced and cluster-scoped kinds, two
/// versions, and two groups that share a kind's name.
const STEPS: &[Step] = &[
    Step::Windlass(&["init", "--domain", "example.com"]),
    Step::Lint,
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
    // A kind whose name, and the name of its sample object, conflict with names in the generated files.
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
    // A kind of the same name in two groups.
    Step::Windlass(&["create", "api", "--group=net", "--version=v1", "--kind=Website"]),
    Step::Windlass(&[
        "create",
        "webhook",
        "--group=net",
        "--version=v1",
        "--kind=Website",
        "--programmatic-validation",
    ]),
    Step::Windlass(&["generate", "all", "--check"]),
    Step::Cargo(&["fmt", "--check"]),
    Step::Lint,
    Step::Cargo(&["test"]),
];

/// A step of the user.
enum Step {
    Windlass(&'static [&'static str]),
    Cargo(&'static [&'static str]),
    /// `cargo clippy --all-targets -- --deny warnings`, see [`linted`].
    Lint,
}

/// The state of the walk-through: the directory, the commands, and the elapsed time.
struct Walkthrough {
    windlass: PathBuf,
    folder: Folder,
    commands: usize,
    begun: Instant,
}

/// Runs the steps in a new directory, with the dependencies of this workspace.
pub(crate) fn run(windlass: &Path) -> Result {
    let windlass = windlass.canonicalize().map_err(|error| format!("{}: {error}", windlass.display()))?;
    let mut walkthrough =
        Walkthrough { windlass, folder: Folder::new("scaffold")?, commands: 0, begun: Instant::now() };
    fs::copy(root().join("Cargo.lock"), walkthrough.folder.project().join("Cargo.lock"))?;
    for step in STEPS {
        let (mut command, typed) = match step {
            Step::Windlass(arguments) => {
                let mut command = Command::new(&walkthrough.windlass);
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
            Step::Lint => (linted()?, "cargo clippy --all-targets -- --deny warnings, as a build".to_owned()),
        };
        walkthrough.output(&mut command, &typed)?;
    }
    walkthrough.licensed()?;
    let lines = queries::reconciled(&mut walkthrough)?;
    let seconds = walkthrough.begun.elapsed().as_secs_f64();
    println!(
        "{} commands, {lines} lines of a manifest and none of code typed, {seconds:.0} s of machine time",
        walkthrough.commands
    );
    Ok(())
}

/// Returns a build of all targets of a project with clippy as the compiler, and its warnings denied.
///
/// `cargo clippy` would check each dependency, which the later steps build anyway. Here they are only built, and only the
/// project itself is compiled twice.
fn linted() -> Result<Command> {
    let mut build = cargo();
    build.args(["test", "--no-run"]).envs(lints()?);
    Ok(build)
}

/// The cargo-deny checks of the project's dependencies.
const DENY: &[&str] = &["deny", "check", "bans", "licenses", "sources"];

impl Walkthrough {
    /// Checks the project's dependencies against its own rules. Skipped if cargo-deny is not installed.
    fn licensed(&mut self) -> Result {
        if !self.folder.project().join("deny.toml").is_file() {
            return Err("the project has no deny.toml with the rules for its dependencies".into());
        }
        if !cargo().args(["deny", "--version"]).output()?.status.success() {
            println!("          cargo-deny is not installed: dependencies are not checked");
            return Ok(());
        }
        let typed = format!("cargo {}", DENY.join(" "));
        self.output(cargo().args(DENY), &typed).map(drop)
    }

    /// Returns the output of a command. Returns an error if the command fails.
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

    /// Sets the project's directory and this workspace's target directory. Debug information, which only backtraces
    /// need, is omitted. `windlass` runs cargo too, which shares the builds of the other steps.
    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        as_in_a_shell(command);
        command.env("CARGO_TARGET_DIR", root().join("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_TEST_DEBUG", "false");
        command.current_dir(self.folder.project())
    }

    /// Counts a command and its duration.
    fn typed(&mut self, begun: Instant, typed: &str) {
        self.commands += 1;
        println!("{:6.1} s  {typed}", begun.elapsed().as_secs_f64());
    }
}

/// A directory outside the workspace. It is removed on drop.
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
