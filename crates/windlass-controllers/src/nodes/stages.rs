//! Stages: rules that move pods and nodes through a life cycle, in the format of kwok.
//!
//! An object follows the stages from the first moment in which one of them selects it. Until then, it has the default
//! life cycle. [`file`] reads the files, [`player`] chooses the stage of an object, and [`steps`] writes its changes.

mod environment;
mod file;
mod jq;
pub(super) mod player;
mod rules;
pub(super) mod steps;
pub(super) mod template;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;

use self::rules::Stage;
pub(super) use self::{environment::Scene, player::Player};

/// Rules for the life cycle of pods and nodes on the simulated nodes: the stages of kwok, of API version
/// `kwok.x-k8s.io/v1alpha1`.
///
/// ```
/// use windlass_controllers::Stages;
///
/// let stages = Stages::parse(
///     "stages.yaml",
///     r#"
/// apiVersion: kwok.x-k8s.io/v1alpha1
/// kind: Stage
/// metadata: {name: fail}
/// spec:
///   resourceRef: {kind: Pod}
///   selector:
///     matchLabels: {fails: "true"}
///     matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]
///   delay: {durationMilliseconds: 5000}
///   next: {statusTemplate: "phase: Failed"}
/// "#,
/// )?;
/// assert!(!stages.is_empty());
/// # Ok::<_, windlass_controllers::StagesError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "stages do nothing until controllers are given them"]
pub struct Stages {
    pub(super) pods: Vec<Arc<Stage>>,
    pub(super) nodes: Vec<Arc<Stage>>,
}

/// A file of stages that cannot be used, or a template that fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StagesError {
    /// The file cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not valid, or it has a field that is not supported.
    #[error("{place}: {message}")]
    Invalid {
        /// The place in the file.
        place: StagePlace,
        /// The cause, with the field.
        message: String,
    },
}

/// A place in a file of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StagePlace {
    /// The name of the file.
    pub file: Arc<str>,
    /// The line, if it is known; the first one is 1.
    pub line: Option<u64>,
    /// The name of the stage, if it is known.
    pub stage: Option<String>,
}

impl Stages {
    /// Reads a file of stages.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, StagesError> {
        let path = path.as_ref();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&path.display().to_string(), &text),
            Err(source) => Err(StagesError::Read { file: path.to_owned(), source }),
        }
    }

    /// Parses the YAML documents of a file of stages. `file` is its name in errors.
    ///
    /// A field that is not supported is an error, as is a template with a function that is not supported.
    pub fn parse(file: &str, text: &str) -> Result<Self, StagesError> {
        file::parse(file, text)
    }

    /// Adds the stages of another file. Two stages of a kind must not have the same name.
    pub fn and(mut self, others: Self) -> Result<Self, StagesError> {
        for (ours, theirs) in [(&mut self.pods, others.pods), (&mut self.nodes, others.nodes)] {
            for stage in theirs {
                if let Some(known) = ours.iter().find(|known| known.name == stage.name) {
                    let message = format!("{} has a stage of this name, too", known.place());
                    return Err(StagesError::Invalid { place: stage.place(), message });
                }
                ours.push(stage);
            }
        }
        Ok(self)
    }

    /// Returns `true` if there are no stages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nodes.is_empty()
    }
}

impl fmt::Display for StagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.stage {
            Some(stage) => write!(f, ": stage {stage:?}"),
            None => Ok(()),
        }
    }
}
