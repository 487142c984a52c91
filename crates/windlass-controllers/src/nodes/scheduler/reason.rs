//! The reasons why a pod cannot run on a node, with the texts of kube-scheduler.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// A reason why a pod cannot run on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate a taint of the node.
    Tainted,
    /// The node does not match the pod's node selector or affinity.
    Unselected,
    /// The pod selects other nodes by name.
    Unnamed,
    /// A requested host port is taken by another pod.
    PortTaken,
    /// The node's maximum number of pods is reached.
    TooManyPods,
    /// The node has too little of a resource left.
    Insufficient(Arc<str>),
    /// The node does not reach a volume of the pod.
    Unreachable,
    /// A claim of the pod cannot get a volume on the node.
    NoVolume,
    /// A claim of the pod has a volume that does not exist.
    LostVolume,
    /// The pod would violate a topology spread constraint.
    Skewed,
    /// The node lacks the label of a topology spread constraint.
    NoTopology,
    /// The node's domain has no pod that the pod's affinity requires.
    Alone,
    /// The node's domain has a pod that the pod's anti-affinity excludes.
    AntiAffinity,
    /// The anti-affinity of another pod excludes this one from the node's domain.
    ExistingAntiAffinity,
    /// Preemption: the node has no pods of lower priority.
    NoVictims,
    /// Preemption: deleting pods does not remove the reasons.
    NotHelpful,
}

/// The result of a filter that rejects a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reasons: Vec<Reason>,
    /// `true` if the deletion of pods on the node may help.
    pub(super) resolvable: bool,
}

/// A set of causes of rejections. An event can only help pods that were rejected by one of its causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Causes(u8);

/// The number of nodes for each reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<Reason, usize>);

impl Reason {
    fn cause(&self) -> Causes {
        match self {
            Self::Unschedulable | Self::Tainted | Self::Unselected | Self::Unnamed => Causes::NODE,
            Self::PortTaken => Causes::PORTS,
            Self::TooManyPods | Self::Insufficient(_) => Causes::RESOURCES,
            Self::Unreachable | Self::NoVolume | Self::LostVolume => Causes::VOLUMES,
            Self::Skewed | Self::NoTopology => Causes::SPREAD,
            Self::Alone | Self::AntiAffinity | Self::ExistingAntiAffinity => Causes::PODS,
            Self::NoVictims | Self::NotHelpful => Causes::NONE,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::Unselected => "node(s) didn't match Pod's node affinity/selector",
            Self::Unnamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::PortTaken => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::Unreachable => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::LostVolume => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Self::Skewed => "node(s) didn't match pod topology spread constraints",
            Self::NoTopology => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Alone => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::NoVictims => "No preemption victims found for incoming pod",
            Self::NotHelpful => "Preemption is not helpful for scheduling",
        })
    }
}

impl Rejection {
    /// A rejection that the deletion of pods may resolve.
    pub(super) fn resolvable(reason: Reason) -> Self {
        Self { reasons: vec![reason], resolvable: true }
    }

    /// A rejection that the deletion of pods on the node does not resolve.
    pub(super) fn unresolvable(reason: Reason) -> Self {
        Self { reasons: vec![reason], resolvable: false }
    }
}

impl Causes {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NODE: Self = Self(1);
    pub(super) const RESOURCES: Self = Self(1 << 1);
    pub(super) const PORTS: Self = Self(1 << 2);
    pub(super) const VOLUMES: Self = Self(1 << 3);
    pub(super) const SPREAD: Self = Self(1 << 4);
    pub(super) const PODS: Self = Self(1 << 5);
    pub(super) const ALL: Self = Self(u8::MAX);

    pub(super) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Causes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Causes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Tally {
    pub(super) fn add(&mut self, reasons: &[Reason]) {
        for reason in reasons {
            self.add_many(reason, 1);
        }
    }

    pub(super) fn add_many(&mut self, reason: &Reason, nodes: usize) {
        if nodes == 0 {
            return;
        }
        match self.0.get_mut(reason) {
            Some(count) => *count += nodes,
            None => {
                self.0.insert(reason.clone(), nodes);
            }
        }
    }

    pub(super) fn causes(&self) -> Causes {
        self.0.keys().fold(Causes::NONE, |causes, reason| causes | reason.cause())
    }
}

impl fmt::Display for Tally {
    /// The format of kube-scheduler: sorted as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<_> = self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort_unstable();
        f.write_str(&texts.join(", "))
    }
}
