use http::Method;
use serde_json::json;

use super::*;
use crate::flow_control::{estimate::ObjectCounts, watch_counts::WatchCounts};

const PATIENCE: Duration = Duration::from_secs(15);

fn limited(name: &str, shares: u32, lendable: u32, response: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("u-{name}")}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}}})
}

fn exempt() -> Value {
    json!({"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {}}})
}

fn schema(name: &str, level: &str, precedence: u32, user: &str) -> Value {
    json!({"metadata": {"name": name, "uid": format!("u-{name}")}, "spec": {
    "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
    "distinguisherMethod": {"type": "ByUser"},
    "rules": [{
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
            "namespaces": ["*"]}],
    }]}})
}

/// Creates the state with the mandatory objects.
fn fairness(seats: u32) -> Fairness {
    let levels = [exempt(), limited("catch-all", 5, 0, &json!({"type": "Reject"}))];
    let schemas = [schema("exempt", "exempt", 1, "admin"), schema("catch-all", "catch-all", 10_000, "*")];
    Fairness::new(seats, &levels, &schemas)
}

/// Lists pods as a user. Returns the names of the schema and the level.
async fn enter(fairness: &Fairness, user: &str) -> (String, String, Result<Option<RunningRequest>, ()>) {
    let (objects, watches) = (ObjectCounts::default(), WatchCounts::default());
    let query = Query::default();
    let info = RequestInfo::new(&Method::GET, "/api/v1/pods", &query).unwrap();
    let user = User::new(user);
    let request = Incoming { info: &info, query: &query, user: &user, patience: PATIENCE };
    let estimator = Estimator { objects: &objects, watches: &watches };
    let (schema, _, running) = fairness.enter(request, estimator).await;
    let schema = schema.unwrap();
    (schema.spec.name.clone(), schema.level.name.clone(), running)
}

async fn classes(fairness: &Fairness, user: &str) -> String {
    let (schema, level, _) = enter(fairness, user).await;
    format!("{schema} {level}")
}

fn limits(fairness: &Fairness) -> Vec<(String, u32)> {
    let configuration = fairness.configuration();
    configuration.levels.iter().map(|(name, level)| (name.clone(), level.state.lock().queues.limit())).collect()
}

fn limit(fairness: &Fairness, level: &str) -> u32 {
    limits(fairness).into_iter().find(|(name, _)| name == level).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn first_schema_by_precedence_and_name_is_used() {
    let fairness = fairness(100);
    assert_eq!(classes(&fairness, "admin").await, "exempt exempt");
    assert_eq!(classes(&fairness, "jane").await, "catch-all catch-all");
    let levels = [limited("a", 10, 0, &json!({"type": "Reject"})), limited("b", 10, 0, &json!({"type": "Reject"}))];
    let schemas = [
        schema("z", "a", 10, "jane"),
        schema("y", "b", 10, "jane"),
        schema("first", "missing", 2, "*"),
        schema("other", "a", 20, "*"),
    ];
    fairness.configure(&levels, &schemas);
    assert_eq!(classes(&fairness, "jane").await, "y b");
    assert_eq!(classes(&fairness, "joe").await, "other a");
    assert_eq!(classes(&fairness, "admin").await, "exempt exempt");
}

#[tokio::test(start_paused = true)]
async fn response_has_uids_only_of_stored_objects() {
    let fairness = fairness(100);
    let uids = |fairness: &Fairness, at: usize| {
        fairness.configuration().schemas[at].uids().map(|uids| uids.clone().map(|uid| uid.to_str().unwrap().to_owned()))
    };
    assert_eq!(uids(&fairness, 0), None);
    assert_eq!(uids(&fairness, 1).unwrap(), ["u-catch-all", "u-catch-all"]);
}

#[tokio::test(start_paused = true)]
async fn removed_level_stays_until_its_requests_have_ended() {
    let fairness = fairness(100);
    fairness.configure(&[limited("a", 10, 0, &json!({"type": "Reject"}))], &[schema("a", "a", 10, "*")]);
    let (.., running) = enter(&fairness, "jane").await;
    fairness.configure(&[], &[]);
    assert_eq!(classes(&fairness, "jane").await, "catch-all catch-all");
    assert_eq!(limits(&fairness).len(), 3);
    fairness.adjust();
    assert_eq!(limits(&fairness).len(), 3);
    drop(running);
    fairness.adjust();
    let names: Vec<_> = limits(&fairness).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["catch-all", "exempt"]);
    // Its metrics are gone, too.
    assert!(!fairness.metrics().contains("priority_level=\"a\""));
}

#[tokio::test(start_paused = true)]
async fn busy_level_borrows_seats_that_others_lend() {
    let fairness = fairness(100);
    let queue = json!({"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 500}});
    let levels = [limited("lender", 10, 80, &queue), limited("busy", 5, 0, &queue)];
    fairness.configure(&levels, &[schema("busy", "busy", 10, "*")]);
    // Of 20 shares, the level has 25 seats.
    assert_eq!(fairness.configuration().levels["busy"].state.lock().seats.nominal, 25);
    let before = limit(&fairness, "busy");
    let mut requests: Vec<_> = (0..200).map(|_| Box::pin(enter(&fairness, "jane"))).collect();
    let mut running = Vec::new();
    for request in &mut requests {
        if let std::task::Poll::Ready((.., request)) = futures::poll!(request) {
            running.push(request);
        }
    }
    assert_eq!(running.len(), before as usize);
    tokio::time::advance(Duration::from_secs(10)).await;
    fairness.adjust();
    // The lender keeps 10 of its 50 seats, and the level `catch-all` all of its 25.
    assert_eq!(limit(&fairness, "busy"), 65);
    assert_eq!(limit(&fairness, "lender"), 10);
    let state = |name: &str| fairness.configuration().levels[name].state.lock().queues.totals;
    assert_eq!(state("busy").executing, 65);
    drop(requests);
    drop(running);
    assert_eq!((state("busy").executing, state("busy").waiting), (0, 0));
    // Without demand, the seats return slowly, until each level has the same multiple of the seats that it does not lend.
    for _ in 0..400 {
        tokio::time::advance(Duration::from_secs(10)).await;
        fairness.adjust();
    }
    assert_eq!(["busy", "catch-all", "lender"].map(|level| limit(&fairness, level)), [42, 42, 17]);
}

#[tokio::test(start_paused = true)]
async fn borrowing_is_limited_by_its_percentage() {
    let fairness = fairness(100);
    let queue = json!({"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 500}});
    let mut busy = limited("busy", 5, 0, &queue);
    busy["spec"]["limited"]["borrowingLimitPercent"] = 20.into();
    fairness.configure(&[limited("lender", 10, 80, &queue), busy], &[schema("busy", "busy", 10, "*")]);
    let mut requests: Vec<_> = (0..200).map(|_| Box::pin(enter(&fairness, "jane"))).collect();
    let mut running = Vec::new();
    for request in &mut requests {
        running.push(futures::poll!(request));
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    fairness.adjust();
    assert_eq!(limit(&fairness, "busy"), 30);
}

#[tokio::test(start_paused = true)]
async fn exempt_requests_reduce_the_seats_of_others() {
    let fairness = fairness(100);
    fairness.configure(
        &[exempt(), limited("a", 10, 50, &json!({"type": "Reject"})), limited("b", 10, 50, &json!({"type": "Reject"}))],
        &[schema("exempt", "exempt", 1, "admin"), schema("a", "a", 10, "*")],
    );
    let mut admins = Vec::new();
    for _ in 0..500 {
        admins.push(enter(&fairness, "admin").await);
    }
    assert!(admins.iter().all(|(.., running)| running.is_ok()));
    tokio::time::advance(Duration::from_secs(10)).await;
    fairness.adjust();
    assert_eq!(limit(&fairness, "exempt"), 500);
    assert_eq!((limit(&fairness, "a"), limit(&fairness, "b")), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_by_level_and_schema() {
    let fairness = fairness(10);
    // The level has 10 seats.
    let mut running = Vec::new();
    for _ in 0..11 {
        running.push(enter(&fairness, "jane").await.2);
    }
    assert_eq!(running.iter().filter(|running| running.is_err()).count(), 1);
    let text = fairness.metrics();
    let labels = "flow_schema=\"catch-all\",priority_level=\"catch-all\"";
    for expected in [
        format!("current_executing_requests{{{labels}}} 10\n"),
        format!("dispatched_requests_total{{{labels}}} 10\n"),
        format!("rejected_requests_total{{{labels},reason=\"concurrency-limit\"}} 1\n"),
        format!("request_wait_duration_seconds_count{{{labels},execute=\"false\"}} 1\n"),
        "nominal_limit_seats{priority_level=\"catch-all\"} 10\n".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected} in {text}");
    }
    drop(running);
    assert!(fairness.metrics().contains(&format!("request_execution_seconds_count{{{labels},type=\"regular\"}} 10\n")));
}
