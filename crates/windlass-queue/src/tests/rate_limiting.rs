//! Tests of the rate-limiting layer.

use std::time::Duration;

use tokio::time::Instant;

use super::{MS, take};
use crate::{Exponential, WorkQueue};

#[tokio::test(start_paused = true)]
async fn rate_limited_delay_grows_until_forgotten() {
    let queue = WorkQueue::builder().rate_limiter(Exponential::new(MS * 10, Duration::from_secs(1))).build();
    for (failures, expected) in [(1, 10), (2, 20), (3, 40)] {
        let start = Instant::now();
        queue.add_rate_limited("a");
        assert_eq!(queue.num_requeues(&"a"), failures);
        assert_eq!(take(&queue).await, Some("a"));
        let elapsed = start.elapsed();
        assert!(elapsed >= MS * expected && elapsed < MS * (expected + 3), "{elapsed:?}");
        queue.done(&"a");
    }
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    let start = Instant::now();
    queue.add_rate_limited("a");
    take(&queue).await;
    assert!(start.elapsed() < MS * 13);
}
