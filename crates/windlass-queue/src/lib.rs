//! Work queues: buffers between bursts of events and workers, the counterpart of client-go's `workqueue`.
//!
//! A [`WorkQueue`] holds *keys*, not events. Producers [`add`](WorkQueue::add) a key when an object has changed.
//! Workers [`get`](WorkQueue::get) a key, read the current state of its object, act, and call
//! [`done`](WorkQueue::done). A key that is added several times before a worker takes it is processed once.
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
//! let worked = true; // … process the key …
//! if worked {
//!     queue.forget(&key); // reset the back-off
//! } else {
//!     queue.add_rate_limited(key); // retry with back-off
//! }
//! queue.done(&key); // always, also after a failure
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Fair**: keys are handed out in the order in which they became ready.
//! - **Stingy**: a key is never handed to two workers at once. A key that is added several times before it is handed
//!   out is handed out once. A key added while a worker has it is handed out again after the worker's `done`.
//! - **Multiple producers and consumers**: handles are cheap clones. Any number of tasks and threads may add and get.
//!   One ready key wakes one waiting worker.
//! - **Shutdown notifications**: after a shutdown, `get` returns the remaining queued keys and then `None`. A caller of
//!   `shut_down_with_drain` waits until all of them are done.
//! - **Early**: a key added with several delays becomes ready at the earliest time.
//!
//! [`contracts`] lists the further guarantees of client-go's and controller-runtime's queues, with the test for each.
//!
//! # Not guaranteed
//!
//! - Keys are not durable and not counted: a key does not carry how often or why it was added.
//! - A key whose worker never calls `done` is never handed out again.
//! - Delays are lower bounds, with the resolution of tokio's timer (1 ms).
//! - The memory of the largest burst is not released; the next burst reuses it.
//!
//! # Implementation
//!
//! One type with three layers, which share one lock and one table with one entry per key. The crate does not depend
//! on Kubernetes. The modules, from the table of keys to the additions:
//!
//! | module | content |
//! |---|---|
//! | `entries` | the table of keys: each key is stored once |
//! | `order` | the order of ready keys: by arrival, [by priority](Builder::by_priority), or a custom [`Order`] |
//! | `state` | the state under the lock: dirty, processed and delayed keys, waiting workers |
//! | `timer` | the task that makes delayed keys ready |
//! | `metrics` | the receiver of measurements |
//! | `rate_limiter` | delays of failed keys |
//! | `queue` | the first layer: [`WorkQueue::add`], [`WorkQueue::get`], [`WorkQueue::done`], shutdown |
//! | `delaying` | the second layer: [`WorkQueue::add_after`] |
//! | `rate_limiting` | the third layer: [`WorkQueue::add_rate_limited`], with a [`RateLimiter`] |
//! | `add` | additions with options: [`WorkQueue::add_with`] |
//! | `parallelize` | [`Parallelize`] runs a fixed number of tasks that need no queue |

pub mod contracts;

mod entries;
mod order;
mod state;
mod timer;

mod metrics;
mod rate_limiter;

mod queue;

mod delaying;
mod rate_limiting;

mod add;

mod parallelize;

pub use add::AddOptions;
pub use metrics::{QueueMetrics, UnfinishedWork};
pub use order::{DEFAULT_PRIORITY, LOW_PRIORITY, Order};
pub use parallelize::Parallelize;
pub use queue::{Builder, Get, GetWithPriority, WorkQueue};
pub use rate_limiter::{DefaultRateLimiter, Exponential, FastSlow, MaxOf, RateLimiter, TokenBucket, WithMaxWait};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
