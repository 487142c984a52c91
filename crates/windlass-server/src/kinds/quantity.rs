//! Comparing quantities.

/// The amount that a canonical quantity (`500m`, `1Gi`, `1e9`) stands for; none if it is none.
///
/// Floating point: exact for everything that pods ask for, and what is compared is never that close.
pub(crate) fn amount(text: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 15] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    for (suffix, factor) in SUFFIXES {
        if let Some(number) = text.strip_suffix(suffix) {
            return number.parse::<f64>().ok().map(|number| number * factor);
        }
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_count() {
        assert_eq!(amount("1Gi"), Some(1_073_741_824.0));
        assert_eq!(amount("500m"), Some(0.5));
        assert_eq!(amount("1e9"), Some(1e9));
        assert_eq!(amount("2E"), Some(2e18));
        assert_eq!(amount("x"), None);
    }
}
