//! Image names, as far as they determine the default pull policy.

use std::sync::LazyLock;

use regex::Regex;

/// The maximum length of a repository name, in bytes.
const MAX_NAME_LENGTH: usize = 255;
/// The supported digests, with their number of hex digits.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A registry with a path, a tag, and a digest, in the syntax of registries.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    const PART: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let name = format!("{host}/{PART}(?:/{PART})*");
    let tag = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    Regex::new(&format!("^({name})(?::({tag}))?(?:@([a-z0-9]+):([a-f0-9]+))?$")).expect("the expression is constant")
});

/// Returns the tag of an image: `latest` if it has neither tag nor digest; empty if it has only a digest or is invalid.
pub(super) fn tag(image: &str) -> &str {
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return "";
    }
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first;
    let full_name = match image.split_once('/') {
        Some((first, _)) if is_host(first) => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    };
    let Some(found) = REFERENCE.captures(&full_name) else { return "" };
    let length = |group: usize| found.get(group).map_or(0, |part| part.len());
    let digest = found.get(3).map(|algorithm| (algorithm.as_str(), length(4)));
    if length(1) > MAX_NAME_LENGTH || digest.is_some_and(|digest| !DIGESTS.contains(&digest)) {
        return "";
    }
    match found.get(2) {
        // The tag is at the same distance from the end in both names.
        Some(tag) => &image[image.len() - (full_name.len() - tag.start())..][..tag.len()],
        None if digest.is_some() => "",
        None => "latest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_defaults_to_latest_without_digest() {
        let digest = "a".repeat(64);
        for (image, expected) in [
            ("nginx", "latest"),
            ("nginx:latest", "latest"),
            ("nginx:1.25", "1.25"),
            ("registry:5000/nginx", "latest"),
            ("registry:5000/nginx:1", "1"),
            ("a/b:v@sha256:aa", ""),
            (&format!("nginx@sha256:{digest}"), ""),
            (&format!("nginx:v1@sha256:{digest}"), "v1"),
            (&digest, ""),
            ("", ""),
            ("Bad_", ""),
            ("a b", ""),
            (&"n".repeat(300), ""),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
