//! `windlass migrate` on the kube-rs operator of `crates/windlass-scaffold/tests/kube-operator`: its test passes before
//! the migration and after it, and its CustomResourceDefinition keeps its names and fields.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::{Map, Value, json};

use crate::{Result, cargo::cargo, scaffold::Folder, upstream::root};

const OPERATOR: &str = "crates/windlass-scaffold/tests/kube-operator";
/// The library that runs the test's API server.
const FACADE: &str = "crates/windlass";
const FILES: [&str; 4] = ["Cargo.toml", "src/main.rs", "src/api.rs", "tests/operator.rs"];

/// The program of the operator.
const PROGRAM: &str = "bucket-operator";
/// The profile of generated projects, so that `cargo xtask scaffold` and this task share a build of the dependencies.
const PROFILE: &str = "
[profile.dev]
debug = \"line-tables-only\"

[profile.dev.package.\"*\"]
debug = false
debug-assertions = false
overflow-checks = false
";

/// Migrates a copy of the operator, with the dependencies of this workspace.
pub(crate) fn run(windlass: &Path) -> Result {
    let windlass = windlass.canonicalize().map_err(|error| format!("{}: {error}", windlass.display()))?;
    let begun = Instant::now();
    let folder = Folder::new("migrate")?;
    let project = folder.project();
    for folder in ["src", "tests"] {
        fs::create_dir_all(project.join(folder))?;
    }
    for file in FILES {
        fs::copy(root().join(OPERATOR).join(file), project.join(file))?;
    }
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    cargo_in(
        &project,
        &["add", "--quiet", "windlass", "--dev", "--features=envtest", "--path"],
        Some(&root().join(FACADE)),
    )?;
    let mut manifest = fs::OpenOptions::new().append(true).open(project.join("Cargo.toml"))?;
    manifest.write_all(PROFILE.as_bytes())?;
    cargo_in(&project, &["test", "--quiet"], None)?;
    let before = definition()?;
    let mut migrate = Command::new(&windlass);
    migrate.args(["migrate", "--from", "kube", "--write", "--windlass-path"]).arg(root()).current_dir(&project);
    let output = migrate.output()?;
    if !output.status.success() {
        return Err(format!("windlass migrate: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    cargo_in(&project, &["test", "--quiet"], None)?;
    let after = definition()?;
    if before != after {
        return Err(format!("the migration changes the CustomResourceDefinition:\n{before:#}\n{after:#}").into());
    }
    // The features of the dev-dependencies must not be necessary.
    cargo_in(&project, &["check", "--quiet"], None)?;
    println!(
        "the operator passes its test, and its CustomResourceDefinition has the same fields ({:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Returns the CustomResourceDefinition that the operator prints, as the test has built it. `cargo run` would compile its
/// dependencies once more, without the features of the dev-dependencies.
fn definition() -> Result<Value> {
    let program = root().join("target/debug").join(PROGRAM);
    let output = Command::new(&program).arg("--crd").stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} --crd: {}", program.display(), output.status).into());
    }
    Ok(comparable(&serde_json::from_slice(&output.stdout)?))
}

/// Runs cargo in the project, with the target directory of this workspace, and returns its output.
fn cargo_in(project: &Path, arguments: &[&str], path: Option<&Path>) -> Result<Vec<u8>> {
    let mut command = cargo();
    command.args(arguments).args(path).current_dir(project).stderr(Stdio::inherit());
    command.env("CARGO_TARGET_DIR", root().join("target"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_TEST_DEBUG", "false");
    let output = command.output()?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stdout);
        return Err(format!("cargo {} in the operator: {}\n{printed}", arguments.join(" "), output.status).into());
    }
    Ok(output.stdout)
}

/// Returns what the migration must preserve: names, scope, printer columns, and the fields of the schema. The libraries
/// describe and bound the fields differently.
fn comparable(definition: &Value) -> Value {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions = versions.map(|version| {
        let fields = fields(&version["schema"]["openAPIV3Schema"]);
        json!({
            "name": version["name"],
            "columns": version["additionalPrinterColumns"],
            "subresources": version["subresources"],
            "fields": fields,
        })
    });
    let names = ["kind", "plural", "singular", "shortNames"].map(|name| spec["names"][name].clone());
    json!({"group": spec["group"], "scope": spec["scope"], "names": names, "versions": versions.collect::<Vec<_>>()})
}

/// Returns the fields of a schema with their types, and those that are required.
fn fields(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let properties: Map<_, _> = properties.map(|(name, schema)| (name.clone(), fields(schema))).collect();
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    required.sort_by_key(ToString::to_string);
    let items = schema.get("items").map(fields);
    json!({"type": schema["type"], "properties": properties, "required": required, "items": items})
}
