//! Random names and configuration values.

use windlass_api::Entropy;

const WORDS: [&str; 40] = [
    "anchor", "billing", "cargo", "delta", "engine", "feature", "gateway", "harbour", "index", "journal", "kernel",
    "ledger", "market", "network", "orders", "payment", "queue", "report", "search", "tenant", "upload", "vector",
    "worker", "archive", "bridge", "cache", "docs", "event", "fleet", "graph", "host", "image", "jobs", "key", "login",
    "mail", "notice", "object", "policy", "route",
];

pub(super) fn pick(entropy: &Entropy, below: usize) -> usize {
    usize::try_from(entropy.below(below as u64)).expect("less than a usize")
}

pub(super) fn words(entropy: &Entropy, count: usize) -> String {
    (0..count).map(|_| WORDS[pick(entropy, WORDS.len())]).collect::<Vec<_>>().join("-")
}

/// Returns a configuration value: words, numbers, addresses or keys.
pub(super) fn value(entropy: &Entropy) -> String {
    match entropy.below(5) {
        0 => entropy.below(100_000).to_string(),
        1 => format!(
            "https://{}.{}.svc:8{}/v1/{}",
            words(entropy, 1),
            words(entropy, 1),
            entropy.below(1000),
            words(entropy, 2)
        ),
        2 => noise(entropy, 24),
        _ => words(entropy, 3),
    }
}

/// Returns incompressible text.
pub(super) fn noise(entropy: &Entropy, length: usize) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    (0..length).map(|_| char::from(alphabet[pick(entropy, alphabet.len())])).collect()
}

/// Returns a size from a log-normal distribution with this median, clamped to `least` and `most`.
pub(super) fn size(entropy: &Entropy, (median, least, most): (f64, f64, f64)) -> usize {
    /// The spread of the sizes: two thirds of them are within a factor of five of the median.
    const SIGMA: f64 = 1.6;
    #[expect(clippy::cast_precision_loss, reason = "twenty bits")]
    let uniform = || (entropy.below(1 << 20) as f64 + 0.5) / f64::from(1 << 20);
    let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    let size = (median * (SIGMA * normal).exp()).clamp(least, most);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the bounds")]
    let size = size as usize;
    size
}
