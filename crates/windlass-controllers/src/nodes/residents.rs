//! What a kubelet remembers of its pods: their addresses, and since when they are where they are.

use hashbrown::HashMap;
use tokio::time::Instant;
use windlass_api::{Entropy, ObjectKey};

use super::{
    addresses::{Addresses, Host},
    lifecycle::Stage,
    pace::Pace,
};

/// The pods on the simulated nodes.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    known: HashMap<ObjectKey, Resident>,
    addresses: Addresses,
}

#[derive(Debug)]
struct Resident {
    uid: String,
    host: Host,
    /// When the present stage is over.
    timer: Option<(Stage, Instant)>,
}

impl Residents {
    /// A pod is on a node. Another pod that had the name before is forgotten.
    pub(crate) fn settle(&mut self, key: &ObjectKey, uid: &str, host: Host) {
        if self.known.get(key).is_some_and(|resident| resident.uid == uid && resident.host == host) {
            return;
        }
        self.forget(key);
        self.known.insert(key.clone(), Resident { uid: uid.to_owned(), host, timer: None });
    }

    /// A pod is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        if let Some(resident) = self.known.remove(key) {
            self.addresses.release(resident.host, &resident.uid);
        }
    }

    /// When the pod will have been in a stage for as long as that takes. Asked for the first time, the stage begins.
    pub(crate) fn due_at(&mut self, key: &ObjectKey, stage: Stage, pace: &Pace, entropy: &Entropy) -> Instant {
        let begin = || Instant::now() + pace.of(stage, entropy);
        let Some(resident) = self.known.get_mut(key) else { return begin() };
        match resident.timer {
            Some((current, due)) if current == stage => due,
            _ => {
                let due = begin();
                resident.timer = Some((stage, due));
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
    async fn a_stage_lasts_from_the_first_question() {
        let (mut residents, entropy) = (Residents::default(), Entropy::seeded(1));
        let pace = Pace::new(Duration::from_secs(2), Duration::from_secs(3)).jitter(0.0);
        let (key, host) = (ObjectKey::new("a").within("n"), Host::first(1).next().unwrap());
        residents.settle(&key, "1", host);
        let start = Instant::now();
        assert_eq!(residents.due_at(&key, Stage::Start, &pace, &entropy), start + Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(residents.due_at(&key, Stage::Start, &pace, &entropy), start + Duration::from_secs(2));
        assert_eq!(residents.due_at(&key, Stage::Stop, &pace, &entropy), start + Duration::from_secs(4));
        // A new pod of the same name begins anew.
        residents.settle(&key, "2", host);
        assert_eq!(residents.due_at(&key, Stage::Stop, &pace, &entropy), start + Duration::from_secs(4));
        assert_eq!(residents.known.len(), 1);
    }

    #[test]
    fn a_pod_that_is_gone_gives_its_address_back() {
        let mut residents = Residents::default();
        let (key, host) = (ObjectKey::new("a"), Host::first(1).next().unwrap());
        residents.settle(&key, "1", host);
        let first = residents.addresses().assign(host, "1").unwrap();
        residents.settle(&key, "2", host);
        for pod in 0..252 {
            assert_ne!(residents.addresses().assign(host, &format!("other-{pod}")), Some(first));
        }
        assert_eq!(residents.addresses().assign(host, "2"), Some(first));
    }
}
