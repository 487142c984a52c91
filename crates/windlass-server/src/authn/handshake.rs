//! Bearer tokens in WebSocket handshakes. Browsers cannot send headers with a handshake, so the token is a subprotocol.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    HeaderMap, HeaderValue,
    header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
};
use windlass_api::Status;

const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns the token in a handshake; `None` if it has none, or the request is no handshake.
///
/// # Errors
/// Returns an error if there are several tokens, a token cannot be decoded, or no other subprotocol is offered.
pub(super) fn token(headers: &HeaderMap) -> Result<Option<Vec<u8>>, Status> {
    if !is_handshake(headers) {
        return Ok(None);
    }
    let (mut token, mut others) = (None, false);
    for offered in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in offered.to_str().unwrap_or_default().split(',').map(str::trim) {
            let Some(encoded) = protocol.strip_prefix(TOKEN) else {
                others = true;
                continue;
            };
            if token.is_some() {
                return Err(Status::unauthorized());
            }
            let decoded = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| Status::unauthorized())?;
            if std::str::from_utf8(&decoded).is_err() {
                return Err(Status::unauthorized());
            }
            token = Some(decoded);
        }
    }
    match token.filter(|token| !token.is_empty()) {
        Some(_) if !others => Err(Status::unauthorized()),
        token => Ok(token),
    }
}

/// Reports whether a request asks for a WebSocket.
pub(crate) fn is_handshake(headers: &HeaderMap) -> bool {
    let is_websocket = headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let is_upgrade =
        |value: &HeaderValue| value.as_bytes().to_ascii_lowercase().windows(7).any(|word| word == b"upgrade");
    is_websocket && headers.get_all(CONNECTION).iter().any(is_upgrade)
}

/// Returns the subprotocols of a handshake without its token.
pub(crate) fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols = offered.flat_map(|value| value.split(',')).map(str::trim);
    protocols.filter(|protocol| !protocol.is_empty() && !protocol.starts_with(TOKEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(protocols: &[&str]) -> Result<Option<Vec<u8>>, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, "websocket".parse().unwrap());
        headers.insert(CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        token(&headers).map_err(|status| status.code)
    }

    #[test]
    fn handshake_has_one_readable_token_and_a_protocol() {
        let sent = |text: &str| format!("{TOKEN}{}", URL_SAFE_NO_PAD.encode(text));
        assert_eq!(offered(&[&sent("abc"), "v5.channel.k8s.io"]), Ok(Some(b"abc".to_vec())));
        assert_eq!(offered(&[&format!("v5.channel.k8s.io, {}", sent("abc"))]), Ok(Some(b"abc".to_vec())));
        assert_eq!(offered(&["v5.channel.k8s.io"]), Ok(None));
        assert_eq!(offered(&[&sent("abc")]), Err(401));
        assert_eq!(offered(&[&sent("a"), &sent("b"), "v5.channel.k8s.io"]), Err(401));
        assert_eq!(offered(&[&format!("{TOKEN}?"), "v5.channel.k8s.io"]), Err(401));
    }

    #[test]
    fn handshake_is_recognized_as_in_kube_apiserver() {
        let is_handshake = |upgrade: &'static str, connections: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
            for connection in connections {
                headers.append(CONNECTION, HeaderValue::from_static(connection));
            }
            super::is_handshake(&headers)
        };
        assert!(is_handshake("WebSocket", &["keep-alive, UPGRADE"]));
        assert!(is_handshake("websocket", &["keep-alive", "Upgrade"]));
        assert!(!is_handshake("websocket", &["keep-alive"]) && !is_handshake("websocket", &[]));
        assert!(!is_handshake("SPDY/3.1", &["Upgrade"]));
    }

    #[test]
    fn subprotocol_outside_of_a_handshake_is_no_token() {
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, format!("{TOKEN}?, v1").parse().unwrap());
        assert_eq!(token(&headers).unwrap(), None);
    }
}
