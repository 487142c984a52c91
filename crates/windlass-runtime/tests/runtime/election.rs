//! Tests of leader election, under paused time. The numbers are those of the contracts.

use std::{
    sync::{Arc, atomic::AtomicBool, atomic::Ordering::SeqCst},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use windlass_api::{
    Clock, Entropy,
    k8s_openapi::{api::core::v1::ConfigMap, jiff::Timestamp},
};
use windlass_runtime::{
    Action, Context, Controller, Error, Group, LeaderElection, Leadership, Manager, Running, Task, Watch,
    leader_election::{ElectionMetrics, Elector, InvalidElection, Verdict},
};

use crate::{
    fake::{Fake, MS, Run, config, eventually},
    leases::{Leases, Line},
};

const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// Creates an election whose wall clock differs by `skew` seconds from the others, which must not matter.
fn election(identity: &str, skew: i64) -> LeaderElection {
    let start = Instant::now();
    let now = move || {
        let elapsed = i64::try_from(start.elapsed().as_micros()).unwrap();
        Timestamp::from_microsecond(1_700_000_000_000_000 + skew * 1_000_000 + elapsed).unwrap()
    };
    let seed = identity.bytes().map(u64::from).sum();
    LeaderElection::new("lock").identity(identity).clock(Clock::from_fn(now)).entropy(Entropy::seeded(seed))
}

/// A running candidate.
struct Candidate {
    leadership: Leadership,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Verdict>,
}

impl Candidate {
    fn start(server: &Leases, identity: &str) -> Self {
        Self::of(election(identity, 0).elector(&server.client(identity)).unwrap())
    }

    fn of(elector: Elector) -> Self {
        let leadership = elector.leadership();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async { drop(stopped.await) }));
        Self { leadership, stop, task }
    }

    fn leads(&self) -> bool {
        self.leadership.is_leader()
    }

    async fn verdict(self) -> Verdict {
        timeout(Duration::from_hours(1), self.task).await.expect("the candidacy ends").unwrap()
    }

    async fn stop(self) -> Verdict {
        drop(self.stop);
        timeout(Duration::from_hours(1), self.task).await.expect("the candidacy ends").unwrap()
    }
}

#[test]
fn invalid_timings_are_rejected_with_client_go_texts() {
    let [none, one, ten, fifteen] = [0, 1, 10, 15].map(Duration::from_secs);
    let cases = [
        (ten, ten, one, "leaseDuration must be greater than renewDeadline"),
        (none, none, none, "leaseDuration must be greater than renewDeadline"),
        (fifteen, Duration::from_millis(2400), RETRY, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (one, none, none, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (fifteen, ten, none, "retryPeriod must be greater than zero"),
    ];
    let client = Leases::default().client("a");
    for (lease, deadline, retry, expected) in cases {
        let election = election("a", 0).lease_duration(lease).renew_deadline(deadline).retry_period(retry);
        assert_eq!(election.elector(&client).unwrap_err().to_string(), expected);
    }
    let close = election("a", 0).renew_deadline(Duration::from_millis(2401));
    assert!(close.elector(&client).is_ok());
    assert_eq!(election("", 0).elector(&client).unwrap_err(), InvalidElection::NoIdentity);
    assert_eq!(LeaderElection::new("").elector(&client).unwrap_err(), InvalidElection::NoLease);
    let [first, second] = [1, 2].map(|seed| LeaderElection::new("l").entropy(Entropy::seeded(seed)).elector(&client));
    assert_ne!(first.unwrap().identity(), second.unwrap().identity(), "the default identity is unique");
}

#[tokio::test(start_paused = true)]
async fn election_defaults_are_those_of_client_go() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    sleep(Duration::from_secs(21)).await;
    assert_eq!(server.lease().unwrap()["spec"]["leaseDurationSeconds"], 15);
    let writes = server.sent("a").iter().filter(|sent| !sent.request.starts_with("GET")).count();
    assert_eq!(writes, 11, "at once, and every two seconds");
    server.line("a", Line::Cut);
    let (cut, leadership) = (Instant::now(), candidate.leadership.clone());
    assert_eq!(candidate.verdict().await, Verdict::Lost);
    assert!(!leadership.is_leader());
    // The last renewal was one second earlier.
    assert_eq!(cut.elapsed().as_secs(), 9);
}

#[tokio::test(start_paused = true)]
async fn candidates_retry_with_jitter_within_retry_period() {
    let server = Leases::default();
    let leader = Candidate::start(&server, "leader");
    eventually("a leader", || leader.leads()).await;
    let others = ["b", "c"].map(|name| Candidate::start(&server, name));
    sleep(Duration::from_mins(5)).await;
    let pauses = |name: &str| {
        let times: Vec<_> = server.sent(name).iter().map(|sent| sent.at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    for name in ["b", "c"] {
        assert!(pauses(name).len() > 150);
        for pause in pauses(name) {
            assert!(pause >= RETRY / 2 && pause <= RETRY + MS, "{pause:?}");
        }
    }
    assert_ne!(pauses("b"), pauses("c"));
    assert!(others.iter().all(|other| !other.leads()));
}

#[tokio::test(start_paused = true)]
async fn leader_retries_renewal_until_the_deadline() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    eventually("a leader", || candidate.leads()).await;
    server.line("a", Line::Refused(500));
    sleep(Duration::from_secs(7)).await;
    assert!(candidate.leads());
    server.line("a", Line::Up);
    sleep(Duration::from_mins(1)).await;
    assert!(candidate.leads(), "it was renewed at the last moment");
    server.line("a", Line::Refused(500));
    let refused = Instant::now();
    assert_eq!(candidate.verdict().await, Verdict::Lost);
    assert!(refused.elapsed() <= DEADLINE && refused.elapsed() + RETRY >= DEADLINE, "{:?}", refused.elapsed());
}

#[tokio::test(start_paused = true)]
async fn election_tolerates_skewed_clocks() {
    // One clock is an hour slow, the other an hour fast.
    let server = Leases::default();
    let start = |name: &str, skew| Candidate::of(election(name, skew).elector(&server.client(name)).unwrap());
    let first = start("behind", -3600);
    eventually("a leader", || first.leads()).await;
    let second = start("ahead", 3600);
    sleep(Duration::from_mins(10)).await;
    assert!(first.leads() && !second.leads(), "the lease looks old to the second, but is renewed");
    server.line("behind", Line::Cut);
    let cut = Instant::now();
    eventually("a new leader", || second.leads()).await;
    assert!(!first.leads());
    assert!(cut.elapsed() + RETRY >= LEASE, "{:?}", cut.elapsed());
    assert_eq!(server.holder(), "ahead");
}

#[tokio::test(start_paused = true)]
async fn takeover_takes_lease_duration_plus_retry_period() {
    for seed in 0..20 {
        let server = Leases::default();
        let leader = Candidate::start(&server, "leader");
        eventually("a leader", || leader.leads()).await;
        let others: Vec<_> = (0..2)
            .map(|n| {
                let name = format!("other-{n}");
                let election = election(&name, 0).entropy(Entropy::seeded(seed * 2 + n));
                Candidate::of(election.elector(&server.client(&name)).unwrap())
            })
            .collect();
        sleep(Duration::from_secs(20) + MS * u32::try_from(seed * 100).unwrap()).await;
        leader.task.abort();
        let killed = Instant::now();
        eventually("a new leader", || others.iter().any(Candidate::leads)).await;
        assert!(killed.elapsed() <= LEASE + RETRY + MS * 5, "{:?}", killed.elapsed());
        assert!(killed.elapsed() + RETRY >= LEASE, "{:?}", killed.elapsed());
        sleep(LEASE * 3).await;
        assert_eq!(others.iter().filter(|other| other.leads()).count(), 1);
        drop(leader.stop);
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_one_leader_under_network_faults() {
    let entropy = Entropy::seeded(7);
    let server = Leases::default();
    let names = ["a", "b", "c"];
    let leaders: Arc<Mutex<Vec<Option<Leadership>>>> = Arc::new(Mutex::new(vec![None, None, None]));
    for (at, name) in names.into_iter().enumerate() {
        let (server, leaders) = (server.clone(), leaders.clone());
        tokio::spawn(async move {
            loop {
                let elector = election(name, 0).elector(&server.client(name)).unwrap();
                leaders.lock()[at] = Some(elector.leadership());
                let _ = elector.run(std::future::pending()).await;
                leaders.lock()[at] = None;
            }
        });
    }
    let (mut seen, mut changes, mut last) = (0, 0, String::new());
    for _ in 0..40_000 {
        if entropy.below(100) == 0 {
            #[expect(clippy::cast_possible_truncation, reason = "below 3")]
            let name = names[entropy.below(3) as usize];
            let slow = Duration::from_millis(entropy.below(20_000));
            server.line(
                name,
                match entropy.below(4) {
                    0 => Line::Cut,
                    1 => Line::SlowAnswer(slow),
                    2 => Line::Refused(500),
                    _ => Line::Up,
                },
            );
        }
        sleep(MS * 50).await;
        let leading = leaders.lock().iter().flatten().filter(|leadership| leadership.is_leader()).count();
        assert!(leading <= 1);
        seen += leading;
        let holder = server.holder();
        changes += usize::from(holder != last);
        last = holder;
    }
    assert!(seen > 10_000, "there is a leader most of the time: {seen}");
    assert!(changes > 20, "the leader changes: {changes}");
}

#[tokio::test(start_paused = true)]
async fn leader_reads_the_lease_only_after_failed_renewal() {
    let server = Leases::default();
    let slow = Counted::default();
    let elector = election("a", 0).metrics(slow.clone()).elector(&server.client("a")).unwrap();
    let candidate = Candidate::of(elector);
    sleep(RETRY * 3 + MS).await;
    let requests = |from: usize| -> Vec<_> {
        let sent = server.sent("a");
        sent[from..].iter().map(|sent| (sent.request.split(' ').next().unwrap().to_owned(), sent.status)).collect()
    };
    let is = |list: &[(&str, u16)]| list.iter().map(|(verb, status)| ((*verb).to_owned(), *status)).collect::<Vec<_>>();
    assert_eq!(requests(0), is(&[("GET", 404), ("POST", 200), ("PUT", 200), ("PUT", 200), ("PUT", 200)]));
    server.change(|lease| lease["metadata"]["labels"] = json!({"of": "somebody"}));
    sleep(RETRY).await;
    assert_eq!(requests(5), is(&[("PUT", 409), ("GET", 200), ("PUT", 200)]));
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["of"], "somebody", "labels of other clients remain");
    server.remove();
    sleep(RETRY).await;
    assert_eq!(requests(8), is(&[("PUT", 404), ("GET", 404), ("POST", 200)]));
    assert!(candidate.leads());
    assert_eq!(slow.lines(), ["lost lock", "acquired lock", "slow lock"]);
}

#[tokio::test(start_paused = true)]
async fn lease_without_holder_is_acquired_at_once() {
    let server = Leases::default();
    let first = Candidate::start(&server, "a");
    eventually("a leader", || first.leads()).await;
    first.task.abort();
    let acquired = server.lease().unwrap()["spec"]["acquireTime"].clone();
    // After a restart with the same identity the candidate is still the holder and need not wait.
    let again = Candidate::start(&server, "a");
    sleep(MS).await;
    assert!(again.leads());
    assert_eq!(server.lease().unwrap()["spec"]["acquireTime"], acquired);
    again.task.abort();
    server.change(|lease| lease["spec"]["holderIdentity"] = json!(""));
    let other = Candidate::start(&server, "b");
    sleep(MS).await;
    assert!(other.leads());
    assert_eq!(server.lease().unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn leader_stops_when_its_lease_was_taken() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    eventually("a leader", || candidate.leads()).await;
    server.change(|lease| lease["spec"]["holderIdentity"] = json!("thief"));
    let taken = Instant::now();
    let leadership = candidate.leadership.clone();
    assert_eq!(candidate.verdict().await, Verdict::Lost);
    assert!(taken.elapsed() <= RETRY);
    assert_eq!(leadership.leader().as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn holder_releases_lease_on_stop_despite_conflicts() {
    let server = Leases::default();
    let releasing =
        |name: &str| Candidate::of(election(name, 0).release_on_stop().elector(&server.client(name)).unwrap());
    let first = releasing("a");
    eventually("a leader", || first.leads()).await;
    let waiting = releasing("b");
    sleep(Duration::from_secs(5)).await;
    let before = server.lease();
    assert_eq!(waiting.stop().await, Verdict::Stopped);
    assert_eq!(server.lease().unwrap()["spec"]["holderIdentity"], before.unwrap()["spec"]["holderIdentity"]);

    let next = releasing("c");
    sleep(Duration::from_secs(5)).await;
    server.change(|lease| lease["metadata"]["labels"] = json!({"changed": "meanwhile"}));
    let (stopped, leadership) = (Instant::now(), first.leadership.clone());
    assert_eq!(first.stop().await, Verdict::Stopped);
    assert!(!leadership.is_leader());
    let spec = server.lease().unwrap()["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert_eq!(spec["renewTime"], spec["acquireTime"]);
    eventually("the next leader", || next.leads()).await;
    assert!(stopped.elapsed() <= RETRY, "{:?}", stopped.elapsed());
    assert_eq!(server.lease().unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn lease_is_kept_without_release_or_if_foreign() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    eventually("a leader", || candidate.leads()).await;
    candidate.stop().await;
    assert_eq!(server.holder(), "a");
    server.remove();

    let elector = election("b", 0).release_on_stop().elector(&server.client("b")).unwrap();
    let candidate = Candidate::of(elector);
    eventually("a leader", || candidate.leads()).await;
    server.change(|lease| lease["spec"]["holderIdentity"] = json!("thief"));
    candidate.stop().await;
    assert_eq!(server.holder(), "thief");
}

#[tokio::test(start_paused = true)]
async fn release_ends_at_the_renew_deadline() {
    let server = Leases::default();
    let candidate = Candidate::of(election("a", 0).release_on_stop().elector(&server.client("a")).unwrap());
    eventually("a leader", || candidate.leads()).await;
    server.line("a", Line::Cut);
    let stopped = Instant::now();
    assert_eq!(candidate.stop().await, Verdict::Stopped);
    assert!(stopped.elapsed() <= DEADLINE, "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn new_leader_is_reported_once_and_work_ends_on_loss() {
    let server = Leases::default();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let telling = told.clone();
    let election = election("a", 0).on_new_leader(move |leader| {
        telling.lock().push(leader.to_owned());
        assert_ne!(leader, "first", "a panic of the callback is contained");
    });
    let first = Candidate::start(&server, "first");
    eventually("a leader", || first.leads()).await;

    let working = Arc::new(AtomicBool::new(false));
    let (guard, elector) = (working.clone(), election.elector(&server.client("a")).unwrap());
    let leading = tokio::spawn(elector.lead(std::future::pending(), |leadership| async move {
        assert!(leadership.is_leader());
        let _guard = Guard::new(guard);
        std::future::pending::<()>().await;
    }));
    sleep(Duration::from_mins(1)).await;
    assert!(!working.load(SeqCst));
    first.task.abort();
    eventually("the work has begun", || working.load(SeqCst)).await;
    assert_eq!(*told.lock(), ["first", "a"]);
    server.line("a", Line::Cut);
    assert_eq!(timeout(LEASE, leading).await.expect("it is lost").unwrap(), Verdict::Lost);
    assert!(!working.load(SeqCst), "the work was dropped");
}

#[tokio::test(start_paused = true)]
async fn candidacy_can_be_stopped_before_and_while_leading() {
    let server = Leases::default();
    let first = Candidate::start(&server, "a");
    eventually("a leader", || first.leads()).await;
    let waiting = election("b", 0).elector(&server.client("b")).unwrap();
    let verdict = waiting.lead(sleep(Duration::from_secs(30)), |_| async { panic!("it never leads") }).await;
    assert_eq!(verdict, Verdict::Stopped);
    first.stop().await;
    server.remove();

    let done = election("c", 0).release_on_stop().elector(&server.client("c")).unwrap();
    let started = Instant::now();
    let verdict = done.lead(std::future::pending(), |_| sleep(Duration::from_secs(30))).await;
    assert_eq!((verdict, started.elapsed().as_secs()), (Verdict::Stopped, 30), "the work was done");
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn expired_leader_fails_its_health_check() {
    let server = Leases::default();
    let elector = election("a", 0).elector(&server.client("a")).unwrap();
    let leadership = elector.leadership();
    assert_eq!(leadership.check(Duration::ZERO), Ok(()), "a candidate that is not the leader is healthy");
    // Blocked: the future is polled until it leads, and then not any more.
    let mut run = Box::pin(elector.run(std::future::pending()));
    tokio::select! {
        _ = &mut run => panic!("it leads"),
        () = leadership.acquired() => {}
    }
    sleep(LEASE + Duration::from_secs(5)).await;
    assert!(!leadership.is_leader(), "is_leader is correct nevertheless");
    assert_eq!(leadership.check(Duration::from_secs(5)), Ok(()));
    sleep(MS).await;
    let error = leadership.check(Duration::from_secs(5)).unwrap_err();
    assert_eq!(error.to_string(), "failed election to renew leadership on lease lock");
    assert_eq!(run.await, Verdict::Lost, "the blocked elector gives up when it continues");
}

#[tokio::test(start_paused = true)]
async fn lease_has_labels_and_events() {
    let server = Leases::default();
    let election = election("a", 0).label("team", "paint").namespace("ours").release_on_stop();
    let manager = Manager::builder(server.client("a")).leader_election(election).build();
    let run = Run::start(manager);
    eventually("a leader", || server.holder() == "a").await;
    run.stop().await.unwrap();
    assert_eq!(server.lease().unwrap()["metadata"]["labels"]["team"], "paint");
    assert!(server.sent("a").iter().all(|sent| sent.request.contains("/namespaces/ours/leases")));
    assert_eq!(server.events(), ["LeaderElection a became leader", "LeaderElection a stopped leading"]);
}

#[tokio::test(start_paused = true)]
async fn request_timeout_is_half_the_renew_deadline() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    eventually("a leader", || candidate.leads()).await;
    sleep(RETRY * 2).await;
    // One request is lost; there is time for a retry.
    server.line("a", Line::Cut);
    sleep(Duration::from_secs(3)).await;
    server.line("a", Line::Up);
    sleep(Duration::from_mins(1)).await;
    assert!(candidate.leads());
}

#[tokio::test(start_paused = true)]
async fn late_renewal_counts_from_its_request() {
    let server = Leases::default();
    let candidate = Candidate::start(&server, "a");
    eventually("a leader", || candidate.leads()).await;
    // Renewals succeed, but their responses arrive after four seconds.
    server.line("a", Line::SlowAnswer(Duration::from_secs(4)));
    sleep(Duration::from_secs(30)).await;
    assert!(candidate.leads());
    server.line("a", Line::Cut);
    let leadership = candidate.leadership.clone();
    assert_eq!(candidate.verdict().await, Verdict::Lost);
    let last = server.sent("a").last().unwrap().at;
    assert!(!leadership.is_leader());
    assert!(last.elapsed() <= DEADLINE, "{:?} after the server had it", last.elapsed());
}

#[tokio::test(start_paused = true)]
async fn metrics_name_the_leader() {
    let (server, counted) = (Leases::default(), Counted::default());
    let candidate = Candidate::of(election("a", 0).metrics(counted.clone()).elector(&server.client("a")).unwrap());
    assert_eq!(counted.lines(), ["lost lock"], "from the beginning");
    eventually("a leader", || candidate.leads()).await;
    candidate.stop().await;
    assert_eq!(counted.lines(), ["lost lock", "acquired lock", "lost lock"]);
}

#[tokio::test(start_paused = true)]
async fn lost_election_stops_the_manager_at_once() {
    let server = Leases::default();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let manager = |name: &'static str| {
        let mut manager = Manager::builder(server.client(name)).leader_election(election(name, 0)).build();
        for group in [Group::Controllers, Group::WarmUps, Group::Others] {
            let log = log.clone();
            manager.add(
                Task::new(format!("{group:?}"), async move |running: Running| {
                    log.lock().push(format!("{name} {group:?} {}", running.leadership().is_leader()));
                    std::future::pending::<()>().await;
                    Ok(())
                })
                .in_group(group),
            );
        }
        Run::start(manager)
    };
    let first = manager("a");
    eventually("the first leads", || log.lock().len() == 3).await;
    let second = manager("b");
    sleep(Duration::from_mins(1)).await;
    let expected = ["a Others false", "a WarmUps false", "a Controllers true", "b Others false", "b WarmUps false"];
    assert_eq!(*log.lock(), expected);

    server.line("a", Line::Cut);
    let cut = Instant::now();
    let error = first.result().await.unwrap_err();
    assert!(matches!(error, Error::LeadershipLost));
    assert_eq!(error.to_string(), "leader election lost");
    assert!(cut.elapsed() <= DEADLINE, "without a grace period: {:?}", cut.elapsed());
    eventually("the second leads", || log.lock().len() == 6).await;
    assert_eq!(log.lock()[5], "b Controllers true");
    second.drop_future();
}

#[tokio::test(start_paused = true)]
async fn lease_is_released_after_its_runnables_have_stopped() {
    let server = Leases::default();
    let holder_at_end: Arc<Mutex<Option<String>>> = Arc::default();
    let election = election("a", 0).release_on_stop();
    let mut manager = Manager::builder(server.client("a")).leader_election(election).build();
    let (leases, holder) = (server.clone(), holder_at_end.clone());
    let task = Task::new("slow", async move |running: Running| {
        running.stop().requested().await;
        sleep(Duration::from_secs(20)).await;
        assert!(running.leadership().is_leader(), "the lease is renewed until the end");
        *holder.lock() = Some(leases.holder());
        Ok(())
    });
    manager.add(task.in_group(Group::Controllers));
    let run = Run::start(manager);
    eventually("a leader", || server.holder() == "a").await;
    run.stop().await.unwrap();
    assert_eq!(holder_at_end.lock().as_deref(), Some("a"));
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn warm_up_fills_caches_before_leadership() {
    let (server, fake) = (Leases::default(), Fake::new());
    fake.put(&config("a"));
    let first = Candidate::start(&server, "first");
    eventually("a leader", || first.leads()).await;
    let log: Arc<Mutex<Vec<&str>>> = Arc::default();
    let mut manager = fake.manager_of(server.client("a")).leader_election(election("a", 0)).build();
    let noting = |name: &'static str| {
        let log = log.clone();
        move |_: Arc<ConfigMap>, _: Context| {
            log.lock().push(name);
            async { Ok::<_, Error>(Action::await_change()) }
        }
    };
    manager.add(Controller::<ConfigMap>::new().named("cold").reconcile(noting("cold")));
    manager
        .add(Controller::watching(Watch::<ConfigMap>::within("ns")).named("warm").warm_up().reconcile(noting("warm")));
    manager.add(
        Controller::watching(Watch::<ConfigMap>::all().labels("!x"))
            .named("everywhere")
            .in_every_process()
            .reconcile(noting("everywhere")),
    );
    let run = Run::start(manager);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(*log.lock(), ["everywhere"]);
    assert_eq!(fake.opened().len(), 2, "only the warmed-up controller has a cache");
    first.task.abort();
    eventually("it leads", || log.lock().len() == 3).await;
    assert_eq!(log.lock()[1], "warm", "its queue was full already");
    run.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_election_fails_before_start() {
    let server = Leases::default();
    let election = election("a", 0).retry_period(Duration::ZERO);
    let mut manager = Manager::builder(server.client("a")).leader_election(election).build();
    manager.add(Task::new("never", async |_: Running| panic!("it is started")));
    let error = manager.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, Error::Election(InvalidElection::NoRetryPeriod)));
}

/// Records the metrics.
#[derive(Clone, Debug, Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

impl Counted {
    fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl ElectionMetrics for Counted {
    fn acquired(&self, lease: &str) {
        self.0.lock().push(format!("acquired {lease}"));
    }

    fn lost(&self, lease: &str) {
        self.0.lock().push(format!("lost {lease}"));
    }

    fn slow_path(&self, lease: &str) {
        self.0.lock().push(format!("slow {lease}"));
    }
}

/// True until it is dropped.
struct Guard(Arc<AtomicBool>);

impl Guard {
    fn new(flag: Arc<AtomicBool>) -> Self {
        flag.store(true, SeqCst);
        Self(flag)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}
