//! The columns of the informer tables.

use crate::table::{Column, figure, ratio};

pub(super) const PER_OBJECT: Column = figure("informer.rss_bytes_per_object", "KB per object", 1e-3, 2);
pub(super) const CPU: Column = figure("updates.cpu_us_per_event", "CPU per update, µs", 1.0, 1);
const SYNC: Column = figure("informer.sync_seconds", "sync, s", 1.0, 2);
const STEADY: Column = figure("informer.rss_bytes", "RSS, MB", 1e-6, 0);
const PEAK: Column = ratio("informer.peak_rss_bytes", "informer.rss_bytes", "peak ÷ RSS");
const RATE: Column = figure("updates.events_per_second", "updates/s", 1.0, 0);
const AFTER: Column = ratio("updates.rss_bytes", "informer.rss_bytes", "after the updates ÷ RSS");
const UNTRIMMED: Column = ratio("updates.untrimmed_rss_bytes", "informer.rss_bytes", "the same, untrimmed");
const COLD_LOOKUP: Column = figure("reads.cold_lookup_ns", "first look-up by index, ns", 1.0, 0);
const COLD_PER_KEY: Column = figure("reads.cold_lookup_ns_per_key", "per object, ns", 1.0, 0);
const LOOKUP: Column = figure("reads.lookup_ns", "later look-ups, ns", 1.0, 0);
const PER_KEY: Column = figure("reads.lookup_ns_per_key", "per object, ns", 1.0, 0);

pub(super) const ALL: &[Column] = &[SYNC, PER_OBJECT, STEADY, PEAK, CPU, RATE, AFTER, UNTRIMMED];
pub(super) const UPDATES: &[Column] = &[CPU, RATE, AFTER, UNTRIMMED];
pub(super) const READS: &[Column] = &[
    figure("reads.hot_get_ns", "hot get, ns", 1.0, 0),
    figure("reads.cold_get_us", "cold get, µs", 1.0, 1),
    figure("reads.decode_us", "decoding only, µs", 1.0, 1),
    ratio("reads.cold_get_us", "reads.decode_us", "cold get ÷ decoding"),
    COLD_LOOKUP,
    COLD_PER_KEY,
    LOOKUP,
    PER_KEY,
    figure("reads.reader_p9999_us", "look-up by key during writes, p99.99, µs", 1.0, 1),
    figure("reads.reader_longest_us", "maximum, µs", 1.0, 1),
];
pub(super) const MILLION: &[Column] =
    &[SYNC, PER_OBJECT, STEADY, PEAK, CPU, RATE, AFTER, UNTRIMMED, COLD_LOOKUP, COLD_PER_KEY, LOOKUP, PER_KEY];
