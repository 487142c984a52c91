//! Tests of the metrics.

use std::sync::Arc;

use tokio::time::{advance, sleep};

use super::{MS, Recorded, take};
use crate::{UnfinishedWork, WorkQueue};

#[tokio::test(start_paused = true)]
async fn metrics_have_the_meanings_of_client_go() {
    let recorded = Arc::new(Recorded::default());
    let queue = WorkQueue::builder().name("q").metrics(recorded.clone()).build();
    assert_eq!(queue.name(), "q");
    let happened = || recorded.happened();
    queue.add("a");
    queue.add("a");
    assert_eq!(happened(), ["added", "all: +1"], "deduplicated additions do not count");
    advance(MS * 3).await;
    take(&queue).await;
    assert_eq!(happened(), ["taken after 3ms", "all: -1"]);
    queue.add("a");
    advance(MS * 5).await;
    let ms5 = MS * 5;
    assert_eq!(queue.unfinished_work(), UnfinishedWork { keys: 1, total: ms5, longest: ms5 });
    queue.done(&"a");
    assert_eq!(happened(), ["added", "all: +1", "finished after 5ms"]);
    take(&queue).await;
    assert_eq!(happened(), ["taken after 5ms", "all: -1"], "it has been dirty since it was added");
    queue.done(&"a");
    happened();
    queue.add_after("b", MS * 10);
    assert_eq!(happened(), ["retried"]);
    sleep(MS * 20).await;
    assert_eq!(happened(), ["added", "all: +1"]);
    assert_eq!(queue.unfinished_work(), UnfinishedWork::default());
}
