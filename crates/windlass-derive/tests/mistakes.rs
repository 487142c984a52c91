//! What a mistake looks like to whoever makes it: the message, and the place that it points to.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Source, and the compiler's errors: `line:column: error: message`.
const MISTAKES: &[(&str, &str)] = &[
    (
        "#[resource(version = \"v1\")]\nstruct Site { metadata: () }",
        "4:8: error: the group of the kind is not given: #[resource(group = \"example.com\", version = \"v1\")]",
    ),
    (
        "#[resource(group = \"x.io\", version = \"V1\")]\nstruct Site { metadata: () }",
        "3:38: error: \"V1\" is no name that the API takes: names consist of lower-case letters, digits and '-', and begin \
         and end with a letter or digit",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", group = \"y.io\")]\nstruct Site { metadata: () }",
        "3:44: error: given twice",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", scope = \"Galaxy\")]\nstruct Site { metadata: () }",
        "3:52: error: the scope is \"Namespaced\" or \"Cluster\"",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\", colour = \"red\")]\nstruct Site { metadata: () }",
        "3:44: error: expected group, version, kind, plural, scope, short_names or k8s_openapi",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\")]\nstruct Site { name: () }",
        "4:8: error: objects have metadata: give the struct a field `metadata: ObjectMeta`",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\")]\nenum Site { A }",
        "4:6: error: the objects of a kind are structs",
    ),
    (
        "#[resource(group = \"x.io\", version = \"v1\")]\nstruct Site<T> { metadata: T }",
        "4:12: error: a kind is one type: it has no parameters",
    ),
];

/// The derive as the compiler loads it: beside this test, the newest where there are several.
fn the_derive() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("{}windlass_derive-", env::consts::DLL_PREFIX))
            && name.ends_with(env::consts::DLL_SUFFIX)
    };
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_it);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the derive has been built")
}

fn errors(source: &str) -> Vec<String> {
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["-", "--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short", "--out-dir"])
        .arg(env::temp_dir())
        .arg("--extern")
        .arg(format!("windlass_derive={}", the_derive().display()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let source = format!("#![allow(dead_code)]\n#[derive(windlass_derive::Resource)]\n{source}\n");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().filter_map(|line| Some(line.strip_prefix("<anon>:")?.to_owned())).collect()
}

#[test]
fn each_mistake_is_named_where_it_stands() {
    for (source, error) in MISTAKES {
        assert_eq!(errors(source), [*error], "{source}");
    }
}
