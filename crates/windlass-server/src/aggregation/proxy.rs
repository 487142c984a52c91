//! Requests that are forwarded to other API servers.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, InvalidHeaderValue},
};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time;
use windlass_api::{BoxError, ErrorChain};

use super::{
    connection::OutgoingBody,
    endpoint::{self, Service},
    remote::RemoteService,
};
use crate::{authn::FrontProxy, identity::User, registry::Registry, request::Query};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// The headers that concern one connection only.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The characters of a path that Go does not escape.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The characters of an extra's key that a header name can have.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'^')
    .remove(b'`')
    .remove(b'|');

/// The time for a discovery document. It should be fast for every server, and clients wait for it.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);

/// The user of this server's own requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregator {
    groups: &'static [&'static str],
}

pub(super) const AGGREGATOR: Aggregator = Aggregator { groups: &["system:masters"] };
pub(super) const UNPRIVILEGED_AGGREGATOR: Aggregator = Aggregator { groups: &[] };

/// A request to forward.
#[derive(Debug)]
pub(crate) struct Forwarded<'r> {
    pub(crate) method: &'r Method,
    /// The path, percent-decoded.
    pub(crate) path: &'r str,
    pub(crate) query: &'r Query,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) user: &'r User,
    /// The headers by which front proxies of this server name users.
    pub(crate) front_proxy: Option<&'r FrontProxy>,
    /// The address of the client, if it has one.
    pub(crate) client: Option<IpAddr>,
    pub(crate) audit_id: &'r HeaderValue,
}

/// The response instead of that of the other server: a code and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) text: String,
}

impl Refusal {
    fn unavailable(text: impl Into<String>) -> Self {
        Self { code: StatusCode::SERVICE_UNAVAILABLE, text: text.into() }
    }
}

/// Forwards a request, and returns the head of the response with its body.
pub(crate) async fn forward(
    registry: &Registry,
    remote: &RemoteService,
    request: &Forwarded<'_>,
    body: OutgoingBody,
) -> Result<Response<Incoming>, Refusal> {
    if !remote.is_available() {
        return Err(Refusal::unavailable("service unavailable"));
    }
    if request.headers.contains_key(header::UPGRADE) {
        let text = "requests for a change of the protocol are not forwarded to other API servers".to_owned();
        return Err(Refusal { code: StatusCode::NOT_IMPLEMENTED, text });
    }
    let connection = remote.connection.as_ref();
    let connection =
        connection.map_err(|error| Refusal { code: StatusCode::INTERNAL_SERVER_ERROR, text: error.clone() })?;
    let address = match endpoint::resolve(registry, &remote.service).await {
        Ok(Service::Found { route: Ok(route), .. }) => route.pick(registry.entropy()).to_owned(),
        _ => return Err(Refusal::unavailable("service unavailable")),
    };
    let failed = |error: BoxError| Refusal::unavailable(format!("error trying to reach service: {}", reason(&*error)));
    let outgoing = request.outgoing(&address, body).map_err(failed)?;
    let sent = connection.send(outgoing);
    let response = if request.is_discovery() {
        time::timeout(DISCOVERY_LIMIT, sent).await.unwrap_or_else(|_| Err("context deadline exceeded".into()))
    } else {
        sent.await
    };
    let response = response.map_err(failed)?;
    if response.status().is_informational() {
        return Err(Refusal { code: StatusCode::BAD_GATEWAY, text: "unexpected change of the protocol".to_owned() });
    }
    if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) {
        let text = "the backend attempted to redirect this request, which is not permitted".to_owned();
        return Err(Refusal { code: StatusCode::BAD_GATEWAY, text });
    }
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    Ok(Response::from_parts(head, body))
}

impl Forwarded<'_> {
    /// Reports whether the request is for the discovery document of a group version.
    fn is_discovery(&self) -> bool {
        self.path.trim_matches('/').split('/').count() == 3
    }

    fn outgoing(&self, address: &str, body: OutgoingBody) -> Result<Request<OutgoingBody>, BoxError> {
        let mut headers = self.headers.clone();
        remove_hop_by_hop(&mut headers);
        let of_proxy = |name: &HeaderName| self.front_proxy.is_some_and(|proxy| proxy.names_users_in(name.as_str()));
        let removed: Vec<HeaderName> =
            headers.keys().filter(|name| is_identity(name) || of_proxy(name)).cloned().collect();
        for name in removed {
            headers.remove(name);
        }
        headers.remove(header::HOST);
        headers.remove(header::EXPECT);
        headers.insert("audit-id", self.audit_id.clone());
        headers.insert("x-forwarded-uri", utf8_percent_encode(self.path, PATH).to_string().parse()?);
        headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        headers.insert("x-forwarded-host", address.parse()?);
        if let Some(client) = self.client {
            let before = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
            let mut all: Vec<String> = before.map(str::to_owned).collect();
            all.push(client.to_string());
            headers.insert("x-forwarded-for", all.join(", ").parse()?);
        }
        let groups = self.user.groups.iter().map(String::as_str);
        identify(&mut headers, &self.user.name, &self.user.uid, groups)?;
        for (key, values) in &self.user.extra {
            let name = format!("{EXTRA}{}", utf8_percent_encode(key, KEY));
            let name = HeaderName::from_bytes(name.as_bytes())?;
            for value in values {
                headers.append(&name, HeaderValue::from_bytes(value.as_bytes())?);
            }
        }
        let mut request =
            Request::builder().method(self.method).uri(uri(address, self.path, &self.query.encoded())?).body(body)?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Returns a request of this server itself.
pub(super) fn request_as(user: Aggregator, address: &str, path: &str) -> Result<Request<OutgoingBody>, BoxError> {
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::get(uri(address, path, "")?).body(body)?;
    identify(request.headers_mut(), "system:kube-aggregator", "", user.groups.iter().copied())?;
    Ok(request)
}

fn uri(address: &str, path: &str, query: &str) -> Result<Uri, http::uri::InvalidUri> {
    let mark = if query.is_empty() { "" } else { "?" };
    format!("https://{address}{}{mark}{query}", utf8_percent_encode(path, PATH)).parse()
}

/// Adds the headers that name the user.
fn identify<'u>(
    headers: &mut HeaderMap,
    name: &str,
    uid: &str,
    groups: impl Iterator<Item = &'u str>,
) -> Result<(), InvalidHeaderValue> {
    headers.insert(USER, HeaderValue::from_bytes(name.as_bytes())?);
    if !uid.is_empty() {
        headers.insert(UID, HeaderValue::from_bytes(uid.as_bytes())?);
    }
    for group in groups {
        headers.append(GROUP, HeaderValue::from_bytes(group.as_bytes())?);
    }
    Ok(())
}

/// Reports whether a header contains credentials, or the name or the properties of a user.
fn is_identity(name: &HeaderName) -> bool {
    // The protocols of a WebSocket can contain a token.
    [&USER, &UID, &GROUP, &header::AUTHORIZATION, &header::SEC_WEBSOCKET_PROTOCOL].contains(&name)
        || name.as_str().starts_with(EXTRA)
        || name.as_str().starts_with("impersonate-")
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in HOP_BY_HOP.iter().copied().chain(named.iter().map(String::as_str)) {
        headers.remove(name);
    }
}

/// Returns the reason of a failed request, without the layers of the HTTP client.
pub(super) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while cause.is::<hyper_util::client::legacy::Error>()
        && let Some(source) = cause.source()
    {
        cause = source;
    }
    ErrorChain(cause).to_string()
}
