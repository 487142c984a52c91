use std::time::Duration;

use super::*;

/// A queue, and the profiles of its pods.
#[derive(Debug, Default)]
struct Line {
    queue: Queue,
    profiles: Profiles,
}

fn failure(causes: Causes) -> Failure {
    Failure { message: "full".to_owned(), causes, nomination: Nomination::Clear }
}

impl Line {
    fn add(&mut self, name: &str, priority: i32) {
        let mut pod = pod(name, "1", json!({"priority": priority}));
        pod["metadata"]["labels"] = json!({});
        let (key, pod) = decoded(&pod);
        let profile = self.profiles.of(&pod);
        self.queue.add(&key, &name.into(), &profile);
    }

    fn pop(&mut self) -> Option<String> {
        self.queue.pop(Instant::now()).map(|(key, _)| key.name.to_string())
    }

    /// Takes all pods that can be tried, each of which fits on no node.
    fn fail_all(&mut self, causes: Causes) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(name) = self.pop() {
            self.queue.wait(&ObjectKey::new(&*name).within("n"), &failure(causes), true);
            names.push(name);
        }
        names
    }

    fn notify(&mut self, causes: Causes) {
        self.queue.notify(Instant::now(), |rejected, _| rejected.intersects(causes));
    }

    /// Waits until the next back-off has ended. Returns the time that it took.
    async fn next_backoff(&mut self) -> Option<Duration> {
        let begun = Instant::now();
        let until = self.queue.flush(begun)?;
        sleep_until(until).await;
        self.queue.flush(until);
        Some(begun.elapsed())
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).within("n")
}

#[tokio::test(start_paused = true)]
async fn pods_are_tried_by_priority_then_age() {
    let mut line = Line::default();
    for (name, priority) in [("old", 0), ("new", 0), ("high", 5), ("low", -1)] {
        line.add(name, priority);
    }
    line.queue.remove(&key("new"));
    let order: Vec<_> = std::iter::from_fn(|| line.pop()).collect();
    assert_eq!(order, ["high", "old", "low"]);
}

#[tokio::test(start_paused = true)]
async fn unschedulable_pod_waits_for_an_event_that_helps() {
    let mut line = Line::default();
    line.add("a", 0);
    assert_eq!(line.fail_all(Causes::RESOURCES), ["a"]);
    line.notify(Causes::NODE);
    assert_eq!((line.pop(), line.next_backoff().await), (None, None), "the event does not help");
    line.notify(Causes::RESOURCES);
    assert_eq!(line.pop(), None, "the back-off has not ended");
    assert_eq!(line.next_backoff().await, Some(Duration::from_secs(1)));
    assert_eq!(line.pop().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles_up_to_ten_seconds() {
    let mut line = Line::default();
    line.add("a", 0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        line.fail_all(Causes::RESOURCES);
        line.notify(Causes::RESOURCES);
        waits.push(line.next_backoff().await.unwrap().as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    // The time that a pod has waited already counts.
    line.fail_all(Causes::RESOURCES);
    tokio::time::sleep(Duration::from_secs(11)).await;
    line.notify(Causes::RESOURCES);
    assert_eq!(line.pop().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn event_tries_one_pod_of_each_group() {
    let mut line = Line::default();
    for (name, priority) in [("a1", 0), ("a2", 0), ("a3", 0), ("b1", 1), ("b2", 1)] {
        line.add(name, priority);
    }
    assert_eq!(line.fail_all(Causes::RESOURCES), ["b1", "b2", "a1", "a2", "a3"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    line.notify(Causes::RESOURCES);
    line.notify(Causes::RESOURCES);
    assert_eq!(line.pop().as_deref(), Some("b1"));
    assert_eq!(line.pop().as_deref(), Some("a1"));
    assert_eq!(line.pop(), None);
    // A pod that gets a node is followed by the next one of its group.
    line.queue.placed(&key("a1"));
    assert_eq!(line.pop().as_deref(), Some("a2"));
    line.queue.wait(&key("a2"), &failure(Causes::RESOURCES), true);
    line.queue.wait(&key("b1"), &failure(Causes::RESOURCES), true);
    assert_eq!(line.pop(), None, "the group is full again");
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_is_followed_by_the_next_of_its_group() {
    let mut line = Line::default();
    line.add("a1", 0);
    line.add("a2", 0);
    line.fail_all(Causes::RESOURCES);
    line.notify(Causes::RESOURCES);
    line.queue.remove(&key("a1"));
    assert_eq!(line.pop().as_deref(), Some("a2"));
}

#[tokio::test(start_paused = true)]
async fn failure_is_known_until_an_event_helps() {
    let mut line = Line::default();
    line.add("a1", 0);
    let profile = Arc::clone(&line.queue.get(&key("a1")).unwrap().profile);
    assert!(line.queue.known_failure(&profile).is_none());
    line.fail_all(Causes::RESOURCES);
    assert_eq!(line.queue.known_failure(&profile).unwrap().message, "full");
    line.notify(Causes::NODE);
    assert!(line.queue.known_failure(&profile).is_some());
    line.notify(Causes::RESOURCES);
    assert!(line.queue.known_failure(&profile).is_none());
}

#[tokio::test(start_paused = true)]
async fn failed_request_is_retried_after_a_backoff() {
    let mut line = Line::default();
    line.add("a", 0);
    assert_eq!(line.pop().as_deref(), Some("a"));
    line.queue.retry(&key("a"), Instant::now());
    assert_eq!(line.next_backoff().await, Some(Duration::from_secs(1)));
    assert_eq!(line.pop().as_deref(), Some("a"));
}
