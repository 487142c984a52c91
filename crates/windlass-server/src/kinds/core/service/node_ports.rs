//! The node ports in use: one value in the storage, which all API servers change.
//!
//! As in kube-apiserver, the value is a `RangeAllocation` with a bitmap. A server changes it by compare-and-put, so two
//! servers never claim the same port.

use std::{fmt, ops::RangeInclusive};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::sync::Mutex;
use windlass_api::{Entropy, Status};

use crate::{
    encoded::{Encoded, Style},
    kinds::prelude::*,
    registry::{commit_failure, storage_failure},
    storage::{Change, CommitError, Expect, Revision, Storage, StoredValue},
};

/// The key of the value.
const KEY: &str = "/registry/ranges/servicenodeports";

/// The ports of new clusters. Ports of an existing value are those of the value.
const DEFAULT_RANGE: RangeInclusive<u16> = 30_000..=32_767;

/// The number of attempts of a change that conflicts with those of other servers. Another change has succeeded after each.
const ATTEMPTS: usize = 100;

/// The node ports of the cluster.
#[derive(Debug, Default)]
pub(super) struct NodePorts {
    /// The last known state. Another server may have changed it.
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    /// `None` if there is no value yet.
    revision: Option<Revision>,
    ports: PortSet,
}

/// A range of ports, and those of them that are in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortSet {
    range: RangeInclusive<u16>,
    /// A bit for each port of the range, the lowest first.
    bits: Vec<u8>,
}

/// The reason why a port cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortError {
    /// No port is free.
    Full,
    Allocated,
    OutOfRange(RangeInclusive<u16>),
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("range is full"),
            Self::Allocated => f.write_str("provided port is already allocated"),
            Self::OutOfRange(range) => write!(
                f,
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            ),
        }
    }
}

// === impl NodePorts ===

impl NodePorts {
    /// Returns the current ports.
    pub(super) async fn read(storage: &dyn Storage) -> Result<(Option<Revision>, PortSet), Status> {
        let known = Known::read(storage).await?;
        Ok((known.revision, known.ports))
    }

    /// Changes the ports. `change` runs again with the newest ports after a conflict with another server. The inner error is
    /// that of `change`, which then has had no effect.
    pub(super) async fn change<T, E>(
        &self,
        storage: &dyn Storage,
        mut change: impl FnMut(&mut PortSet) -> Result<T, E>,
    ) -> Result<Result<T, E>, Status> {
        let mut known = self.known.lock().await;
        for _ in 0..ATTEMPTS {
            let current = match known.take() {
                Some(current) => current,
                None => Known::read(storage).await?,
            };
            let mut ports = current.ports.clone();
            let result = change(&mut ports);
            if result.is_err() || ports == current.ports {
                // Nothing is written, so this must be the result for the newest ports.
                let newest = Known::read(storage).await?;
                let is_current = newest.revision == current.revision;
                *known = Some(newest);
                if is_current {
                    return Ok(result);
                }
                continue;
            }
            match put(storage, current.revision, &ports).await {
                Ok(revision) => {
                    *known = Some(Known { revision: Some(revision), ports });
                    return Ok(result);
                }
                Err(CommitError::Conflict { current }) => *known = Some(Known::of(current)?),
                Err(error) => return Err(commit_failure(&error)),
            }
        }
        Err(Status::internal("claiming a node port: the changes of other servers come first each time"))
    }

    /// Replaces the ports, unless they have changed since `revision`. Returns `false` if they have.
    pub(super) async fn replace(
        &self,
        storage: &dyn Storage,
        revision: Option<Revision>,
        ports: PortSet,
    ) -> Result<bool, Status> {
        let mut known = self.known.lock().await;
        match put(storage, revision, &ports).await {
            Ok(revision) => *known = Some(Known { revision: Some(revision), ports }),
            Err(CommitError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(commit_failure(&error)),
        }
        Ok(true)
    }
}

async fn put(storage: &dyn Storage, revision: Option<Revision>, ports: &PortSet) -> Result<Revision, CommitError> {
    let expect = revision.map_or(Expect::Absent, Expect::Unchanged);
    let body = Encoded::new(&ports.to_value(), Style::BuiltIn).storage_bytes();
    storage.commit(KEY, expect, Change::Put(body)).await.map(|committed| committed.revision)
}

// === impl Known ===

impl Known {
    async fn read(storage: &dyn Storage) -> Result<Self, Status> {
        let (_, value) = storage.get(KEY, None).await.map_err(|error| storage_failure(&error))?;
        Self::of(value)
    }

    fn of(value: Option<StoredValue>) -> Result<Self, Status> {
        let Some(value) = value else { return Ok(Self { revision: None, ports: PortSet::new(DEFAULT_RANGE) }) };
        let allocation = Item::stored(&value)?.value();
        let ports = PortSet::of(&allocation).ok_or_else(|| {
            Status::internal(format!("reading {KEY}: {:?} is no range of ports", allocation["range"]))
        })?;
        Ok(Self { revision: Some(value.modified), ports })
    }
}

// === impl PortSet ===

impl PortSet {
    /// Creates an empty set.
    pub(super) fn new(range: RangeInclusive<u16>) -> Self {
        let bits = vec![0; usize::from(range.end() - range.start()) / 8 + 1];
        Self { range, bits }
    }

    pub(super) fn range(&self) -> RangeInclusive<u16> {
        self.range.clone()
    }

    /// Reads a `RangeAllocation`.
    fn of(allocation: &Value) -> Option<Self> {
        let (first, last) = allocation.text(&["range"]).split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        if first > last {
            return None;
        }
        let mut ports = Self::new(first..=last);
        let data = BASE64_STANDARD.decode(allocation.text(&["data"])).ok()?;
        // The stored number has its highest byte first, and no leading zeros.
        for (own, stored) in ports.bits.iter_mut().zip(data.iter().rev()) {
            *own = *stored;
        }
        Some(ports)
    }

    fn to_value(&self) -> Value {
        let data: Vec<u8> = self.bits.iter().rev().copied().skip_while(|byte| *byte == 0).collect();
        json!({
            "kind": "RangeAllocation",
            "apiVersion": "v1",
            "metadata": {},
            "range": format!("{}-{}", self.range.start(), self.range.end()),
            "data": BASE64_STANDARD.encode(data),
        })
    }

    fn place(&self, port: i64) -> Option<(usize, u8)> {
        let port = u16::try_from(port).ok().filter(|port| self.range.contains(port))?;
        let index = usize::from(port - self.range.start());
        Some((index / 8, 1 << (index % 8)))
    }

    pub(super) fn contains(&self, port: i64) -> bool {
        self.place(port).is_some_and(|(byte, bit)| self.bits[byte] & bit != 0)
    }

    /// Claims a port.
    pub(super) fn take(&mut self, port: i64) -> Result<(), PortError> {
        let (byte, bit) = self.place(port).ok_or_else(|| PortError::OutOfRange(self.range.clone()))?;
        if self.bits[byte] & bit != 0 {
            return Err(PortError::Allocated);
        }
        self.bits[byte] |= bit;
        Ok(())
    }

    /// Claims a free port. The lowest ports are for services that request one: others get them only if all others are in
    /// use.
    pub(super) fn take_any(&mut self, entropy: &Entropy) -> Result<i64, PortError> {
        let size = i64::from(self.range.end() - self.range.start()) + 1;
        let reserved = if size <= 16 { 0 } else { (size / 32).clamp(16, 128).min(size) };
        for (first, count) in [(reserved, size - reserved), (0, reserved)] {
            if count == 0 {
                continue;
            }
            let offset = i64::try_from(entropy.below(count.unsigned_abs())).unwrap_or_default();
            let ports = (0..count).map(|step| i64::from(*self.range.start()) + first + (offset + step) % count);
            if let Some(port) = ports.into_iter().find(|port| !self.contains(*port)) {
                return self.take(port).map(|()| port);
            }
        }
        Err(PortError::Full)
    }

    pub(super) fn release(&mut self, port: i64) {
        if let Some((byte, bit)) = self.place(port) {
            self.bits[byte] &= !bit;
        }
    }

    /// Returns the ports in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.range.clone().map(i64::from).filter(|port| self.contains(*port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn bitmap_has_the_form_of_kube_apiserver() {
        let mut ports = PortSet::new(DEFAULT_RANGE);
        assert_eq!(ports.to_value()["data"], "");
        for port in [30_000, 30_009] {
            ports.take(port).unwrap();
        }
        // Bits 0 and 9 of a number: 0x0201.
        let value = ports.to_value();
        assert_eq!((&value["range"], &value["data"]), (&json!("30000-32767"), &json!("AgE=")));
        assert_eq!(PortSet::of(&value), Some(ports.clone()));
        assert_eq!(ports.iter().collect::<Vec<_>>(), [30_000, 30_009]);
        ports.release(30_009);
        assert_eq!(ports.to_value()["data"], "AQ==");
    }

    #[test]
    fn ports_are_claimed_once_and_within_the_range() {
        let mut ports = PortSet::new(30_000..=30_019);
        assert_eq!(ports.take(30_020), Err(PortError::OutOfRange(30_000..=30_019)));
        assert_eq!(ports.take(-1), Err(PortError::OutOfRange(30_000..=30_019)));
        assert_eq!(ports.take(30_019), Ok(()));
        assert_eq!(ports.take(30_019), Err(PortError::Allocated));
        let entropy = Entropy::seeded(1);
        let mut taken: Vec<i64> = (0..19).map(|_| ports.take_any(&entropy).unwrap()).collect();
        assert!(taken[..3].iter().all(|port| *port >= 30_016), "the upper part comes first: {taken:?}");
        taken.sort_unstable();
        assert_eq!(taken, (30_000..30_019).collect::<Vec<_>>());
        assert_eq!(ports.take_any(&entropy), Err(PortError::Full));
    }

    #[tokio::test]
    async fn change_is_repeated_after_that_of_another_server() {
        let storage = MemoryStorage::default();
        let (first, second) = (NodePorts::default(), NodePorts::default());
        let take = async |ports: &NodePorts, port| ports.change(&storage, |set| set.take(port)).await.unwrap();
        assert_eq!(take(&first, 30_000).await, Ok(()));
        assert_eq!(take(&second, 30_001).await, Ok(()));
        assert_eq!(take(&first, 30_001).await, Err(PortError::Allocated), "claimed by the other");
        assert_eq!(take(&first, 30_002).await, Ok(()));
        let release = |set: &mut PortSet| {
            set.release(30_002);
            Ok::<_, PortError>(())
        };
        second.change(&storage, release).await.unwrap().unwrap();
        assert_eq!(take(&first, 30_002).await, Ok(()), "released by the other");
        assert_eq!(NodePorts::read(&storage).await.unwrap().1.iter().collect::<Vec<_>>(), [30_000, 30_001, 30_002]);
    }

    #[tokio::test]
    async fn range_of_the_stored_value_is_kept() {
        let storage = MemoryStorage::default();
        let mut stored = PortSet::new(31_000..=31_001);
        stored.take(31_000).unwrap();
        assert!(NodePorts::default().replace(&storage, None, stored).await.unwrap());
        let ports = NodePorts::default();
        let taken = ports.change(&storage, |set| set.take_any(&Entropy::seeded(1))).await.unwrap();
        assert_eq!(taken, Ok(31_001));
        assert!(!ports.replace(&storage, None, PortSet::new(DEFAULT_RANGE)).await.unwrap(), "it has changed");
    }
}
