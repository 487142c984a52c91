//! The kubelets' memory of their pods: addresses, ports, files, command results, and the timers of their stages.

use hashbrown::HashMap;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use windlass_api::{Entropy, ObjectKey};

use super::{
    addresses::{Addresses, Host},
    disk::Disk,
    lifecycle::Stage,
    pace::Pace,
    ports::HostPort,
    script::Scripts,
};

/// The pods on the simulated nodes.
#[derive(Debug, Default)]
pub(crate) struct PodStates {
    known: HashMap<ObjectKey, PodRecord>,
    addresses: Addresses,
    disk: Disk,
    /// The host ports taken on each node, with the UIDs of their pods.
    ports: HashMap<Host, Vec<(HostPort, String)>>,
}

#[derive(Debug)]
struct PodRecord {
    uid: String,
    host: Host,
    /// The current stage, and the time when it ends.
    timer: Option<(Stage, Instant)>,
    scripts: Scripts,
}

impl PodStates {
    /// Records that a pod is on a node, and drops an earlier pod of the same name.
    pub(crate) fn settle(&mut self, key: &ObjectKey, uid: &str, host: Host) {
        if self.known.get(key).is_some_and(|record| record.uid == uid && record.host == host) {
            return;
        }
        self.forget(key);
        let record = PodRecord { uid: uid.to_owned(), host, timer: None, scripts: Scripts::default() };
        self.known.insert(key.clone(), record);
    }

    /// Drops a deleted pod.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        if let Some(record) = self.known.remove(key) {
            self.leave(record.host, &record.uid);
            self.disk.forget(&record.uid);
        }
    }

    /// Releases the address and the ports of a finished pod.
    pub(crate) fn leave(&mut self, host: Host, uid: &str) {
        self.addresses.release(host, uid);
        if let Some(taken) = self.ports.get_mut(&host) {
            taken.retain(|(_, owner)| owner != uid);
        }
    }

    /// Takes the host ports of a pod on its node. Returns `false` if one is taken, unless the pod has already started.
    pub(crate) fn take_ports(&mut self, host: Host, uid: &str, pod: &Pod) -> bool {
        let wanted = HostPort::of(pod);
        if wanted.is_empty() {
            return true;
        }
        let taken = self.ports.entry(host).or_default();
        if taken.iter().any(|(_, owner)| owner == uid) {
            return true;
        }
        let has_started = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let conflicts = |port: &HostPort| taken.iter().any(|(known, _)| known.conflicts_with(port));
        if !has_started && wanted.iter().any(conflicts) {
            return false;
        }
        taken.extend(wanted.into_iter().map(|port| (port, uid.to_owned())));
        true
    }

    /// Runs the commands of containers that have started, and returns the outcomes of all.
    pub(crate) fn run_scripts(&mut self, key: &ObjectKey, pod: &Pod, entropy: &Entropy) -> Scripts {
        let Some(record) = self.known.get_mut(key) else { return Scripts::default() };
        record.scripts.run(pod, &mut self.disk, || entropy.next_u64());
        record.scripts.clone()
    }

    /// Returns the time when a pod's stage ends. The first call starts the stage.
    pub(crate) fn due_at(&mut self, key: &ObjectKey, stage: Stage, pace: &Pace, entropy: &Entropy) -> Instant {
        let begin = || Instant::now() + pace.of(stage, entropy);
        let Some(record) = self.known.get_mut(key) else { return begin() };
        match record.timer {
            Some((current, due)) if current == stage => due,
            _ => {
                let due = begin();
                record.timer = Some((stage, due));
                due
            }
        }
    }

    pub(crate) fn addresses(&mut self) -> &mut Addresses {
        &mut self.addresses
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stage_starts_at_its_first_query() {
        let (mut pod_states, entropy) = (PodStates::default(), Entropy::seeded(1));
        let pace = Pace::new(Duration::from_secs(2), Duration::from_secs(3)).jitter(0.0);
        let (key, host) = (ObjectKey::new("a").within("n"), Host::first(1).next().unwrap());
        pod_states.settle(&key, "1", host);
        let start = Instant::now();
        assert_eq!(pod_states.due_at(&key, Stage::Start, &pace, &entropy), start + Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pod_states.due_at(&key, Stage::Start, &pace, &entropy), start + Duration::from_secs(2));
        assert_eq!(pod_states.due_at(&key, Stage::Stop, &pace, &entropy), start + Duration::from_secs(4));
        // A recreated pod of the same name starts from the beginning.
        pod_states.settle(&key, "2", host);
        assert_eq!(pod_states.due_at(&key, Stage::Stop, &pace, &entropy), start + Duration::from_secs(4));
        assert_eq!(pod_states.known.len(), 1);
    }

    #[test]
    fn a_port_of_a_node_is_taken_until_its_pod_ends() {
        let with_port = |status: serde_json::Value| -> Pod {
            let containers = serde_json::json!([{"name": "c", "ports": [{"containerPort": 1, "hostPort": 21017}]}]);
            serde_json::from_value(serde_json::json!({"spec": {"containers": containers}, "status": status})).unwrap()
        };
        let new = with_port(serde_json::json!({}));
        let started = with_port(serde_json::json!({"startTime": "2024-01-01T00:00:00Z"}));
        let mut pod_states = PodStates::default();
        let [host, other] = <[Host; 2]>::try_from(Host::first(2).collect::<Vec<_>>()).unwrap();
        assert!(pod_states.take_ports(host, "1", &new) && pod_states.take_ports(host, "1", &new));
        assert!(!pod_states.take_ports(host, "2", &new), "another pod has it");
        assert!(pod_states.take_ports(other, "2", &new), "nodes do not share ports");
        assert!(pod_states.take_ports(host, "3", &started), "what has started stays");
        pod_states.leave(host, "1");
        pod_states.leave(host, "3");
        assert!(pod_states.take_ports(host, "4", &new));
    }

    #[test]
    fn removed_pod_frees_its_address() {
        let mut pod_states = PodStates::default();
        let (key, host) = (ObjectKey::new("a"), Host::first(1).next().unwrap());
        pod_states.settle(&key, "1", host);
        let first = pod_states.addresses().assign(host, "1").unwrap();
        pod_states.settle(&key, "2", host);
        for pod in 0..252 {
            assert_ne!(pod_states.addresses().assign(host, &format!("other-{pod}")), Some(first));
        }
        assert_eq!(pod_states.addresses().assign(host, "2"), Some(first));
    }
}
