//! Query parameters, parsed as leniently as in Go.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use windlass_api::Status;

/// The characters of a query that Go escapes.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The parameters of a request, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text after the `?`. Skips malformed pairs.
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            if pair.is_empty() || pair.contains(';') {
                return None;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        };
        Self(text.split('&').filter_map(pair).collect())
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the query as Go's `url.Values.Encode` writes it: sorted by name, the values of a name in their order.
    pub(crate) fn encoded(&self) -> String {
        let mut pairs: Vec<&(String, String)> = self.0.iter().collect();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let escape = |text: &str| utf8_percent_encode(text, QUERY).to_string().replace("%20", "+");
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        pairs.join("&")
    }

    /// Returns the first value; `None` if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns a boolean; `None` if the parameter is missing. All values except `false` and `0` are true, even an empty
    /// one.
    pub(crate) fn optional_boolean(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Like [`Self::optional_boolean`], but `false` if the parameter is missing.
    pub(crate) fn boolean(&self, name: &str) -> bool {
        self.optional_boolean(name).unwrap_or(false)
    }

    /// Returns an integer, or an error 400 in Go's words.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        self.get(name).map(parse_int).transpose().map_err(Status::bad_request)
    }
}

/// Go's `strconv.ParseInt(text, 10, 64)`.
pub(crate) fn parse_int(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| {
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseInt: parsing {}: {why}", crate::codec::go_quote(text))
    })
}

/// Reports whether each percent sign is followed by two hexadecimal digits.
pub(crate) fn is_well_formed(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().all(|(at, byte)| {
        let hex = |offset: usize| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        *byte != b'%' || hex(1) && hex(2)
    })
}

/// Returns `None` if an escape is malformed.
fn unescape(text: &str) -> Option<String> {
    if !is_well_formed(text) {
        return None;
    }
    let spaced: Cow<'_, str> = if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
    Some(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use crate::request::query::*;

    #[test]
    fn query_is_encoded_like_go() {
        let query = Query::parse("b=2&a=x+y%2F&b=1&c&bad=%zz&d=%C3%A4");
        assert_eq!(query.encoded(), "a=x+y%2F&b=2&b=1&c=&d=%C3%A4");
        assert_eq!(Query::default().encoded(), "");
    }

    #[test]
    fn query_values_are_parsed_like_go() {
        let query = Query::parse("a=1&a=2&b=%41+x&%6cimit=5&bad=%zz&semi=1;2&empty=&flag&n=-1&big=9223372036854775808");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("A x"));
        assert_eq!(query.integer("limit").unwrap(), Some(5));
        assert_eq!((query.get("bad"), query.get("semi")), (None, None));
        assert_eq!((query.text("empty"), query.optional_boolean("empty")), (None, Some(true)));
        assert!(query.boolean("flag"));
        assert_eq!(query.integer("n").unwrap(), Some(-1));
        let wrong = |name| query.integer(name).unwrap_err().message;
        assert_eq!(wrong("b"), r#"strconv.ParseInt: parsing "A x": invalid syntax"#);
        assert_eq!(wrong("empty"), r#"strconv.ParseInt: parsing "": invalid syntax"#);
        assert_eq!(wrong("big"), r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#);
    }

    #[test]
    fn only_false_and_zero_are_false() {
        for (text, expected) in [("w=false", false), ("w=False", false), ("w=0", false), ("w=no", true), ("w=", true)] {
            assert_eq!(Query::parse(text).boolean("w"), expected, "{text}");
        }
        assert_eq!(Query::parse("").optional_boolean("w"), None);
    }
}
