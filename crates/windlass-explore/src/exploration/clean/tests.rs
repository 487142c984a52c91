use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{exploration::simulated::Builder, mutations::Mutations};

const START: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(30);

/// A runner whose program starts in two seconds and runs for thirty more.
#[derive(Default)]
struct Slow {
    /// The longest pause between two changes of each run.
    pause: Duration,
    /// The quiet time and the watched resources of each run, in the order of their start.
    runs: Mutex<Vec<(Duration, Option<BTreeSet<String>>)>>,
}

impl Runner for Slow {
    fn run<'r>(
        &'r self,
        _: &'r Plan,
        settings: &'r RunSettings,
        _: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        Box::pin(async move {
            self.runs.lock().push((settings.quiet, settings.watched.clone()));
            let mut run = Builder::new();
            run.other("create pods/default/a", Some(json!({}))).other("create pods/default/b", Some(json!({})));
            run.record.changes[1].at = run.record.changes[0].at + self.pause;
            run.record.watched = ["pods".to_owned()].into();
            sleep(START).await;
            if let Some(started) = &settings.started {
                started.send_replace(Some(run.record.watched.clone()));
            }
            sleep(REST).await;
            Ok(run.record)
        })
    }

    fn mutations<'r>(&'r self, _: &'r Record) -> BoxFuture<'r, Result<Mutations>> {
        unreachable!("the runs without faults are not mutated")
    }
}

async fn clean(runner: &Slow, jobs: usize) -> (Clean, Duration) {
    let begin = Instant::now();
    let (_sender, stop) = watch::channel(false);
    let clean = run(runner, &Settings { jobs, ..Settings::default() }, &stop).await.unwrap();
    assert_eq!(clean.records.len(), 3);
    (clean, begin.elapsed())
}

#[test]
fn failure_names_the_exits_of_the_program() {
    let mut record = Builder::new().record;
    record.outcome = Outcome::NotSettled { step: 0 };
    let expected = "the cluster still changed at the time limit of step 0 (step 0); the program printed nothing";
    assert_eq!(failure(&record).as_deref(), Some(expected));
    record.processes[0].ended = Some((START, ProcessEnd::Exited("exit status: 3".to_owned())));
    let expected = "the program ended by itself in step 0 (step 0): exit status: 3; the program printed nothing";
    assert_eq!(failure(&record).as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn others_begin_when_the_first_program_has_started() {
    let pods = Some(BTreeSet::from(["pods".to_owned()]));
    for (jobs, took) in [(8, START * 2 + REST), (2, (START + REST) * 2), (1, (START + REST) * 3)] {
        let runner = Slow::default();
        assert_eq!(clean(&runner, jobs).await.1, took, "with {jobs} jobs");
        let watched: Vec<_> = runner.runs.lock().iter().map(|(_, watched)| watched.clone()).collect();
        assert_eq!(watched, [None, pods.clone(), pods.clone()], "with {jobs} jobs");
    }
}

#[tokio::test(start_paused = true)]
async fn others_begin_again_if_the_first_has_a_long_pause() {
    let seconds = Duration::from_secs;
    let runner = Slow { pause: seconds(4), ..Slow::default() };
    let (clean, took) = clean(&runner, 8).await;
    let quiet: Vec<_> = runner.runs.lock().iter().map(|(quiet, _)| *quiet).collect();
    assert_eq!(quiet, [quiet::FIRST, quiet::FIRST, quiet::FIRST, seconds(8), seconds(8)]);
    assert_eq!(took, (START + REST) * 2);
    assert_eq!(clean.settings.quiet, seconds(8));
}
