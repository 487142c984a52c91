//! The token that continues a paginated list.

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD},
};
use serde::{Deserialize, Serialize};
use windlass_api::Status;

use crate::codec::check_json;

/// The position at which a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContinueToken {
    /// The revision at which all pages are read; `None` reads each page at the current revision.
    pub(super) revision: Option<u64>,
    /// The full key at which the next page starts.
    pub(super) start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

/// Go's decoder: it ignores trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const VERSION: &str = "meta.k8s.io/v1";
/// The revision in a token that continues an expired list at the current revision.
const PRESENT: i64 = -1;

impl ContinueToken {
    /// Encodes the token for clients. `prefix` is the prefix of the list's keys.
    pub(super) fn encode(&self, prefix: &str) -> String {
        let rv = self.revision.map_or(PRESENT, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        // The token's key begins with the slash at the end of the prefix.
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let start = self.start.strip_prefix(prefix).unwrap_or(&self.start).to_owned();
        let wire = Wire { v: VERSION.to_owned(), rv, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).expect("strings and a number always encode"))
    }

    /// Decodes a token that a client sent.
    pub(super) fn decode(text: &str, prefix: &str) -> Result<Self, Status> {
        let bad = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = LENIENT.decode(text).map_err(|error| bad(&illegal_base64(&error)))?;
        check_json(&bytes).map_err(|error| bad(&error))?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        if wire.v != VERSION {
            return Err(bad(&format!("server does not recognize this encoded version {}", wire.v)));
        }
        if wire.rv == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if wire.start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if start.is_empty() || start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(&wire.start));
        }
        Ok(Self { revision: u64::try_from(wire.rv).ok(), start: format!("{prefix}{start}") })
    }
}

/// Returns Go's error message for invalid base64.
fn illegal_base64(error: &DecodeError) -> String {
    let offset = match *error {
        DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _) => offset,
        DecodeError::InvalidLength(length) => length,
        DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {offset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_round_trips() {
        let token = ContinueToken { revision: Some(829), start: "/registry/pods/ns/a\0".to_owned() };
        let text = token.encode("/registry/pods/");
        let wire = URL_SAFE_NO_PAD.decode(&text).unwrap();
        assert_eq!(wire, br#"{"v":"meta.k8s.io/v1","rv":829,"start":"/ns/a\u0000"}"#);
        assert_eq!(ContinueToken::decode(&text, "/registry/pods/").unwrap(), token);
        let present = ContinueToken { revision: None, ..token };
        assert_eq!(ContinueToken::decode(&present.encode("/registry/pods/"), "/registry/pods/").unwrap(), present);
    }

    #[test]
    fn continue_token_cannot_leave_its_list() {
        for start in ["../secrets/a", "/../a", "a/../../b", "", "/"] {
            let wire = Wire { v: VERSION.to_owned(), rv: 3, start: start.to_owned() };
            let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap());
            assert_eq!(ContinueToken::decode(&text, "/registry/pods/").unwrap_err().code, 400, "{start}");
        }
        assert_eq!(ContinueToken::decode("%%%", "/p/").unwrap_err().code, 400);
    }
}
