//! The pod lifecycle: computes a kubelet's next step as a function of the pod.
//!
//! A pod passes through Pending (not seen yet), Pending (containers being created) and Running. Pods whose restart
//! policy is not `Always` then end with Succeeded or Failed, depending on their commands ([`super::script`]), or
//! restart failed containers in place. Deleted pods stop their containers and are removed. A pod whose host ports are
//! taken is rejected, and a pod that exceeds its deadline fails.

use std::{net::Ipv4Addr, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, EphemeralContainer, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_api::ObjectExt;

use super::script::{Ending, RunTime, Script, Scripts};
use crate::pods;

/// The exit code of a killed container.
const KILLED: i32 = 137;
/// The back-off before the first restart of a failed container. It doubles with each restart, up to the maximum.
const FIRST_RESTART: Duration = Duration::from_secs(10);
const LONGEST_RESTART: Duration = Duration::from_mins(5);

/// The annotation that keeps a running pod unready if its value is `false`.
const READY: &str = "windlass.dev/ready";

pub(crate) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub(crate) const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
pub(crate) const NODE_PORTS: &str = "NodePorts";
pub(crate) const NODE_PORTS_MESSAGE: &str =
    "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";

/// The next step for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Do nothing until the pod changes.
    Rest,
    /// Wait until this stage is over.
    Wait(Stage),
    /// Write this status.
    Report(Box<PodStatus>),
    /// Remove the stopped pod from the API.
    Remove,
}

/// A stage of the lifecycle that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Pulling images and creating containers.
    Start,
    /// The run of containers that terminate.
    Work,
    /// The run of containers whose commands determine the duration.
    Sleep(Duration),
    /// The back-off before failed containers are restarted.
    BackOff(Duration),
    /// Stopping containers.
    Stop,
    /// Stopping containers, if a command handles SIGTERM and determines the duration.
    Term(Duration),
}

/// The addresses that a pod gets from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host_ip: Ipv4Addr,
    /// The pod's address. `None` if the node's range is used up: the pod stays pending.
    pub(crate) pod_ip: Option<Ipv4Addr>,
}

/// Computes the next step. `due` returns `true` if the pod has completed a stage.
pub(crate) fn next_step(
    pod: &Pod,
    place: Place,
    scripts: &Scripts,
    mut due: impl FnMut(Stage) -> bool,
    now: Timestamp,
) -> Step {
    let report = Report { pod, place, scripts, now };
    if pod.is_deleting() {
        return match (has_stopped(pod), pod.metadata.deletion_grace_period_seconds) {
            // Already removed, except for other finalizers.
            (true, Some(0)) => Step::Rest,
            (true, _) => Step::Remove,
            (false, grace) => match report.stop(grace_of(grace)) {
                stage if !due(stage) => Step::Wait(stage),
                _ => report.changed(report.stopped(grace_of(grace))),
            },
        };
    }
    if deadline(pod).is_some_and(|deadline| deadline <= now) {
        return report.changed(report.expired());
    }
    match pods::phase(pod) {
        "Succeeded" | "Failed" => Step::Rest,
        "Running" => match back_off(pod).map(Stage::BackOff) {
            Some(stage) if !due(stage) => Step::Wait(stage),
            _ => match (report.changed(report.running()), report.work()) {
                (Step::Rest, Some(stage)) if due(stage) && report.restarts() => report.changed(report.crashed()),
                (Step::Rest, Some(stage)) if due(stage) => report.changed(report.ended(|script| script.code)),
                (Step::Rest, Some(stage)) => Step::Wait(stage),
                (step, _) => step,
            },
        },
        _ if !is_being_created(pod) => report.changed(report.creating()),
        _ if place.pod_ip.is_none() => Step::Rest,
        _ if due(Stage::Start) => report.changed(report.running()),
        _ => Step::Wait(Stage::Start),
    }
}

/// Returns `true` if the containers terminate: the restart policy is not `Always`.
fn is_meant_to_end(pod: &Pod) -> bool {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    matches!(policy, Some("Never" | "OnFailure"))
}

fn grace_of(seconds: Option<i64>) -> Duration {
    Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default())
}

/// Reports whether the node has not seen the pod before.
pub(crate) fn is_new(pod: &Pod) -> bool {
    !pods::is_finished(pod) && pod.status.as_ref().is_none_or(|status| status.start_time.is_none())
}

/// Returns the active deadline of a pod that has not finished.
pub(crate) fn deadline(pod: &Pod) -> Option<Timestamp> {
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    let started = pod.status.as_ref()?.start_time.as_ref()?.0;
    if pods::is_finished(pod) || pod.is_deleting() {
        return None;
    }
    Timestamp::from_second(started.as_second().checked_add(seconds)?).ok()
}

/// Returns the status of a pod that its node rejects because its host ports are taken.
pub(crate) fn rejected(pod: &Pod, now: Timestamp) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    status.phase = Some("Failed".to_owned());
    status.reason = Some(NODE_PORTS.to_owned());
    status.message = Some(format!("Pod was rejected: {NODE_PORTS_MESSAGE}"));
    status.start_time.get_or_insert(Time(now));
    status.observed_generation = pod.metadata.generation;
    status
}

/// Returns the back-off until the pod's containers are restarted.
fn back_off(pod: &Pod) -> Option<Duration> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let waiting = statuses.iter().filter(|status| status.state.as_ref().is_some_and(|state| state.waiting.is_some()));
    let restarts = waiting.map(|status| status.restart_count).max()?;
    let doublings = u32::try_from(restarts).unwrap_or(0).min(16);
    Some(FIRST_RESTART.saturating_mul(1 << doublings).min(LONGEST_RESTART))
}

fn is_being_created(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| status.start_time.is_some() && status.container_statuses.is_some())
}

/// Returns `true` if no container of the pod runs: all have ended, or none was started.
fn has_stopped(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return true };
    let mut containers = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    pods::is_finished(pod) || containers.all(|state| state.running.is_none())
}

/// Derives new statuses of a pod from its current one.
struct Report<'p> {
    pod: &'p Pod,
    place: Place,
    scripts: &'p Scripts,
    now: Timestamp,
}

/// The conditions of a pod, in the order in which they become true.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Creating,
    Running,
    Crashed,
    Ended,
}

impl Report<'_> {
    fn changed(&self, status: PodStatus) -> Step {
        if self.pod.status.as_ref() == Some(&status) { Step::Rest } else { Step::Report(Box::new(status)) }
    }

    /// Returns the stage in which a terminating pod runs its containers, or `None` for other pods.
    fn work(&self) -> Option<Stage> {
        match self.scripts.together(self.main()).lasts {
            _ if !is_meant_to_end(self.pod) => None,
            RunTime::Usual => Some(Stage::Work),
            RunTime::So(time) => Some(Stage::Sleep(time)),
            RunTime::Forever => None,
        }
    }

    /// Reports whether the containers fail and are restarted in place.
    fn restarts(&self) -> bool {
        let policy = self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        policy == Some("OnFailure") && self.scripts.together(self.main()).code != 0
    }

    /// Returns the stage in which the containers stop. A container that handles the signal has until the end of the
    /// grace period.
    fn stop(&self, grace: Duration) -> Stage {
        let handled = self.main().iter().filter_map(|container| self.scripts.get(&container.name).on_term);
        match handled.map(|ending| ending.after.unwrap_or(grace).min(grace)).max() {
            Some(time) if is_meant_to_end(self.pod) && !time.is_zero() => Stage::Term(time),
            _ => Stage::Stop,
        }
    }

    /// Returns the status of a stopped pod. Containers that serve end with exit code 0. Containers that terminate by
    /// themselves are killed, unless their script handles SIGTERM within the grace period.
    fn stopped(&self, grace: Duration) -> PodStatus {
        let works = is_meant_to_end(self.pod);
        self.ended(|script| match script.on_term {
            Some(Ending { after: Some(after), code }) if works && after <= grace => code,
            _ if works => KILLED,
            _ => 0,
        })
    }

    /// Returns the status of a pod that exceeded its deadline; its containers are killed.
    fn expired(&self) -> PodStatus {
        let mut status = if pods::phase(self.pod) == "Running" { self.ended(|_| KILLED) } else { self.base() };
        status.phase = Some("Failed".to_owned());
        status.reason = Some(DEADLINE_EXCEEDED.to_owned());
        status.message = Some(DEADLINE_MESSAGE.to_owned());
        self.conditions(&mut status, Progress::Ended);
        status
    }

    fn creating(&self) -> PodStatus {
        let mut status = self.base();
        status.phase = Some("Pending".to_owned());
        status.container_statuses =
            Some(self.containers(self.main(), |_, container| Self::waiting(container, "ContainerCreating")));
        status.init_container_statuses =
            self.init().map(|init| self.containers(init, |_, container| Self::waiting(container, "PodInitializing")));
        self.conditions(&mut status, Progress::Creating);
        status
    }

    fn running(&self) -> PodStatus {
        let mut status = self.base();
        status.phase = Some("Running".to_owned());
        if let Some(ip) = self.pod_ip() {
            status.pod_ips = Some(vec![PodIP { ip: ip.clone() }]);
            status.pod_ip = Some(ip);
        }
        status.container_statuses = Some(self.containers(self.main(), |old, container| self.started(old, container)));
        status.init_container_statuses = self.init().map(|init| {
            self.containers(init, |old, container| {
                if is_sidecar(container) { self.started(old, container) } else { self.terminated(old, container, 0) }
            })
        });
        status.ephemeral_container_statuses = self.ephemeral(|old, container| self.started(old, container));
        self.conditions(&mut status, Progress::Running);
        status
    }

    /// Returns the status of a pod whose containers have all ended with these codes.
    fn ended(&self, code: impl Fn(Script) -> i32) -> PodStatus {
        let mut status = self.base();
        let code = |container: &Container| code(self.scripts.get(&container.name));
        let failed = self.main().iter().any(|container| code(container) != 0);
        status.phase = Some(if failed { "Failed" } else { "Succeeded" }.to_owned());
        status.container_statuses =
            Some(self.containers(self.main(), |old, container| self.terminated(old, container, code(container))));
        status.init_container_statuses =
            self.init().map(|init| self.containers(init, |old, container| self.terminated(old, container, 0)));
        status.ephemeral_container_statuses = self.ephemeral(|old, container| self.terminated(old, container, KILLED));
        self.conditions(&mut status, Progress::Ended);
        status
    }

    /// Returns the status of a pod whose failed containers will be restarted. Succeeded containers are unchanged.
    fn crashed(&self) -> PodStatus {
        let mut status = self.base();
        let crashed = self.containers(self.main(), |old, container| {
            let code = self.scripts.get(&container.name).code;
            let ended = self.terminated(old, container, code);
            if code == 0 {
                return ended;
            }
            let waiting = ContainerStateWaiting { reason: Some("CrashLoopBackOff".to_owned()), message: None };
            ContainerStatus {
                last_state: ended.state,
                state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
                ..ended
            }
        });
        status.container_statuses = Some(crashed);
        self.conditions(&mut status, Progress::Crashed);
        status
    }

    /// Returns the fields common to every pod on the node.
    fn base(&self) -> PodStatus {
        let mut status = self.pod.status.clone().unwrap_or_default();
        let ip = self.place.host_ip.to_string();
        status.host_ips = Some(vec![HostIP { ip: ip.clone() }]);
        status.host_ip = Some(ip);
        status.start_time.get_or_insert(Time(self.now));
        status.observed_generation = self.pod.metadata.generation;
        status
    }

    /// Returns the pod's address; with host network, that of its node.
    fn pod_ip(&self) -> Option<String> {
        let on_host = self.pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let ip = if on_host { Some(self.place.host_ip) } else { self.place.pod_ip };
        ip.map(|ip| ip.to_string())
    }

    fn main(&self) -> &[Container] {
        self.pod.spec.as_ref().map(|spec| &*spec.containers).unwrap_or_default()
    }

    fn init(&self) -> Option<&[Container]> {
        self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).filter(|init| !init.is_empty())
    }

    fn containers(
        &self,
        containers: &[Container],
        make: impl Fn(Option<&ContainerStatus>, &Container) -> ContainerStatus,
    ) -> Vec<ContainerStatus> {
        let status = self.pod.status.as_ref();
        let known = |name: &str| {
            let main = status.and_then(|status| status.container_statuses.as_ref());
            let init = status.and_then(|status| status.init_container_statuses.as_ref());
            let ephemeral = status.and_then(|status| status.ephemeral_container_statuses.as_ref());
            main.into_iter().chain(init).chain(ephemeral).flatten().find(|status| status.name == name)
        };
        containers.iter().map(|container| make(known(&container.name), container)).collect()
    }

    /// Returns the statuses of ephemeral containers, which are never ready.
    fn ephemeral(
        &self,
        make: impl Fn(Option<&ContainerStatus>, &Container) -> ContainerStatus,
    ) -> Option<Vec<ContainerStatus>> {
        let as_container = |ephemeral: &EphemeralContainer| Container {
            name: ephemeral.name.clone(),
            image: ephemeral.image.clone(),
            ..Container::default()
        };
        let known = self.pod.spec.as_ref()?.ephemeral_containers.as_ref().filter(|known| !known.is_empty())?;
        let containers: Vec<_> = known.iter().map(as_container).collect();
        let statuses = self.containers(&containers, make).into_iter();
        Some(statuses.map(|status| ContainerStatus { ready: false, started: None, ..status }).collect())
    }

    /// Reports whether running containers are ready. They are, unless an annotation of the pod overrides it.
    fn is_ready(&self) -> bool {
        self.pod.annotations().get(READY).is_none_or(|ready| ready != "false")
    }

    fn waiting(container: &Container, reason: &str) -> ContainerStatus {
        let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message: None };
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            started: Some(false),
            state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
            ..ContainerStatus::default()
        }
    }

    /// Returns the status of a running container. A new image restarts it.
    fn started(&self, old: Option<&ContainerStatus>, container: &Container) -> ContainerStatus {
        let image = container.image.clone().unwrap_or_default();
        let before = old.filter(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
        if let Some(before) = before.filter(|before| before.image == image) {
            return ContainerStatus { ready: self.is_ready(), ..before.clone() };
        }
        let ended = old.filter(|old| old.state.as_ref().is_some_and(|state| state.terminated.is_some()));
        if let Some(ended) = ended {
            return ended.clone();
        }
        let crashed = old.filter(|old| old.last_state.as_ref().is_some_and(|state| state.terminated.is_some()));
        let running = ContainerStateRunning { started_at: Some(Time(self.now)) };
        let restart_count = before.or(crashed).map_or(0, |before| before.restart_count + 1);
        ContainerStatus {
            name: container.name.clone(),
            image_id: image.clone(),
            image,
            container_id: Some(self.container_id(&container.name, restart_count)),
            ready: self.is_ready(),
            started: Some(true),
            restart_count,
            state: Some(ContainerState { running: Some(running), ..ContainerState::default() }),
            last_state: match before {
                Some(before) => {
                    let terminated = Some(self.termination(before, 0));
                    Some(ContainerState { terminated, ..ContainerState::default() })
                }
                None => crashed.and_then(|crashed| crashed.last_state.clone()),
            },
            ..ContainerStatus::default()
        }
    }

    fn terminated(&self, old: Option<&ContainerStatus>, container: &Container, code: i32) -> ContainerStatus {
        let running = match old {
            Some(old) if old.state.as_ref().is_some_and(|state| state.terminated.is_some()) => return old.clone(),
            Some(old) if old.state.as_ref().is_some_and(|state| state.running.is_some()) => old.clone(),
            _ => self.started(None, container),
        };
        let terminated = Some(self.termination(&running, code));
        ContainerStatus {
            ready: false,
            started: Some(false),
            state: Some(ContainerState { terminated, ..ContainerState::default() }),
            ..running
        }
    }

    fn termination(&self, running: &ContainerStatus, code: i32) -> ContainerStateTerminated {
        let since =
            running.state.as_ref().and_then(|state| state.running.as_ref()).and_then(|run| run.started_at.clone());
        ContainerStateTerminated {
            container_id: running.container_id.clone(),
            exit_code: code,
            reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
            started_at: since,
            finished_at: Some(Time(self.now)),
            ..ContainerStateTerminated::default()
        }
    }

    fn container_id(&self, name: &str, restart: i32) -> String {
        format!("windlass://{}/{name}/{restart}", self.pod.uid().unwrap_or_default())
    }

    fn conditions(&self, status: &mut PodStatus, progress: Progress) {
        let began = progress != Progress::Creating;
        let runs = matches!(progress, Progress::Running | Progress::Crashed);
        let names: Vec<_> = self.main().iter().map(|container| &*container.name).collect();
        let unready = match progress {
            Progress::Running if self.is_ready() => None,
            Progress::Creating | Progress::Crashed | Progress::Running => {
                Some(("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" "))))
            }
            Progress::Ended if status.phase.as_deref() == Some("Failed") => Some(("PodFailed", String::new())),
            Progress::Ended => Some(("PodCompleted", String::new())),
        };
        let gate = self.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten()).find(|gate| {
            let mut conditions = status.conditions.iter().flatten();
            !conditions.any(|condition| condition.type_ == gate.condition_type && condition.status == "True")
        });
        let not_ready = unready.clone().or_else(|| {
            let gate = gate?;
            let message = format!(
                "corresponding condition of pod readiness gate {:?} does not exist or is not \"True\".",
                gate.condition_type
            );
            Some(("ReadinessGatesNotReady", message))
        });
        let uninitialized = (!began && self.init().is_some())
            .then(|| ("ContainersNotInitialized", "init containers have not completed yet".to_owned()));

        self.condition(status, "PodReadyToStartContainers", runs, None);
        self.condition(status, "Initialized", uninitialized.is_none(), uninitialized);
        self.condition(status, "Ready", not_ready.is_none(), not_ready);
        self.condition(status, "ContainersReady", unready.is_none(), unready);
        self.condition(status, "PodScheduled", true, None);
    }

    /// Sets a condition. Its transition time is that of the last change of its status.
    fn condition(&self, status: &mut PodStatus, type_: &str, holds: bool, why: Option<(&str, String)>) {
        let (reason, message) = why.unzip();
        let value = if holds { "True" } else { "False" };
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().position(|condition| condition.type_ == type_);
        let since = known.map(|index| &conditions[index]).filter(|condition| condition.status == value);
        let condition = PodCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: reason.map(str::to_owned),
            message: message.filter(|message| !message.is_empty()),
            last_transition_time: since.map_or(Some(Time(self.now)), |since| since.last_transition_time.clone()),
            observed_generation: self.pod.metadata.generation,
            last_probe_time: None,
        };
        match known {
            Some(index) => conditions[index] = condition,
            None => conditions.push(condition),
        }
    }
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

#[cfg(test)]
mod tests;
