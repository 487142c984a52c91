//! What reading costs while nothing changes: objects by key, and look-ups by index.

use std::{hint::black_box, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;
use windlass_api::{BoxError, Object};
use windlass_cache::{Cached, Lister};

use super::BY_NODE;

/// How many objects are decoded, and how many values of the index looked up.
const SAMPLE: usize = 2_000;

/// How many objects are hot, and how often each is asked for.
const HOT: usize = 16;
const ROUNDS: u32 = 1_000;

/// How often each value is looked up after the first time.
const LATER: usize = 15;

/// Medians.
pub(super) fn measure<K: Object>(store: &Lister<K>) -> Result<Map<String, Value>, BoxError> {
    let all = store.list();
    let sample: Vec<_> = all.iter().step_by((all.len() / SAMPLE).max(1)).cloned().collect();
    drop(all);
    let (cold, decode) = cold_gets(&sample)?;
    let mut figures = Map::new();
    let mut note = |name: &str, figure: f64| figures.insert(name.to_owned(), figure.into());
    note("cold_get_us", cold * 1e6);
    note("decode_us", decode * 1e6);
    note("hot_get_ns", hot_get(store, &sample[sample.len().saturating_sub(HOT)..])? * 1e9);
    // Later, what is looked up is nearer to the processor.
    let passes = [("cold_lookup_ns", "cold_lookup_ns_per_key", 1), ("lookup_ns", "lookup_ns_per_key", LATER)];
    for (base_name, per_key_name, passes) in passes {
        if let Some(line) = line_through(lookups(store, passes)?) {
            note(base_name, line.base * 1e9);
            note(per_key_name, line.per_key * 1e9);
        }
    }
    figures.insert("bench".to_owned(), "reads".into());
    Ok(figures)
}

/// Seconds for an object that nobody has asked for before, and for decoding its bytes alone. Every other object is decoded
/// first, so that neither finds the bytes in the processor's cache more often.
fn cold_gets<K: Object>(sample: &[Cached<K>]) -> Result<(f64, f64), BoxError> {
    let (mut gets, mut decodes) = (Vec::new(), Vec::new());
    for (at, object) in sample.iter().enumerate() {
        let bytes = object.bytes();
        let mut decode = || timed(&mut decodes, || serde_json::from_slice::<K>(&bytes).map(black_box));
        if at % 2 == 0 {
            decode()?;
        }
        timed(&mut gets, || object.get().map(black_box))?;
        if at % 2 == 1 {
            decode()?;
        }
    }
    Ok((median(&mut gets), median(&mut decodes)))
}

/// Seconds from a key to a decoded object that is there.
fn hot_get<K: Object>(store: &Lister<K>, hot: &[Cached<K>]) -> Result<f64, BoxError> {
    let keys: Vec<_> = hot.iter().map(Cached::object_ref).collect();
    for object in hot {
        object.get()?;
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        timed(&mut rounds, || {
            keys.iter().try_for_each(|key| {
                black_box(store.get(key).map(|object| object.get()).transpose()?);
                Ok::<_, BoxError>(())
            })
        })?;
    }
    #[expect(clippy::cast_precision_loss, reason = "sixteen")]
    let keys = keys.len().max(1) as f64;
    Ok(median(&mut rounds) / keys)
}

/// For some of the nodes, how many objects were found, and in how many seconds: the median of the passes.
fn lookups<K: Object>(store: &Lister<K>, passes: usize) -> Result<Vec<(usize, f64)>, BoxError> {
    let nodes = store.index_values(BY_NODE)?;
    let mut found = Vec::new();
    for node in nodes.iter().step_by((nodes.len() / SAMPLE).max(1)) {
        let (mut objects, mut times) = (0, Vec::new());
        for _ in 0..passes {
            timed(&mut times, || store.by_index(BY_NODE, node).map(|found| objects = black_box(found).len()))?;
        }
        found.push((objects, median(&mut times)));
    }
    Ok(found)
}

/// What a look-up costs, and what each of the objects found adds to it.
#[derive(Debug, PartialEq)]
struct Line {
    base: f64,
    per_key: f64,
}

/// The line through the medians of the quarter with the fewest objects and of that with the most.
fn line_through(mut lookups: Vec<(usize, f64)>) -> Option<Line> {
    lookups.sort_unstable_by_key(|(keys, _)| *keys);
    let quarter = lookups.len() / 4;
    if quarter == 0 {
        return None;
    }
    let point = |lookups: &[(usize, f64)]| {
        #[expect(clippy::cast_precision_loss, reason = "hundreds")]
        let mut keys: Vec<f64> = lookups.iter().map(|(keys, _)| *keys as f64).collect();
        let mut times: Vec<f64> = lookups.iter().map(|(_, time)| *time).collect();
        (median(&mut keys), median(&mut times))
    };
    let ((few, short), (many, long)) = (point(&lookups[..quarter]), point(&lookups[lookups.len() - quarter..]));
    let per_key = (long - short) / (many - few).max(1.0);
    Some(Line { base: short - few * per_key, per_key })
}

fn timed<T, E>(times: &mut Vec<f64>, run: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
    let started = Instant::now();
    let outcome = run();
    times.push(Duration::as_secs_f64(&started.elapsed()));
    outcome.map(drop)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_look_up_from_its_objects_and_passes_over_one_that_was_held_up() {
        let mut lookups: Vec<_> = (1..=40_u32).map(|keys| (keys as usize, 8.0 + 2.0 * f64::from(keys))).collect();
        lookups[7].1 = 1_000.0;
        lookups.reverse();
        assert_eq!(line_through(lookups), Some(Line { base: 8.0, per_key: 2.0 }));
        assert_eq!(line_through(vec![(1, 1.0)]), None);
    }
}
