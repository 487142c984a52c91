//! Compiler messages for common mistakes of users.
//!
//! Each file in `mistakes/` is a program with a mistake. A comment that begins with `//~` contains our own diagnostic.
//! The compiler must print each of these texts, and each of its errors must contain at least one of them. Other output
//! may differ between compiler versions. The programs are compiled with the libraries of this test: `rustc` is called
//! with the arguments that Cargo would use.

use std::{
    ffi::OsString,
    fs, iter,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use serde::Deserialize;

/// The crates that the programs use.
const CRATES: [&str; 3] = ["windlass", "serde", "tokio"];

/// A compiler diagnostic.
#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    /// The text as the compiler prints it.
    rendered: String,
}

/// One library for each of [`CRATES`].
type Libraries = Vec<PathBuf>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/user_programs")
}

/// Returns the directory that contains this test's libraries.
fn dependencies() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Returns the errors of a program, as the compiler prints them.
fn errors(program: &Path, libraries: &Libraries) -> Vec<String> {
    let dependency = |folder: PathBuf| iter::once("dependency=".into()).chain([folder.into_os_string()]).collect();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=json", "-o"]);
    rustc.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(program.file_stem().unwrap()).with_extension("rmeta"));
    rustc.args(["-L".into(), dependency(dependencies()), program.as_os_str().to_owned()] as [OsString; 3]);
    for (name, library) in CRATES.iter().zip(libraries) {
        rustc.arg("--extern").arg(format!("{name}={}", library.display()));
    }
    let output = rustc.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let diagnostics = text.lines().map(|line| serde_json::from_str(line).expect("not of the compiler"));
    diagnostics
        // The last error only counts the others.
        .filter(|said: &Diagnostic| said.level == "error" && !said.rendered.starts_with("error: aborting"))
        .map(|said| said.rendered)
        .collect()
}

/// Returns the libraries of a crate, the newest first. There is one for each combination of features that was built.
fn built(name: &str) -> Vec<PathBuf> {
    let (start, end) = (format!("lib{name}-"), ".rlib");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&start) && name.ends_with(end)
    };
    let mut libraries: Vec<_> =
        fs::read_dir(dependencies()).unwrap().map(|file| file.unwrap().path()).filter(named).collect();
    libraries.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).and_then(|file| file.modified()).ok()));
    libraries
}

/// Returns the newest libraries that are compatible. They are compatible if programs without a mistake compile with
/// them.
fn libraries() -> Libraries {
    let programs = ["controller_in_ten_lines.rs", "controller_of_a_custom_kind.rs"].map(|name| folder().join(name));
    let sets = CRATES.iter().map(|name| built(name)).fold(vec![Libraries::new()], |sets, libraries| {
        let with = |set: &Libraries| -> Vec<Libraries> {
            libraries.iter().map(|library| set.iter().cloned().chain([library.clone()]).collect()).collect()
        };
        sets.iter().flat_map(with).collect()
    });
    let mut complaints = Vec::new();
    for set in sets {
        let found: Vec<_> = programs.iter().flat_map(|program| errors(program, &set)).collect();
        if found.is_empty() {
            return set;
        }
        complaints.push(found.join("\n"));
    }
    panic!("what is right does not compile:\n{}", complaints.first().map_or("no libraries", |first| first));
}

/// Returns the mismatch between the expected and the actual errors of a program.
fn wrong(program: &Path, libraries: &Libraries) -> Option<String> {
    let source = fs::read_to_string(program).unwrap();
    let words: Vec<_> = source.lines().filter_map(|line| line.trim().strip_prefix("//~")).map(str::trim).collect();
    assert!(!words.is_empty(), "{} does not say what it expects", program.display());
    let told = errors(program, libraries);
    let missing: Vec<_> = words.iter().filter(|words| !told.iter().any(|told| told.contains(**words))).collect();
    let foreign = told.iter().filter(|told| !words.iter().any(|words| told.contains(words))).count();
    let is_right = missing.is_empty() && foreign == 0;
    let program = program.display();
    (!is_right).then(|| format!("{program}: {foreign} other errors, and missing {missing:#?} in\n{}", told.join("\n")))
}

#[test]
fn ten_line_controller_compiles_and_mistakes_are_explained() {
    let libraries = libraries();
    let programs: Vec<_> = fs::read_dir(folder().join("mistakes")).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(programs.len() > 8);
    let wrong: Vec<_> = thread::scope(|scope| {
        let halves = programs.chunks(programs.len().div_ceil(2));
        let checks: Vec<_> = halves
            .map(|half| {
                scope.spawn(|| half.iter().filter_map(|program| wrong(program, &libraries)).collect::<Vec<_>>())
            })
            .collect();
        checks.into_iter().flat_map(|check| check.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
