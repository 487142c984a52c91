//! The command that writes the manifests of a project.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    files::{DEFINITIONS, File, Part},
    manifests::Manifests,
    problem::Problems,
};

const USAGE: &str = "usage: manifests crds|rbac|webhooks|policies|all [--policies] [--output-dir DIR] [--check]

Writes the manifests of this project below DIR (default: config): CustomResourceDefinitions, roles and webhooks. The rules
of its kinds are written as policies only if requested.
With --check, writes nothing, and fails if a file would change.";

/// The operation on the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Write,
    Check,
}

#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    /// One part, or all parts and the policies.
    parts: Vec<Part>,
    folder: PathBuf,
    mode: Mode,
}

/// Runs the manifest program: `crds|rbac|webhooks|policies|all [--policies] [--output-dir DIR] [--check]`. Call it from
/// `main`.
///
/// Returns exit code 1 if the manifests are invalid or differ from the files, and 2 for invalid arguments.
#[must_use]
#[allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a program")]
pub fn main(manifests: Manifests) -> ExitCode {
    let arguments = match Arguments::read(env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&manifests, &arguments) {
        Ok(said) => {
            for line in said {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut part, mut folder, mut mode) = (None, PathBuf::from("config"), Mode::Write);
        let mut with_policies = false;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--check" => mode = Mode::Check,
                "--policies" => with_policies = true,
                "--output-dir" => folder = arguments.next().ok_or("--output-dir requires a folder")?.into(),
                word => {
                    let named = match word {
                        "crds" => Part::Crds,
                        "rbac" => Part::Rbac,
                        "webhooks" => Part::Webhooks,
                        "policies" => Part::Policies,
                        "all" => Part::All,
                        _ => match word.strip_prefix("--output-dir=") {
                            Some(path) => {
                                folder = path.into();
                                continue;
                            }
                            None => return Err(format!("unknown argument {word:?}")),
                        },
                    };
                    if part.replace(named).is_some() {
                        return Err("expected one part, or all".to_owned());
                    }
                }
            }
        }
        let part = part.ok_or("no part is given")?;
        if with_policies && part != Part::All {
            return Err("--policies requires all".to_owned());
        }
        let parts = [part].into_iter().chain(with_policies.then_some(Part::Policies)).collect();
        Ok(Self { parts, folder, mode })
    }
}

/// Runs the command and returns a line per file.
fn run(manifests: &Manifests, arguments: &Arguments) -> Result<Vec<String>, String> {
    let Arguments { parts, folder, mode } = arguments;
    let mut files = Vec::new();
    for part in parts {
        files.extend(manifests.files(*part).map_err(|problems| told(&problems, Path::new("src")))?);
    }
    let outdated = files.iter().filter(|file| !file.is_written(folder)).collect::<Vec<_>>();
    let left_over = if parts.iter().any(|part| matches!(part, Part::Crds | Part::All)) {
        left_over(folder, &files)?
    } else {
        Vec::new()
    };
    match mode {
        Mode::Check if outdated.is_empty() && left_over.is_empty() => Ok(Vec::new()),
        Mode::Check => {
            let outdated =
                outdated.iter().map(|file| format!("{}: differs from the types", folder.join(&file.path).display()));
            let left_over = left_over.iter().map(|path| format!("{}: its kind no longer exists", path.display()));
            let lines = outdated.chain(left_over).collect::<Vec<_>>();
            Err(format!("{}\nregenerate them: windlass generate all", lines.join("\n")))
        }
        Mode::Write => {
            let mut said = Vec::new();
            for file in outdated {
                let path = folder.join(&file.path);
                write(&path, &file.text).map_err(|error| format!("writing {}: {error}", path.display()))?;
                said.push(format!("wrote {}", path.display()));
            }
            for path in left_over {
                fs::remove_file(&path).map_err(|error| format!("removing {}: {error}", path.display()))?;
                said.push(format!("removed {}", path.display()));
            }
            Ok(said)
        }
    }
}

/// Formats errors with their position in the sources, as far as it can be found.
fn told(problems: &Problems, sources: &Path) -> String {
    let mut lines = Vec::new();
    for problem in &problems.0 {
        lines.push(problem.to_string());
        if let Some((path, line)) = problem.rule.as_deref().and_then(|rule| find(sources, rule)) {
            lines.push(format!("  --> {}:{line}", path.display()));
        }
    }
    lines.join("\n")
}

/// Returns the file and line that contain a rule as a string literal of any form.
fn find(sources: &Path, rule: &str) -> Option<(PathBuf, usize)> {
    let escaped = format!("{rule:?}");
    let forms = [rule, escaped.trim_matches('"')];
    let mut entries: Vec<_> = fs::read_dir(sources).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        if path.is_dir() {
            return find(&path, rule);
        }
        let text = fs::read_to_string(&path).ok().filter(|_| path.extension().is_some_and(|end| end == "rs"))?;
        let line = text.lines().position(|line| forms.iter().any(|form| line.contains(form)))?;
        Some((path, line + 1))
    })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// Returns the generated CustomResourceDefinitions of kinds that no longer exist.
fn left_over(folder: &Path, files: &[File]) -> Result<Vec<PathBuf>, String> {
    let folder = folder.join(DEFINITIONS);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("reading {}: {error}", folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("reading {}: {error}", folder.display()))?.path();
        let is_kept = files.iter().any(|file| path.ends_with(&file.path));
        if !is_kept && fs::read_to_string(&path).is_ok_and(|text| File::is_ours(&text)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Arguments, String> {
        Arguments::read(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn arguments_are_parsed_or_rejected() {
        let arguments = read(&["--check", "all", "--output-dir", "x"]).unwrap();
        assert_eq!(arguments, Arguments { parts: vec![Part::All], folder: "x".into(), mode: Mode::Check });
        assert_eq!(read(&["all", "--policies"]).unwrap().parts, [Part::All, Part::Policies]);
        assert_eq!(read(&["crds", "--output-dir=y"]).unwrap().folder, Path::new("y"));
        for (wrong, why) in [
            (&[][..], "no part is given"),
            (&["crds", "rbac"], "expected one part, or all"),
            (&["--force"], "unknown argument \"--force\""),
            (&["crds", "--policies"], "--policies requires all"),
            (&["all", "--output-dir"], "--output-dir requires a folder"),
        ] {
            assert_eq!(read(wrong).unwrap_err(), why);
        }
    }

    #[test]
    fn invalid_rule_is_reported_with_its_line() {
        let sources = env::temp_dir().join(format!("windlass-manifests-rules-{}", std::process::id()));
        write(&sources.join("api/site.rs"), "struct Site {\n    #[schema(rule(rule = \"self > \\\"a\\\"\"))]\n}\n")
            .unwrap();
        let problem = |rule: Option<&str>| crate::Problem {
            place: "Site v1: spec".to_owned(),
            why: "no".to_owned(),
            rule: rule.map(str::to_owned),
        };
        let told =
            told(&Problems(vec![problem(Some("self > \"a\"")), problem(Some("other")), problem(None)]), &sources);
        let place = sources.join("api/site.rs");
        assert_eq!(
            told,
            format!("Site v1: spec: no\n  --> {}:2\nSite v1: spec: no\nSite v1: spec: no", place.display())
        );
        fs::remove_dir_all(&sources).unwrap();
    }

    #[test]
    fn files_are_written_checked_and_removed() {
        use windlass_api::rbac::Rule;
        let folder = env::temp_dir().join(format!("windlass-manifests-{}", std::process::id()));
        let rule = Rule { groups: &[""], resources: &["pods"], verbs: &["get"], ..Rule::NONE };
        let manifests = Manifests::new("shop").rules(&[rule]);
        let with = |mode| run(&manifests, &Arguments { parts: vec![Part::All], folder: folder.clone(), mode });
        assert!(with(Mode::Check).unwrap_err().contains("rbac/role.yaml: differs from the types"));
        assert_eq!(with(Mode::Write).unwrap().len(), 1);
        assert_eq!((with(Mode::Check), with(Mode::Write)), (Ok(vec![]), Ok(vec![])));
        let gone = folder.join("crd/bases/x_gone.yaml");
        write(&gone, &manifests.files(Part::Rbac).unwrap()[0].text).unwrap();
        let by_hand = folder.join("crd/bases/by_hand.yaml");
        write(&by_hand, "kind: CustomResourceDefinition\n").unwrap();
        assert!(with(Mode::Check).unwrap_err().contains("x_gone.yaml: its kind no longer exists"));
        assert_eq!(with(Mode::Write).unwrap(), [format!("removed {}", gone.display())]);
        assert!(by_hand.exists() && !gone.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
