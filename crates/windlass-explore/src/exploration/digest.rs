//! The digest of a scenario: results of an earlier exploration hold as long as it is equal.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

use crate::{run::Scenario, steps::Step};

/// Returns the digest of the steps, the CRDs, the invariants, the answers for pods, and the program with its arguments.
/// Executable steps, and arguments that are files, such as the program itself, are included with their content.
pub(super) fn of(scenario: &Scenario) -> String {
    let mut digest = Sha256::new();
    digest.update(format!("{scenario:?}"));
    let arguments = scenario.program.iter().map(Path::new);
    for path in arguments.chain(scenario.steps.iter().filter_map(Step::executable)) {
        let path = scenario.directory.as_ref().map_or_else(|| path.to_owned(), |directory| directory.join(path));
        digest.update(content(&path));
    }
    let digest = digest.finalize();
    digest[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the content of a file, or nothing for paths that are not files.
fn content(path: &Path) -> Vec<u8> {
    if path.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use windlass_controllers::PodAnswers;

    use super::*;

    #[test]
    fn digest_depends_on_steps_and_executables() {
        let directory = tempfile::tempdir().unwrap();
        let wait = "{apiVersion: v1, kind: Pod, metadata: {name: a}, condition: has(object.status.ready)}";
        let of_script = |content: &str, wait: &str| {
            fs::write(directory.path().join("step"), content).unwrap();
            let scenario = Scenario::new(["operator"]).directory(directory.path());
            of(&scenario.step(Step::wait("wait", wait).unwrap()).step(Step::execute("run", "step")))
        };
        let first = of_script("one", wait);
        assert_eq!(first, of_script("one", wait));
        assert_ne!(first, of_script("two", wait));
        assert_ne!(first, of_script("one", &wait.replace("ready", "phase")));
    }

    #[test]
    fn digest_depends_on_arguments_and_their_content() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("operator");
        let of_content = |content: &str, argument: &str| {
            fs::write(&program, content).unwrap();
            let scenario = Scenario::new(["operator", argument]).directory(directory.path());
            of(&scenario)
        };
        let first = of_content("v1", "--verbose");
        assert_eq!(first, of_content("v1", "--verbose"));
        assert_ne!(first, of_content("v2", "--verbose"));
        assert_ne!(first, of_content("v1", "--quiet"));
    }

    #[test]
    fn digest_depends_on_answers() {
        let of_answers = |stdout: &str| {
            let answers =
                PodAnswers::parse("a.yaml", &format!("exec: [{{command: [ls], stdout: '{stdout}'}}]")).unwrap();
            of(&Scenario::new(["operator"]).pod_answers(answers))
        };
        assert_eq!(of_answers("{{ .a }}"), of_answers("{{ .a }}"));
        assert_ne!(of_answers("{{ .a }}"), of_answers("{{ .b }}"));
        assert_ne!(of_answers("a"), of_answers("b"));
    }

    #[test]
    fn digest_depends_on_controllers() {
        let of_controllers = |names: &str| of(&Scenario::new(["operator"]).controllers(names.parse().unwrap()));
        assert_eq!(of_controllers("*,-job"), of_controllers("*,-job"));
        assert_ne!(of_controllers("*,-job"), of_controllers("*"));
    }
}
