//! Answers for pods: rules for the results of commands and for the logs of containers that do not run.
//!
//! [`file`] reads the files. The server calls the rules through [`ContainerRuntime`], and decides itself whether a
//! container runs.

mod file;

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use regex::Regex;
use serde_json::{Value, json};
use thiserror::Error;
use windlass_api::{CommandResult, ContainerId, ContainerLog, ContainerRuntime};

use super::{
    fleet::FAIL,
    stages::template::{Environment, Template},
};

/// The functions in the templates of logs, and the one that only those of commands have.
const FUNCTIONS: [&str; 3] = ["Now", "Container", "Command"];
const COMMAND: &str = FUNCTIONS[2];

/// Rules for the results of commands and for the logs of simulated pods.
///
/// The first rule that matches answers. A command without a rule fails as if the container had no such executable, and a
/// log without a rule is empty.
///
/// ```
/// use windlass_controllers::PodAnswers;
///
/// let answers = PodAnswers::parse(
///     "answers.yaml",
///     r#"
/// exec:
/// - command: [rabbitmqctl, status]
///   labels: {app.kubernetes.io/name: rabbit}
///   stdout: "Status of node {{ .metadata.name }}\n"
/// - commandPrefix: [rabbitmqctl]
///   stderr: "unknown command\n"
///   exitCode: 64
/// logs:
/// - container: rabbitmq
///   text: |
///     started
/// "#,
/// )?;
/// assert!(!answers.is_empty());
/// # Ok::<_, windlass_controllers::PodAnswersError>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "answers do nothing until a server is given them"]
pub struct PodAnswers {
    commands: Vec<Arc<CommandRule>>,
    logs: Vec<Arc<LogRule>>,
}

/// A file of answers that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PodAnswersError {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not valid.
    #[error("{place}: {message}")]
    Invalid {
        /// The file, the line if it is known, and the rule, such as `answers.yaml:3: exec[0]`.
        place: String,
        /// The cause, with the field.
        message: String,
    },
}

/// A rule for the result of a command.
#[derive(Debug)]
struct CommandRule {
    place: Place,
    pods: PodMatcher,
    command: CommandMatcher,
    stdout: Text,
    stderr: Text,
    exit_code: u8,
    delay: Duration,
}

/// A rule for the log of a container.
#[derive(Debug)]
struct LogRule {
    place: Place,
    pods: PodMatcher,
    text: Text,
    previous: Option<Text>,
    interval: Duration,
}

/// The place of a rule.
#[derive(Clone, Debug)]
struct Place {
    file: Arc<str>,
    line: u64,
    /// The list and the index of the rule, such as `exec[0]`.
    rule: String,
}

/// Selects containers. All fields that are set must match.
#[derive(Debug)]
struct PodMatcher {
    namespace: Option<String>,
    pod: Option<String>,
    labels: BTreeMap<String, String>,
    container: Option<String>,
}

/// Selects commands.
#[derive(Debug)]
enum CommandMatcher {
    Any,
    Exact(Vec<String>),
    Prefix(Vec<String>),
    /// A pattern for the arguments, joined by spaces.
    Pattern(Regex),
}

/// An output: a template, or a text without actions, which is shared.
#[derive(Clone, Debug)]
enum Text {
    Fixed(Bytes),
    Template {
        template: Arc<Template>,
        field: &'static str,
        /// The number of the line in the file before the first one of the template.
        lines_before: u64,
    },
}

/// The values of the functions in a template.
struct Scene<'a> {
    container: &'a str,
    command: &'a [&'a str],
    now: Timestamp,
}

impl PodAnswers {
    /// Reads a file of answers.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PodAnswersError> {
        let path = path.as_ref();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&path.display().to_string(), &text),
            Err(source) => Err(PodAnswersError::Read { file: path.to_owned(), source }),
        }
    }

    /// Parses a file of answers. `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, PodAnswersError> {
        file::parse(file, text)
    }

    /// Adds the rules of another file after these.
    pub fn and(mut self, others: Self) -> Self {
        self.commands.extend(others.commands);
        self.logs.extend(others.logs);
        self
    }

    /// Returns `true` if there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.logs.is_empty()
    }
}

impl ContainerRuntime for PodAnswers {
    fn is_reachable(&self, node: &Value) -> bool {
        node["metadata"]["annotations"][FAIL] != "true"
    }

    fn exec(&self, container: &ContainerId<'_>, command: &[&str]) -> Result<Option<CommandResult>, String> {
        let matches = |rule: &&Arc<CommandRule>| rule.pods.matches(container) && rule.command.matches(command);
        let Some(rule) = self.commands.iter().find(matches) else {
            let (pod, name) = (&container.pod["metadata"]["name"], container.name);
            tracing::info!(%pod, container = name, ?command, "no rule answers this command");
            return Ok(None);
        };
        let scene = Scene { container: container.name, command, now: container.now };
        let render = |text: &Text| text.render(&rule.place, container.pod, &scene);
        let (stdout, stderr) = (render(&rule.stdout)?, render(&rule.stderr)?);
        Ok(Some(CommandResult { stdout, stderr, exit_code: rule.exit_code, delay: rule.delay }))
    }

    fn log(&self, container: &ContainerId<'_>, previous: bool) -> Result<ContainerLog, String> {
        let Some(rule) = self.logs.iter().find(|rule| rule.pods.matches(container)) else {
            return Ok(ContainerLog::default());
        };
        let text = if previous { rule.previous.as_ref().unwrap_or(&rule.text) } else { &rule.text };
        let scene = Scene { container: container.name, command: &[], now: container.now };
        let text = text.render(&rule.place, container.pod, &scene)?;
        Ok(ContainerLog { text, interval: rule.interval })
    }
}

impl PodMatcher {
    fn matches(&self, container: &ContainerId<'_>) -> bool {
        let metadata = &container.pod["metadata"];
        let is =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|wanted| found == Some(wanted));
        is(&self.namespace, metadata["namespace"].as_str())
            && is(&self.pod, metadata["name"].as_str())
            && is(&self.container, Some(container.name))
            && self.labels.iter().all(|(key, value)| metadata["labels"][key].as_str() == Some(value))
    }
}

impl CommandMatcher {
    fn matches(&self, command: &[&str]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(arguments) => command == arguments.as_slice(),
            Self::Prefix(arguments) => command.len() >= arguments.len() && command[..arguments.len()] == **arguments,
            Self::Pattern(pattern) => pattern.is_match(&command.join(" ")),
        }
    }
}

impl Text {
    fn render(&self, place: &Place, pod: &Value, scene: &Scene<'_>) -> Result<Bytes, String> {
        match self {
            Self::Fixed(text) => Ok(text.clone()),
            Self::Template { template, field, lines_before } => match template.render(pod, scene) {
                Ok(text) => Ok(text.into()),
                Err(error) => {
                    let place = Place { line: lines_before + error.line as u64, ..place.clone() };
                    let message = format!("{place}: {field}: {}", error.message);
                    tracing::warn!("{message}");
                    Err(message)
                }
            },
        }
    }
}

impl Environment for Scene<'_> {
    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String> {
        match (name, arguments) {
            ("Now", []) => Ok(json!(self.now.to_string())),
            ("Container", []) => Ok(json!(self.container)),
            (COMMAND, []) => Ok(json!(self.command)),
            (_, arguments) => Err(format!("{} arguments are too many", arguments.len())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// Shows all rules with their texts: explorations with different answers must differ.
impl fmt::Debug for PodAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodAnswers").field("commands", &self.commands).field("logs", &self.logs).finish()
    }
}

#[cfg(test)]
mod tests;
