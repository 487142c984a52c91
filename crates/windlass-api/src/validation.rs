//! Validation of names, labels and similar values. Each function returns the messages of the real server, or an empty
//! list if the text is valid.
//!
//! ```
//! use windlass_api::validation::{dns_label, qualified_name};
//!
//! assert!(qualified_name("example.com/app").is_empty());
//! assert_eq!(dns_label("a.b"), ["must not contain dots"]);
//! ```

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Validates a DNS subdomain (RFC 1123), as in host names.
#[must_use]
pub fn dns_subdomain(text: &str) -> Vec<String> {
    const TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                        and must start and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253, "characters"));
    }
    if !text.split('.').all(is_label) {
        errors.push(regex(TEXT, &format!(r"{LABEL}(\.{LABEL})*"), &["example.com"]));
    }
    errors
}

/// Validates a DNS subdomain that may contain underscores, as in search domains. An underscore may replace a letter,
/// except at the end.
#[must_use]
pub fn dns_subdomain_with_underscores(text: &str) -> Vec<String> {
    const TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                        and must start and end with an alphanumeric character";
    const WORD: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253, "characters"));
    }
    let is_word = |word: &str| {
        let word = word.strip_prefix('_').unwrap_or(word);
        !word.starts_with('_') && !word.ends_with('_') && is_label(&word.replace('_', "-"))
    };
    if !text.split('.').all(is_word) {
        errors.push(regex(TEXT, &format!(r"{WORD}(\.{WORD})*"), &["example.com"]));
    }
    errors
}

/// Validates a DNS subdomain whose first label is a star.
#[must_use]
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    const TEXT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                        consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253, "characters"));
    }
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        errors.push(regex(TEXT, &format!(r"\*\.{LABEL}(\.{LABEL})*"), &["*.example.com"]));
    }
    errors
}

/// Validates a path segment.
#[must_use]
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|part| text.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Validates the reason of a condition.
#[must_use]
pub fn condition_reason(text: &str) -> Vec<String> {
    const TEXT: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
                        alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let bytes = text.as_bytes();
    let last = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let inner = |byte: &u8| last(byte) || b",:".contains(byte);
    let fits =
        bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.iter().all(inner) && bytes.last().is_some_and(last);
    if fits {
        return Vec::new();
    }
    let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![regex(TEXT, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)]
}

/// Validates the path after the domain in the controller name of an IngressClass.
#[must_use]
pub fn http_path(text: &str) -> Vec<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if text.bytes().all(allowed) {
        return Vec::new();
    }
    vec![regex("Invalid path", "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+", &[])]
}

/// Validates a DNS label (RFC 1123), one part of a host name.
#[must_use]
pub fn dns_label(text: &str) -> Vec<String> {
    const TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                        and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "characters"));
    }
    if !is_label(text) {
        // A text that would be valid as a subdomain gets another message.
        errors.push(if !text.is_empty() && text.split('.').all(is_label) {
            "must not contain dots".to_owned()
        } else {
            regex(TEXT, LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Validates a DNS label that starts with a letter (RFC 1035).
#[must_use]
pub fn dns_label_1035(text: &str) -> Vec<String> {
    const TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                        character, and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "characters"));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(regex(TEXT, LABEL_1035, &["my-name", "abc-123"]));
    }
    errors
}

/// Validates a qualified name: a label key, a finalizer, or the name of a resource.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            let rule = regex(QUALIFIED_TEXT, QUALIFIED, &examples);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let bytes = |text: String| text.replace("253 characters", "253 bytes");
                errors.extend(dns_subdomain(prefix).into_iter().map(|text| format!("prefix part {}", bytes(text))));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !is_qualified(name) {
        errors.push(format!("name part {}", regex(QUALIFIED_TEXT, QUALIFIED, &examples)));
    }
    errors
}

/// Validates a label value.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    const TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                        must start and end with an alphanumeric character";
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63, "bytes"));
    }
    if !text.is_empty() && !is_qualified(text) {
        errors.push(regex(TEXT, &format!("({QUALIFIED})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Validates a key of a ConfigMap or Secret.
#[must_use]
pub fn config_key(text: &str) -> Vec<String> {
    const TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253, "characters"));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        errors.push(regex(TEXT, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Validates a port name: letters, digits and single dashes, at most 15 characters, at least one letter.
#[must_use]
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(too_long(15, "characters"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

fn is_label(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            word(*first) && word(*last) && bytes.iter().all(|byte| word(*byte) || *byte == b'-')
        }
        _ => false,
    }
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        }
        _ => false,
    }
}

fn too_long(most: usize, unit: &str) -> String {
    format!("must be no more than {most} {unit}")
}

fn regex(text: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let lead = if examples.is_empty() { "" } else { "e.g. " };
    format!("{text} ({lead}{}regex used for validation is '{regex}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_real_server_does() {
        assert!(dns_subdomain("a-1.example.com").is_empty());
        assert_eq!(
            dns_subdomain("Bad_Name"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
              and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert!(dns_label("1a").is_empty());
        assert!(!dns_label_1035("1a").is_empty());
    }

    #[test]
    fn labels_keys_and_values_have_a_length_and_characters() {
        assert!(qualified_name(&format!("{}/{}", "a".repeat(63), "B".repeat(63))).is_empty());
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(label_value("a.B_1").is_empty() && label_value(&"a".repeat(63)).is_empty());
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        for bad in ["a b", "-a", "a-", "a/b", "ä"] {
            assert!(!label_value(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn paths_have_no_segment_that_leads_elsewhere() {
        for good in ["a", "a.b", "...", "Ä b", ""] {
            assert!(path_segment(good).is_empty(), "{good}");
        }
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(path_segment("a/b%2f"), ["may not contain '/'", "may not contain '%'"]);
        assert!(http_path("/a/-._~%20!$&'()*+,;=:b").is_empty());
        for bad in ["/a b", "/a?b", "/a#b", "/ä", "/a\"b"] {
            assert!(http_path(bad)[0].starts_with("Invalid path (regex"), "{bad}: {:?}", http_path(bad));
        }
    }

    #[test]
    fn qualified_names_have_at_most_one_prefix() {
        assert!(qualified_name("example.com/My.Name").is_empty());
        assert!(qualified_name("app").is_empty());
        for bad in ["", "/a", "a/", "a/b/c", "Ä", "-a"] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty());
        assert!(!label_value("a b").is_empty());
        assert!(!config_key("..a").is_empty());
        assert!(port_name("http").is_empty());
        assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
    }
}
