//! The flags for the simulated nodes.

use std::{error::Error, path::PathBuf, time::Duration};

use clap::Args;
use windlass_controllers::{Controllers, PodAnswers, Stages};

use crate::time_limits::positive;

/// More nodes than the largest cluster that Kubernetes supports.
const MOST_NODES: usize = 10_000;

#[derive(Args, Clone, Debug)]
pub(crate) struct SimulationFlags {
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = nodes)]
    pub(crate) nodes: usize,
    /// Number of zones over which the simulated nodes are spread evenly, by the labels topology.kubernetes.io/zone and
    /// topology.kubernetes.io/region; by default they have no zones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    zones: Option<u16>,
    /// File with rules for the life cycle of pods and nodes on the simulated nodes, with kind Stage as for kwok; can be
    /// repeated
    #[arg(long, value_name = "FILE")]
    stages: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) answers: PodAnswersFlags,
    /// Time without heartbeats after which a node is unreachable; by default 50s
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    node_monitor_grace_period: Option<Duration>,
}

/// The flag for the answers of simulated pods.
#[derive(Args, Clone, Debug)]
pub(crate) struct PodAnswersFlags {
    /// File with the results of commands (exec) in pods of the simulated nodes, and with their logs; can be repeated. By
    /// default, exec and logs of these pods fail
    #[arg(long, value_name = "FILE")]
    pod_answers: Vec<PathBuf>,
}

impl PodAnswersFlags {
    /// Reads the files. Returns `None` if there are none.
    pub(crate) fn load(&self) -> Result<Option<PodAnswers>, Box<dyn Error>> {
        let mut all = None;
        for file in &self.pod_answers {
            let answers = PodAnswers::read(file).map_err(|error| with_cause(&error))?;
            all = Some(match all {
                Some(earlier) => PodAnswers::and(earlier, answers),
                None => answers,
            });
        }
        Ok(all)
    }
}

impl SimulationFlags {
    /// Reads the files, and returns the controllers with these settings.
    pub(crate) fn load(&self, controllers: Controllers) -> Result<Controllers, Box<dyn Error>> {
        let mut stages = Stages::default();
        for file in &self.stages {
            stages = stages.and(Stages::read(file).map_err(|error| with_cause(&error))?)?;
        }
        let controllers = controllers.zones(self.zones.unwrap_or(0)).stages(stages);
        Ok(match self.node_monitor_grace_period {
            Some(grace) => controllers.node_monitor_grace_period(grace),
            None => controllers,
        })
    }
}

fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes) if nodes <= MOST_NODES => Ok(nodes),
        _ => Err(format!("expected a number from 0 to {MOST_NODES}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use windlass_api::{ContainerId, ContainerRuntime as _, Entropy};

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: SimulationFlags,
    }

    #[test]
    fn files_of_stages_are_read_and_checked() {
        let directory = std::env::temp_dir().join(format!("windlass-stages-{}", Entropy::os().uuid()));
        std::fs::create_dir_all(&directory).unwrap();
        let load = |names: &[&str]| {
            let files = names.iter().flat_map(|name| ["--stages".into(), directory.join(name).into_os_string()]);
            let flags = Command::try_parse_from(std::iter::once("up".into()).chain(files)).unwrap().flags;
            flags.load(Controllers::all()).map(drop).map_err(|error| error.to_string())
        };
        let stage = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\n\
                     spec: {resourceRef: {kind: Pod}, selector: {}}\n";
        std::fs::write(directory.join("a.yaml"), stage).unwrap();
        std::fs::write(directory.join("b.yaml"), stage.replace("name: a", "name: b")).unwrap();
        std::fs::write(directory.join("wrong.yaml"), stage.replace("selector", "selectors")).unwrap();
        assert_eq!(load(&["a.yaml", "b.yaml"]), Ok(()));
        assert!(load(&["a.yaml", "a.yaml"]).unwrap_err().contains("has a stage of this name"));
        assert!(load(&["wrong.yaml"]).unwrap_err().contains("wrong.yaml:4: unknown field `selectors`"));
        let error = load(&["none.yaml"]).unwrap_err();
        assert!(error.contains("cannot read") && error.contains("none.yaml: No such file"), "{error}");
        std::fs::remove_dir_all(directory).unwrap();
        assert!(Command::try_parse_from(["up", "--zones", "0"]).is_err());
    }

    #[test]
    fn files_of_answers_are_read_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let load = |names: &[&str]| {
            let files =
                names.iter().flat_map(|name| ["--pod-answers".into(), directory.path().join(name).into_os_string()]);
            let flags = Command::try_parse_from(std::iter::once("up".into()).chain(files)).unwrap().flags;
            flags.answers.load().map_err(|error| error.to_string())
        };
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("a.yaml", "exec: [{command: [a], stdout: first}]");
        write("b.yaml", "exec: [{stdout: second}]");
        write("wrong.yaml", "exec: [{exitCode: 300}]");
        assert!(load(&[]).unwrap().is_none());
        let answers = load(&["a.yaml", "b.yaml"]).unwrap().unwrap();
        let pod = serde_json::json!({});
        let container = ContainerId { pod: &pod, name: "main", now: windlass_api::jiff::Timestamp::UNIX_EPOCH };
        let stdout = |command: &str| answers.exec(&container, &[command]).unwrap().unwrap().stdout;
        assert_eq!([stdout("a"), stdout("b")], ["first", "second"]);
        let error = load(&["wrong.yaml"]).unwrap_err();
        assert!(
            error.ends_with("wrong.yaml:1: exec[0]: exitCode: 300 is not an exit code; expected 0 to 255"),
            "{error}"
        );
        let error = load(&["none.yaml"]).unwrap_err();
        assert!(error.contains("cannot read") && error.contains("none.yaml: No such file"), "{error}");
    }

    #[test]
    fn answers_of_the_book_and_of_the_tools_are_valid() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/how-to/answer-for-pods.md")).unwrap();
        let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(!PodAnswers::parse("answer-for-pods.md", example).unwrap().is_empty());
        for file in ["tools/operators/rabbitmq/pod-answers.yaml", "conformance/clients/pod-answers.yaml"] {
            assert!(!PodAnswers::read(root.join(file)).unwrap().is_empty());
        }
    }
}
