//! The number of requests of each program. It is the same each time, because the clock is paused and nothing is random.

use std::time::Duration;

use evolution::{Measured, Measurement, Program, measure};

const MINUTES: u64 = 4;

fn size(of_each: usize) -> Measurement {
    Measurement { of_each, lasting: Duration::from_mins(MINUTES) }
}

/// The writes: the initial pods, two more, four fewer, and one replacement.
const fn writes(of_each: usize) -> usize {
    6 * of_each + 2 + 4 + 1
}

/// The additional failed creation of programs with informers: they see that the deleted pod is terminating before it is
/// gone.
const TOO_EARLY: usize = 1;

#[tokio::test(start_paused = true)]
async fn polling_asks_for_everything_every_five_seconds() {
    for of_each in [1, 10] {
        let measured = measure(Program::Polling, size(of_each)).await.unwrap();
        // In each round, both loops list their workloads and the pods of each. The first round is at the start.
        let rounds = usize::try_from(MINUTES).unwrap() * 60 / 5;
        let a_round = 2 * (1 + of_each);
        let expected = rounds * a_round;
        assert!((expected..=expected + a_round).contains(&measured.lists), "{measured:?}, {expected}");
        assert_eq!((measured.watches, measured.writes), (0, writes(of_each)));
    }
}

#[tokio::test(start_paused = true)]
async fn shared_informer_watches_pods_once_and_separate_ones_twice() {
    for of_each in [1, 10] {
        let measured = measure(Program::Informers, size(of_each)).await.unwrap();
        assert_eq!(measured, Measured { lists: 0, watches: 4, writes: writes(of_each) + TOO_EARLY });
        let measured = measure(Program::Shared, size(of_each)).await.unwrap();
        assert_eq!(measured, Measured { lists: 0, watches: 3, writes: writes(of_each) + TOO_EARLY });
    }
}
