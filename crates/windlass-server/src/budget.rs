//! Accounting, per connection, of the memory that clients hold by not reading responses and not finishing requests.
//!
//! Guaranteed: requests of a client that reads its responses are not rejected because of other clients. The exception
//! is a large response while the server holds twice its budget. A connection holds at most twice its budget or one
//! response. Responses that a client does not read are dropped after [`Limits::stall`], or under pressure after
//! [`PRESSURE_STALL`].

use std::{
    cmp::Reverse,
    num::NonZero,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use crate::turns::Turns;

mod held;
mod limits;
mod slices;

pub use self::limits::Limits;
pub(crate) use self::{
    held::HeldBytes,
    slices::{Slice, Slices},
};

/// While the server is over its budget, connections that have read nothing for this time are closed.
pub(crate) const PRESSURE_STALL: Duration = Duration::from_secs(1);

/// The interval between checks of connections under pressure.
const PRESSURE_INTERVAL: Duration = Duration::from_millis(50);

/// The time that a request waits for its client to read earlier responses.
const WAIT: Duration = Duration::from_secs(5);

/// Responses up to this size in bytes are never rejected because of the server's budget.
const SMALL: usize = 64 << 10;

/// The bytes that all connections of a server hold.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    held: AtomicUsize,
    accounts: Mutex<Accounts>,
    /// The origin of all times, which are in milliseconds.
    started: Instant,
    /// The time of the last check under pressure.
    last_relief: AtomicU64,
    /// The turns of large responses: one for each processor.
    turns: Arc<Turns>,
}

#[derive(Debug, Default)]
struct Accounts {
    next: u64,
    open: HashMap<u64, Weak<Account>>,
}

/// The bytes that one connection holds.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    id: u64,
    held: AtomicUsize,
    /// The time when it last held nothing, released bytes, or got a turn.
    moved: AtomicU64,
    /// The number of its responses that wait for turns. The client cannot read them.
    delayed: AtomicUsize,
    /// The time when one of them last got its turn, or 0.
    delayed_until: AtomicU64,
    slices: Slices,
    room: Notify,
    closed: Notify,
}

/// Bytes that a connection holds. They are released when the charge is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

/// A response that waits for a turn.
#[derive(Debug)]
pub(crate) struct Delay(Arc<Account>);

/// The error for a connection or a server that holds too many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client's connection holds too many unread or unfinished bytes")]
pub(crate) struct OverBudget;

impl Budget {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            held: AtomicUsize::new(0),
            accounts: Mutex::default(),
            started: Instant::now(),
            last_relief: AtomicU64::new(0),
            turns: Turns::new(thread::available_parallelism().map_or(1, NonZero::get)),
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Opens the account of a new connection.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        let id = accounts.next;
        accounts.next += 1;
        let account = Arc::new(Account {
            budget: Arc::clone(self),
            id,
            held: AtomicUsize::new(0),
            moved: AtomicU64::new(self.now()),
            delayed: AtomicUsize::new(0),
            delayed_until: AtomicU64::new(0),
            slices: Slices::default(),
            room: Notify::new(),
            closed: Notify::new(),
        });
        accounts.open.insert(id, Arc::downgrade(&account));
        account
    }

    /// Closes stalled connections, the largest first, until the rest is within the budget.
    fn close_stalled(&self) {
        let now = self.now();
        let last = self.last_relief.load(Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= millis(PRESSURE_INTERVAL);
        if !is_due || self.last_relief.compare_exchange(last, now.max(1), Relaxed, Relaxed).is_err() {
            return;
        }
        let open = self.open_accounts();
        let is_stalled = |account: &&Arc<Account>| account.stalled_for(now) >= millis(PRESSURE_STALL);
        let mut stalled: Vec<_> = open.iter().filter(is_stalled).map(|it| (it.held.load(Relaxed), it)).collect();
        stalled.sort_unstable_by_key(|(held, _)| Reverse(*held));
        let mut excess = self.held.load(Relaxed).saturating_sub(self.limits.server_bytes);
        for (held, account) in stalled {
            if excess == 0 || held == 0 {
                break;
            }
            tracing::debug!(held, "closing a connection that does not read, the server is over its budget");
            account.closed.notify_one();
            excess = excess.saturating_sub(held);
        }
    }

    fn open_accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.lock().open.values().filter_map(Weak::upgrade).collect()
    }

    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

impl Account {
    /// Waits until the client has read enough of its responses. Returns an error if it has not after [`WAIT`]. The time in
    /// which its responses wait for turns does not count.
    pub(crate) async fn room(&self) -> Result<(), OverBudget> {
        if self.has_room() {
            return Ok(());
        }
        let waiting = async {
            loop {
                let room = self.room.notified();
                tokio::pin!(room);
                room.as_mut().enable();
                if self.has_room() {
                    return;
                }
                room.await;
            }
        };
        let mut waiting = pin!(waiting);
        let mut deadline = Instant::now() + WAIT;
        while time::timeout_at(deadline, waiting.as_mut()).await.is_err() {
            let turn = self.last_delay();
            if turn.is_none_or(|turn| turn + WAIT <= deadline) {
                return Err(OverBudget);
            }
            deadline = turn.map_or(deadline, |turn| turn + WAIT);
        }
        Ok(())
    }

    /// Returns the slices that the connection has not written.
    pub(crate) fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Records that a response waits for a turn, until the result is dropped.
    pub(crate) fn delay(self: &Arc<Self>) -> Delay {
        self.delayed.fetch_add(1, Relaxed);
        Delay(Arc::clone(self))
    }

    #[cfg(test)]
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns a number that identifies the connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the time for which the client could read and did not, in milliseconds.
    fn stalled_for(&self, now: u64) -> u64 {
        if self.delayed.load(Relaxed) > 0 { 0 } else { now.saturating_sub(self.moved.load(Relaxed)) }
    }

    /// Returns the time until which a response has waited for a turn. Returns `None` if none has.
    fn last_delay(&self) -> Option<Instant> {
        if self.delayed.load(Relaxed) > 0 {
            return Some(Instant::now());
        }
        let last = self.delayed_until.load(Relaxed);
        (last > 0).then(|| self.budget.started + Duration::from_millis(last))
    }

    /// Returns the turns of large responses of all connections.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.budget.turns
    }

    /// Waits until the connection must be closed.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Returns an empty charge.
    pub(crate) fn nothing(self: &Arc<Self>) -> Charge {
        Charge { account: Arc::clone(self), bytes: 0 }
    }

    /// Charges this number of bytes, regardless of limits.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = self.nothing();
        charge.add(bytes);
        charge
    }

    /// Charges this number of bytes, or returns an error if the limit is exceeded.
    pub(crate) fn try_charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, OverBudget> {
        let mut charge = self.nothing();
        charge.try_add(bytes)?;
        Ok(charge)
    }

    /// Charges bytes, regardless of limits, until [`Self::release`].
    pub(crate) fn hold(&self, bytes: usize) {
        let budget = &self.budget;
        if self.held.fetch_add(bytes, Relaxed) == 0 {
            self.moved.store(budget.now(), Relaxed);
        }
        if budget.held.fetch_add(bytes, Relaxed) + bytes > budget.limits.server_bytes {
            budget.close_stalled();
        }
    }

    /// Releases bytes of [`Self::hold`].
    pub(crate) fn release(&self, bytes: usize) {
        let budget = &self.budget;
        budget.held.fetch_sub(bytes, Relaxed);
        let left = self.held.fetch_sub(bytes, Relaxed) - bytes;
        self.moved.store(budget.now(), Relaxed);
        if left <= budget.limits.connection_bytes && left + bytes > budget.limits.connection_bytes {
            self.room.notify_waiters();
        }
    }

    fn has_room(&self) -> bool {
        self.held.load(Relaxed) <= self.budget.limits.connection_bytes
    }
}

impl Charge {
    /// Adds bytes, regardless of limits.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.account.hold(bytes);
    }

    /// Adds bytes, or returns an error if the limit is exceeded.
    pub(crate) fn try_add(&mut self, bytes: usize) -> Result<(), OverBudget> {
        let (account, budget) = (&self.account, &self.account.budget);
        let held = account.held.load(Relaxed);
        let (max, max_total) = (budget.limits.connection_bytes * 2, budget.limits.server_bytes * 2);
        if held > 0 && held.saturating_add(bytes) > max {
            return Err(OverBudget);
        }
        if bytes > SMALL && budget.held.load(Relaxed).saturating_add(bytes) > max_total {
            budget.close_stalled();
            return Err(OverBudget);
        }
        self.add(bytes);
        Ok(())
    }

    /// Moves up to this number of bytes to a new charge.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { account: Arc::clone(&self.account), bytes }
    }

    /// Releases all but this number of bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        drop(self.split(self.bytes.saturating_sub(bytes)));
    }

    /// Reports whether nothing is charged.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Attaches the charge to the bytes. It is released when their last clone is dropped.
    pub(crate) fn on(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.release(self.bytes);
        }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        let now = self.0.budget.now();
        self.0.moved.store(now, Relaxed);
        self.0.delayed_until.store(now, Relaxed);
        self.0.delayed.fetch_sub(1, Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.accounts.lock().open.remove(&self.id);
    }
}

/// Bytes that are charged to a connection.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use crate::budget::*;

    fn budget() -> Arc<Budget> {
        Budget::new(Limits { connection_bytes: 100, server_bytes: 1000, ..Limits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_until_its_connection_reads() {
        let budget = budget();
        let account = budget.open();
        // A single response may be larger than the budget.
        let response = account.try_charge(500).unwrap().on(Bytes::from_static(b"unread"));
        assert!(account.room().now_or_never().is_none());
        assert_eq!(account.try_charge(1).unwrap_err(), OverBudget);
        assert_eq!(budget.open().room().now_or_never(), Some(Ok(())), "other connections do not wait");
        let half = response.slice(..3);
        drop(response);
        assert!(account.room().now_or_never().is_none(), "a part is still held");
        let waiting = tokio::spawn({
            let account = Arc::clone(&account);
            async move { account.room().await }
        });
        tokio::task::yield_now().await;
        drop(half);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(budget.held.load(Relaxed), 0);
        let _kept = account.charge(101);
        let started = Instant::now();
        assert_eq!((account.room().await, started.elapsed()), (Err(OverBudget), WAIT));
    }

    #[tokio::test(start_paused = true)]
    async fn pressure_closes_the_largest_stalled_connection() {
        let budget = budget();
        let [large, small, reading] = [0; 3].map(|_| budget.open());
        let _held = [large.charge(700), small.charge(250)];
        let read = reading.charge(40);
        time::advance(PRESSURE_STALL).await;
        drop(read);
        let _more = reading.charge(100);
        assert!(large.closed().now_or_never().is_some());
        assert!(small.closed().now_or_never().is_none(), "the rest is within the budget");
        assert!(reading.closed().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn time_until_a_turn_is_no_time_without_reading() {
        let budget = budget();
        let [delayed, other] = [0; 2].map(|_| budget.open());
        let _held = delayed.charge(900);
        let delay = delayed.delay();
        time::advance(10 * PRESSURE_STALL).await;
        let _more = other.charge(200);
        assert!(delayed.closed().now_or_never().is_none());
        drop(delay);
        time::advance(PRESSURE_STALL).await;
        let _more = other.charge(1);
        assert!(delayed.closed().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_longer_while_responses_wait_for_turns() {
        let budget = budget();
        let account = budget.open();
        let _held = account.charge(101);
        let delay = account.delay();
        let started = Instant::now();
        let waiting = tokio::spawn({
            let account = Arc::clone(&account);
            async move { account.room().await }
        });
        time::sleep(10 * WAIT).await;
        assert!(!waiting.is_finished());
        drop(delay);
        assert_eq!(waiting.await.unwrap(), Err(OverBudget));
        assert_eq!(started.elapsed(), 11 * WAIT);
    }

    #[test]
    fn account_ends_with_its_connection() {
        let budget = budget();
        let account = budget.open();
        account.hold(10);
        assert_eq!((budget.held(), budget.open_accounts().len()), (10, 1));
        account.release(10);
        drop(account);
        assert!(budget.accounts.lock().open.is_empty());
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_is_rejected_far_above_the_budget() {
        let budget = Budget::new(Limits { server_bytes: SMALL, ..Limits::default() });
        let _held = budget.open().charge(2 * SMALL);
        let account = budget.open();
        assert_eq!(account.try_charge(SMALL + 1).unwrap_err(), OverBudget);
        assert!(account.try_charge(SMALL).is_ok());
    }
}
