use serde_json::json;

use super::*;
use crate::flow_control::work::Work;

const LIMIT: Duration = Duration::from_secs(15);

/// Creates a level with one seat and one queue.
fn level(length: u32) -> Arc<Level> {
    let object = json!({"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "limitResponse": {"type": "Queue",
            "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": length}}}}});
    let now = Instant::now();
    let level = Level::new(LevelSpec::read(&object).unwrap(), now);
    assert_eq!(level.divide(1, 1.0, now), 1);
    Arc::new(level)
}

fn totals(level: &Level) -> (u32, u32, u32) {
    let totals = level.state.lock().queues.totals;
    (totals.waiting, totals.executing, totals.seats)
}

#[tokio::test(start_paused = true)]
async fn request_waits_until_a_seat_is_free() {
    let (level, flow) = (level(5), Arc::<FlowSeries>::default());
    let first = level.enter(Work::ONE, 0, &flow, LIMIT).await.unwrap();
    let (second, ()) = tokio::join!(level.enter(Work::ONE, 0, &flow, LIMIT), async {
        time::sleep(Duration::from_secs(3)).await;
        assert_eq!(totals(&level), (1, 1, 1));
        drop(first);
    });
    assert_eq!(totals(&level), (0, 1, 1));
    drop(second.unwrap());
    assert_eq!(totals(&level), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_a_limited_time() {
    let (level, flow) = (level(5), Arc::<FlowSeries>::default());
    let first = level.enter(Work::ONE, 0, &flow, LIMIT).await.unwrap();
    let start = Instant::now();
    assert_eq!(level.enter(Work::ONE, 0, &flow, LIMIT).await.unwrap_err(), Reason::TimeOut);
    assert_eq!(start.elapsed(), LIMIT);
    assert_eq!(totals(&level), (0, 1, 1));
    drop(first);
    assert_eq!(totals(&level), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn dropped_request_frees_its_place_and_its_seat() {
    let (level, flow) = (level(5), Arc::<FlowSeries>::default());
    let first = level.enter(Work::ONE, 0, &flow, LIMIT).await.unwrap();
    let mut second = Box::pin(level.enter(Work::ONE, 0, &flow, LIMIT));
    let mut third = Box::pin(level.enter(Work::ONE, 0, &flow, LIMIT));
    assert!(futures::poll!(&mut second).is_pending());
    assert!(futures::poll!(&mut third).is_pending());
    assert_eq!(totals(&level), (2, 1, 1));
    drop(second);
    assert_eq!(totals(&level), (1, 1, 1));
    // The seat is sent to the third request, which is dropped before it takes it.
    drop(first);
    assert_eq!(totals(&level), (0, 1, 1));
    drop(third);
    assert_eq!(totals(&level), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn seats_of_a_write_are_released_after_its_latency() {
    let (level, flow) = (level(5), Arc::<FlowSeries>::default());
    let work = Work { initial: 1, last: 1, latency: Duration::from_millis(40) };
    drop(level.enter(work, 0, &flow, LIMIT).await.unwrap());
    assert_eq!(totals(&level), (0, 0, 1));
    let start = Instant::now();
    drop(level.enter(Work::ONE, 0, &flow, LIMIT).await.unwrap());
    assert_eq!(start.elapsed(), Duration::from_millis(40));
}

#[test]
fn seats_follow_shares_and_percentages() {
    let seats = |limits: serde_json::Value| {
        let spec = LevelSpec::read(&json!({"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": limits}}));
        let Seats { nominal, lower, upper } = spec.unwrap().seats(600, 245.0);
        (nominal, lower, upper)
    };
    let reject = json!({"type": "Reject"});
    assert_eq!(seats(json!({"nominalConcurrencyShares": 20, "limitResponse": reject})), (49, 49, 649));
    assert_eq!(
        seats(json!({"nominalConcurrencyShares": 20, "limitResponse": reject, "lendablePercent": 50,
            "borrowingLimitPercent": 10})),
        (49, 24, 54)
    );
    // The default of the shares.
    assert_eq!(seats(json!({"limitResponse": reject})).0, 74);
}

#[test]
fn inconsistent_levels_are_not_used() {
    for spec in [
        json!({}),
        json!({"type": "Exempt", "exempt": {}}),
        json!({"type": "Limited"}),
        json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}}),
        json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject", "queuing": {}}}}),
    ] {
        assert_eq!(LevelSpec::read(&json!({"metadata": {"name": "l"}, "spec": spec})), None, "{spec}");
    }
}

#[test]
fn seats_are_freed_if_the_runtime_ends_during_the_latency() {
    let work = Work { initial: 1, last: 1, latency: Duration::from_hours(1) };
    let flow = Arc::<FlowSeries>::default();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let level = first.block_on(async {
        let level = level(5);
        drop(level.enter(work, 0, &flow, LIMIT).await.unwrap());
        assert_eq!(totals(&level).2, 1, "the seat is occupied during the latency");
        level
    });
    drop(first);
    assert_eq!(totals(&level), (0, 0, 0));
    runtime().block_on(async { assert!(level.enter(work, 0, &flow, LIMIT).await.is_ok()) });
}
