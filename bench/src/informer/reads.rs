//! The cost of reads while nothing changes: by key, and by index.

use std::{hint::black_box, time::Duration};

use serde_json::{Map, Value};
use tokio::time::Instant;
use windlass_api::{BoxError, Object};
use windlass_cache::{Cached, Lister};

use super::BY_NODE;

/// The number of decoded objects, and of index values that are read.
const SAMPLE: usize = 2_000;

/// The number of hot objects, and of reads of each.
const HOT: usize = 16;
const ROUNDS: u32 = 1_000;

/// The number of later reads of each index value.
const LATER: usize = 15;

/// Returns medians.
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
    // In later passes, the data is in the CPU caches.
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

/// Returns the seconds for the first get of an object, and for decoding its bytes only. The order alternates between
/// objects, so both find the bytes in the CPU cache equally often.
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

/// Returns the seconds for a get of an object that is already decoded.
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

/// For a sample of nodes, returns the number of objects and the seconds: the median of the passes.
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

/// The cost of a look-up, and the additional cost of each returned object.
#[derive(Debug, PartialEq)]
struct Line {
    base: f64,
    per_key: f64,
}

/// Returns the line through two medians: of the quarter with the fewest objects, and of the quarter with the most.
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
    fn figures_separate_lookup_and_objects_without_outliers() {
        let mut lookups: Vec<_> = (1..=40_u32).map(|keys| (keys as usize, 8.0 + 2.0 * f64::from(keys))).collect();
        lookups[7].1 = 1_000.0;
        lookups.reverse();
        assert_eq!(line_through(lookups), Some(Line { base: 8.0, per_key: 2.0 }));
        assert_eq!(line_through(vec![(1, 1.0)]), None);
    }
}
