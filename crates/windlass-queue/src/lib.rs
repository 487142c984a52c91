//! Work queues: what stands between events, which come in bursts, and workers, which take their time.
//!
//! A [`WorkQueue`] holds *keys*, not events. Producers [`add`](WorkQueue::add) a key when something about it has
//! changed; workers [`get`](WorkQueue::get) a key, look at the newest state of what it names, act, and say
//! [`done`](WorkQueue::done). However often a key is added before a worker takes it, it is worked on once.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use windlass_queue::WorkQueue;
//!
//! let queue = WorkQueue::new();
//! queue.add("blog");
//! queue.add("blog");
//! assert_eq!(queue.len(), 1);
//!
//! let key = queue.get().await.expect("the queue is open");
//! let worked = true; // … the work itself …
//! if worked {
//!     queue.forget(&key); // the next failure starts from the shortest delay again
//! } else {
//!     queue.add_rate_limited(key); // back later, and later each time
//! }
//! queue.done(&key); // always, also after a failure
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! - **Fair**: keys are handed out in the order in which they became ready.
//! - **Stingy**: a key is never handed to two workers at once, and a key that is added many times before it is handed
//!   out is handed out once. Added while a worker has it, it is handed out once more after that worker's `done`.
//! - **Many producers, many consumers**: handles are cheap clones; any number of tasks and threads may add and get.
//!   One ready key wakes one waiting worker.
//! - **Shutdown notifications**: after a shutdown every `get` returns, with what was still queued first and `None`
//!   then; whoever asked for a drain learns when all of it is done.
//! - **Early**: a key that waits for several moments becomes ready at the earliest of them.
//!
//! What client-go's and controller-runtime's queues promise beyond that is in [`contracts`], with the test of each.
//!
//! # What is not
//!
//! - Nothing is durable, and nothing is counted: a key says "look again", not how often or why.
//! - A key whose worker never says `done` is never handed out again.
//! - Delays are lower bounds, in steps of tokio's timer (1 ms).
//! - The memory of the largest burst is kept for the next one.
//!
//! # How it is built
//!
//! One type, three layers, one file each: `queue` (dirty, processing), `delaying` ([`WorkQueue::add_after`]) and
//! `rate_limiting` ([`WorkQueue::add_rate_limited`], over a [`RateLimiter`]). All of them share one lock and one table
//! with one entry per known key. In which order ready keys are handed out is a part of its own, `order`: as they came, [by
//! priority](Builder::by_priority), or as an [`Order`] says. The crate knows nothing of Kubernetes.
//!
//! [`Parallelize`] is for work that is known beforehand, and needs no queue.

pub mod contracts;

mod add;
mod metrics;
mod order;
mod queue;

mod delaying;
mod parallelize;
mod rate_limiter;
mod rate_limiting;

pub use add::AddOptions;
pub use metrics::{QueueMetrics, UnfinishedWork};
pub use order::{DEFAULT_PRIORITY, LOW_PRIORITY, Order};
pub use parallelize::Parallelize;
pub use queue::{Builder, Get, GetWithPriority, WorkQueue};
pub use rate_limiter::{DefaultRateLimiter, Exponential, FastSlow, MaxOf, RateLimiter, TokenBucket, WithMaxWait};

#[cfg(test)]
mod tests;
