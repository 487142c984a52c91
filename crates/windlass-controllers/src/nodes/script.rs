//! The outcome of a container on a simulated node, as its command determines it.
//!
//! No image is ever run. Commands and `sh -c '…'` are interpreted as far as [`super::shell`] supports them. Images that
//! only serve or wait run forever. Any other container takes the default time of the nodes, and succeeds.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::{
    disk::{Disk, View},
    environment::{referenced, variables},
    shell::{ScriptEnvironment, ScriptOutcome, run_program, run_script},
};

/// The run time and exit code of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) lasts: RunTime,
    pub(crate) code: i32,
    /// The reaction to SIGTERM, if the command handles it.
    pub(crate) on_term: Option<Ending>,
}

/// The run time of a container. Defaults to the pace of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunTime {
    #[default]
    Usual,
    So(Duration),
    Forever,
}

/// The end of a container after SIGTERM. Without a known duration, the container must be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) after: Option<Duration>,
    pub(crate) code: i32,
}

/// The outcomes of a pod's started containers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts(Vec<Run>);

/// One run of a container.
#[derive(Clone, Debug)]
struct Run {
    container: String,
    restart: i32,
    script: Script,
}

impl Script {
    /// Runs the command of a container.
    fn of(pod: &Pod, container: &Container, disk: &mut Disk, seed: u64) -> Self {
        let variables = variables(pod, container);
        let words = container.command.iter().chain(&container.args).flatten();
        let words: Vec<_> = words.map(|word| referenced(word, &variables)).collect();
        if container.command.as_ref().is_none_or(Vec::is_empty) && only_waits(container, &words) {
            return Self { lasts: RunTime::Forever, ..Self::default() };
        }
        let environment = ScriptEnvironment { variables, files: View::new(disk, pod, container), seed };
        let program = words.first().and_then(|word| word.rsplit('/').next());
        let ran = match program {
            Some("sh" | "bash" | "ash" | "dash") => {
                let is_option = |word: &&String| word.starts_with('-') && !word.starts_with("--");
                let options: Vec<_> = words.iter().skip(1).take_while(is_option).collect();
                let has = |letter: char| options.iter().any(|option| option.contains(letter));
                match words.get(1 + options.len()) {
                    Some(script) if has('c') => {
                        run_script(script, words[2 + options.len()..].to_vec(), has('e'), environment)
                    }
                    _ => None,
                }
            }
            _ => run_program(&words, environment),
        };
        ran.map_or_else(Self::default, |ran| Self::from(&ran))
    }

    fn and(self, other: Self) -> Self {
        let lasts = match (self.lasts, other.lasts) {
            (RunTime::Forever, _) | (_, RunTime::Forever) => RunTime::Forever,
            (RunTime::So(one), RunTime::So(other)) => RunTime::So(one.max(other)),
            (RunTime::So(known), _) | (_, RunTime::So(known)) => RunTime::So(known),
            (RunTime::Usual, RunTime::Usual) => RunTime::Usual,
        };
        Self { lasts, code: if self.code == 0 { other.code } else { self.code }, on_term: None }
    }
}

impl From<&ScriptOutcome> for Script {
    fn from(ran: &ScriptOutcome) -> Self {
        let on_term = ran.on_term.as_ref().map(|ran| Ending { after: ran.after(), code: ran.code.unwrap_or_default() });
        let lasts = match (ran.code, ran.slept) {
            (None, _) => RunTime::Forever,
            (Some(_), Some(time)) => RunTime::So(time),
            (Some(_), None) => RunTime::Usual,
        };
        Self { lasts, code: ran.code.unwrap_or_default(), on_term }
    }
}

impl ScriptOutcome {
    fn after(&self) -> Option<Duration> {
        self.code.map(|_| self.slept.unwrap_or_default())
    }
}

impl Scripts {
    /// Runs the commands of containers that have started since the last call. `seed` returns the seed of `$RANDOM`.
    pub(crate) fn run(&mut self, pod: &Pod, disk: &mut Disk, mut seed: impl FnMut() -> u64) {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let status = statuses.iter().find(|status| status.name == container.name);
            let Some(status) = status.filter(|status| is_running(status)) else { continue };
            let known = self.0.iter().position(|run| run.container == container.name);
            if known.is_some_and(|known| self.0[known].restart == status.restart_count) {
                continue;
            }
            let script = Script::of(pod, container, disk, seed());
            let run = Run { container: container.name.clone(), restart: status.restart_count, script };
            match known {
                Some(known) => self.0[known] = run,
                None => self.0.push(run),
            }
        }
    }

    /// Returns the outcome of a container.
    pub(crate) fn get(&self, container: &str) -> Script {
        self.0.iter().find(|run| run.container == container).map(|run| run.script).unwrap_or_default()
    }

    /// Returns the outcome of the pod: it runs until the last container ends, and fails if one of them does.
    pub(crate) fn together(&self, containers: &[Container]) -> Script {
        let scripts = containers.iter().map(|container| self.get(&container.name));
        scripts.reduce(Script::and).unwrap_or_default()
    }
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// Reports whether an image that is run without a command runs until it is stopped.
fn only_waits(container: &Container, arguments: &[String]) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default().split([':', '@']).next();
    let serves = |argument: &String| {
        ["pause", "netexec", "serve-hostname", "test-webserver", "porter"].contains(&argument.as_str())
    };
    match name {
        Some("pause") => true,
        Some("agnhost") => arguments.first().is_none_or(serves),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
