//! Tests of the commands that write projects, with typed command lines.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{fs, net::TcpListener, path::Path, process::Command};

use windlass_api::Entropy;

/// Runs a command. Returns its output and its error messages.
fn windlass(folder: &Path, line: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(line.split(' ')).current_dir(folder).env_remove("WINDLASS_LOG");
    let output = command.output().unwrap();
    let [told, complained] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (told, complained)
}

#[test]
fn a_project_is_worked_on_from_anywhere_inside_it() {
    let folder = std::env::temp_dir().join(format!("windlass-projects-{}", Entropy::os().uuid()));
    let project = folder.join("shop");
    fs::create_dir_all(&project).unwrap();
    let (told, _) = windlass(&project, "init");
    assert!(told.contains("\ndomain: my.domain by default;"), "{told}");
    let (told, complained) = windlass(&project, "init --force --domain example.com");
    assert!(complained.is_empty() && !told.contains("my.domain"), "{told}{complained}");
    let (told, complained) = windlass(&project, "init --force");
    assert!(told.starts_with("next: ") && complained.is_empty(), "it keeps its domain: {told}{complained}");

    let inside = project.join("src/bin");
    let (told, complained) = windlass(&inside, "create api --group shop --version v1 --kind Website");
    let (first, last) = (told.lines().next().unwrap(), told.lines().last().unwrap());
    assert!(first.starts_with("in ") && first.ends_with("/shop:"), "{told}{complained}");
    assert_eq!(last, "next: cargo test, or windlass run");
    assert!(project.join("src/api/v1/website.rs").is_file() && !inside.join("src").exists());
    let (told, _) = windlass(&inside, "edit --network-policy");
    assert!(told.ends_with("once it has the operator's image (README.md): kubectl apply --kustomize config/default\n"));
    let (_, complained) = windlass(&folder, "edit --network-policy");
    assert!(complained.contains("PROJECT: no such file; `windlass init"), "{complained}");

    let (_, complained) = windlass(&project, "init --force --windlass-path src");
    assert!(complained.contains("src/crates/windlass/Cargo.toml: not the Cargo.toml"), "{complained}");
    fs::remove_dir_all(folder).unwrap();
}

/// The program that writes manifests runs in the project's folder, but a relative path refers to the current folder.
#[cfg(unix)]
#[test]
fn manifests_are_written_from_anywhere_inside_a_project() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = std::env::temp_dir().join(format!("windlass-projects-{}", Entropy::os().uuid()));
    fs::create_dir_all(folder.join("bin")).unwrap();
    let folder = folder.canonicalize().unwrap();
    windlass(&folder, "init --project-name shop");
    let shown = folder.display();
    let artifact = format!(
        r#"{{"reason":"compiler-artifact","target":{{"kind":["bin"],"name":"manifests"}},"executable":"{shown}/bin/manifests"}}"#
    );
    for (name, script) in [
        ("cargo", format!("#!/bin/sh\necho $* >asked\necho '{artifact}'\n")),
        ("manifests", "#!/bin/sh\necho $PWD $*\n".to_owned()),
    ] {
        let path = folder.join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut generate = Command::new(env!("CARGO_BIN_EXE_windlass"));
    generate.args(["generate", "crds", "--output-dir", "out"]).env("CARGO", folder.join("bin/cargo"));
    let output = generate.current_dir(folder.join("src")).output().unwrap();
    let expected = format!("{shown} crds --output-dir {shown}/src/out\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    // The features of the dev-dependencies are enabled, as for `cargo test`, so that both share one build.
    let asked = fs::read_to_string(folder.join("asked")).unwrap();
    assert_eq!(asked, "build --bin manifests --examples --message-format json-render-diagnostics\n");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn port_in_use_error_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (_, complained) = windlass(Path::new("/"), &format!("up --bind {address} --kubeconfig /nowhere/config"));
    let expected = format!("listening on {address}: the address is in use; set another address with --bind ADDR:PORT");
    assert!(complained.contains(&expected), "{complained}");
}
