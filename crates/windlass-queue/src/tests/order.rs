//! Tests of custom orders.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{nothing_ready, take};
use crate::{Order, WorkQueue};

/// Last in, first out; a touched item becomes the last one. Records its calls.
#[derive(Debug, Default)]
struct Newest {
    items: Vec<&'static str>,
    asked: Arc<Mutex<Vec<String>>>,
    /// An item that is returned once before all others, although it was never pushed.
    invented: Option<&'static str>,
}

impl Order<&'static str> for Newest {
    fn push(&mut self, item: &'static str) {
        self.asked.lock().push(format!("push {item}"));
        self.items.push(item);
    }

    fn touch(&mut self, item: &&'static str) {
        self.asked.lock().push(format!("touch {item}"));
        self.items.retain(|other| other != item);
        self.items.push(item);
    }

    fn pop(&mut self) -> Option<&'static str> {
        self.invented.take().or_else(|| self.items.pop())
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}

#[tokio::test]
async fn custom_order_decides_the_next_item() {
    let queue = WorkQueue::builder().order(Newest::default()).build();
    for item in ["a", "b", "c"] {
        queue.add(item);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(take(&queue).await, Some("c"));
    queue.add("c");
    assert_eq!(queue.len(), 2, "items in processing are not passed to the order");
    queue.done(&"c");
    assert_eq!([take(&queue).await, take(&queue).await, take(&queue).await], [Some("c"), Some("b"), Some("a")]);
}

#[tokio::test]
async fn custom_order_is_touched_for_queued_items_only() {
    let order = Newest::default();
    let asked = order.asked.clone();
    let queue = WorkQueue::builder().order(order).build();
    for item in ["a", "b", "a"] {
        queue.add(item);
    }
    assert_eq!(take(&queue).await, Some("a"), "it was touched");
    queue.add("a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(*asked.lock(), ["push a", "push b", "touch a", "push a"]);
}

#[tokio::test]
async fn order_that_returns_unknown_items_is_harmless() {
    let order = Newest { invented: Some("invented"), ..Newest::default() };
    let queue = WorkQueue::builder().order(order).build();
    queue.add("a");
    assert_eq!(take(&queue).await, Some("a"));
    queue.done(&"a");
    assert!(nothing_ready(&queue).await);
}
