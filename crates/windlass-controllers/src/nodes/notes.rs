//! The events of a kubelet about a pod and its containers when the pod's status changes.

use k8s_openapi::api::core::v1::{ContainerStatus, ObjectReference, Pod, PodStatus};
use windlass_api::ObjectExt;
use windlass_runtime::events::{Note, reference};

use super::lifecycle::{DEADLINE_EXCEEDED, DEADLINE_MESSAGE, NODE_PORTS, NODE_PORTS_MESSAGE};

/// Returns the events of a change to `after`, each with the container that it is about.
pub(super) fn of_change(pod: &Pod, after: &PodStatus) -> Vec<(ObjectReference, Note)> {
    let before = pod.status.as_ref();
    let mut notes = Vec::new();
    let reason = after.reason.as_deref().filter(|_| before.and_then(|before| before.reason.as_ref()).is_none());
    match reason {
        Some(DEADLINE_EXCEEDED) => notes.push((reference(pod), Note::normal(DEADLINE_EXCEEDED, DEADLINE_MESSAGE))),
        Some(NODE_PORTS) => notes.push((reference(pod), Note::warning(NODE_PORTS, NODE_PORTS_MESSAGE))),
        _ => {}
    }
    let lists = [
        (
            "initContainers",
            before.and_then(|status| status.init_container_statuses.as_ref()),
            &after.init_container_statuses,
        ),
        ("containers", before.and_then(|status| status.container_statuses.as_ref()), &after.container_statuses),
        (
            "ephemeralContainers",
            before.and_then(|status| status.ephemeral_container_statuses.as_ref()),
            &after.ephemeral_container_statuses,
        ),
    ];
    for (list, before, after) in lists {
        for container in after.iter().flatten() {
            let about =
                ObjectReference { field_path: Some(format!("spec.{list}{{{}}}", container.name)), ..reference(pod) };
            let known = before.into_iter().flatten().find(|known| known.name == container.name);
            let said = of_container(pod, reason.is_some(), known, container);
            notes.extend(said.into_iter().map(|note| (about.clone(), note)));
        }
    }
    notes
}

fn of_container(pod: &Pod, is_evicted: bool, before: Option<&ContainerStatus>, after: &ContainerStatus) -> Vec<Note> {
    let id = |status: &ContainerStatus| status.container_id.clone();
    if after.container_id.is_some() && before.and_then(id) != after.container_id {
        let image = &after.image;
        let there = format!("Container image {image:?} already present on machine and can be accessed by the pod");
        return vec![
            Note::normal("Pulled", there),
            Note::normal("Created", "Container created"),
            Note::normal("Started", "Container started"),
        ];
    }
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let is_stopped = pod.is_deleting() || is_evicted;
    if is_stopped && before.is_some_and(runs) && !runs(after) {
        return vec![Note::normal("Killing", format!("Stopping container {}", after.name))];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::{
        api::core::v1::{ContainerState, ContainerStateRunning},
        apimachinery::pkg::apis::meta::v1::Time,
    };
    use windlass_runtime::events::Recorder;

    use super::*;

    fn status(id: Option<&str>) -> PodStatus {
        let running = id.map(|_| ContainerStateRunning::default());
        let container = ContainerStatus {
            name: "main".to_owned(),
            image: "nginx".to_owned(),
            container_id: id.map(str::to_owned),
            state: Some(ContainerState { running, ..ContainerState::default() }),
            ..ContainerStatus::default()
        };
        PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() }
    }

    fn said(pod: &Pod, after: &PodStatus) -> Vec<String> {
        let (recorder, mut recorded) = Recorder::captured("kubelet");
        for (about, note) in of_change(pod, after) {
            assert_eq!(about.field_path.as_deref(), Some("spec.containers{main}"));
            recorder.record_about(about, note);
        }
        recorded.lines()
    }

    #[test]
    fn container_start_and_stop_are_reported_once() {
        let mut pod = Pod { status: Some(status(None)), ..Pod::default() };
        let started = said(&pod, &status(Some("1")));
        assert_eq!(started.len(), 3);
        assert_eq!(started[2], "Normal Started Container started");
        pod.status = Some(status(Some("1")));
        assert!(said(&pod, &status(Some("1"))).is_empty(), "it goes on");

        let mut ended = status(Some("1"));
        ended.container_statuses.as_mut().unwrap()[0].state = None;
        assert!(said(&pod, &ended).is_empty(), "it has ended by itself");
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(said(&pod, &ended), ["Normal Killing Stopping container main"]);
    }
}
