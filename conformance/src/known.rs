//! Known differences in random requests and generated objects, from `DIFFERENCES.md`.

use std::{fs, sync::LazyLock};

use crate::suite::root;

/// A line of the list: the prefix of the kind, empty for all, and the parts of the difference in order.
struct Known {
    kind: String,
    parts: Vec<String>,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let path = root().join("DIFFERENCES.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter_map(|line| line.strip_prefix("* ")).map(Known::read).collect()
});

/// Reports whether a line of the list covers this difference of the kind.
pub(crate) fn is_passed_over(kind: &str, difference: &str) -> bool {
    KNOWN.iter().any(|known| kind.starts_with(&known.kind) && known.is_in(difference))
}

/// Reports whether a line with the full name of this kind covers the difference.
pub(crate) fn is_listed_for(kind: &str, difference: &str) -> bool {
    KNOWN.iter().any(|known| known.kind == kind && known.is_in(difference))
}

impl Known {
    /// Parses a line without its bullet: kind and text in backticks, and a reason.
    fn read(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(5, '`').collect();
        match parts[..] {
            ["", kind, " ", text, reason] if reason.starts_with(": ") && !text.is_empty() => Self {
                kind: kind.trim_matches('*').to_owned(),
                parts: text.split(" … ").map(str::to_owned).collect(),
            },
            _ => panic!("DIFFERENCES.md: no kind, text and reason in: {line}"),
        }
    }

    fn is_in(&self, difference: &str) -> bool {
        self.parts.iter().all(|part| difference.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_differences_have_a_reason() {
        assert!(KNOWN.len() > 10);
        for Known { parts, .. } in &*KNOWN {
            let told: usize = parts.iter().map(String::len).sum();
            assert!(told > 4, "too little is said to tell anything apart: {parts:?}");
        }
    }

    #[test]
    fn a_line_is_about_a_kind_or_about_all() {
        let (one, all) = (Known::read("`pods` `a: \\\"b … c`: why"), Known::read("`*` `text`: why"));
        assert_eq!((one.kind.as_str(), all.kind.as_str()), ("pods", ""));
        assert!(one.is_in("a: \\\"b and c") && !one.is_in("a: \\\"b"));
    }
}
