//! `windlass migrate` on the kube-rs operator of `crates/windlass-scaffold/tests/kube-operator`: its test passes before
//! the migration and after it, and its CustomResourceDefinition keeps its names and fields.

use std::{
    fs,
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
    let before = definition(&project)?;
    cargo_in(&project, &["test", "--quiet"], None)?;
    let mut migrate = Command::new(&windlass);
    migrate.args(["migrate", "--from", "kube", "--write", "--windlass-path"]).arg(root()).current_dir(&project);
    let output = migrate.output()?;
    if !output.status.success() {
        return Err(format!("windlass migrate: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let after = definition(&project)?;
    if before != after {
        return Err(format!("the migration changes the CustomResourceDefinition:\n{before:#}\n{after:#}").into());
    }
    cargo_in(&project, &["test", "--quiet"], None)?;
    println!(
        "the operator passes its test, and its CustomResourceDefinition has the same fields ({:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Compiles the operator, and returns the CustomResourceDefinition that it prints.
fn definition(project: &Path) -> Result<Value> {
    let printed = cargo_in(project, &["run", "--quiet", "--", "--crd"], None)?;
    Ok(comparable(&serde_json::from_slice(&printed)?))
}

/// Runs cargo in the project, with the target directory of this workspace, and returns its output.
fn cargo_in(project: &Path, arguments: &[&str], path: Option<&Path>) -> Result<Vec<u8>> {
    let mut command = cargo();
    command.args(arguments).args(path).current_dir(project).stderr(Stdio::inherit());
    command.env("CARGO_TARGET_DIR", root().join("target"));
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
