//! Media types: content negotiation and the format of request bodies.

use http::{HeaderMap, header};
use windlass_api::{Status, StatusDetails, reason};

use crate::codec::{Format, Offer};
use crate::kubernetes::KubernetesVersion::{self, V1_34};
use crate::request::Query;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = windlass_cbor::MEDIA_TYPE;
const JSON_WATCH: &str = "application/json;stream=watch";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const CBOR_WATCH: &str = "application/cbor;stream=watch";

/// The media types offered for objects, in kube-apiserver's order.
const fn offered(offer: Offer) -> &'static [&'static str] {
    match offer {
        Offer::Stable => &[JSON, YAML, PROTOBUF],
        Offer::WithCbor => &[JSON, YAML, PROTOBUF, CBOR],
    }
}

const fn offered_lists(offer: Offer) -> &'static [&'static str] {
    match offer {
        Offer::Stable => &[JSON, YAML, PROTOBUF, JSON_WATCH, PROTOBUF_WATCH],
        Offer::WithCbor => &[JSON, YAML, PROTOBUF, CBOR, JSON_WATCH, PROTOBUF_WATCH, CBOR_WATCH],
    }
}

const fn offered_watches(offer: Offer) -> &'static [&'static str] {
    match offer {
        Offer::Stable => &[JSON_WATCH, PROTOBUF_WATCH],
        Offer::WithCbor => &[JSON_WATCH, PROTOBUF_WATCH, CBOR_WATCH],
    }
}

/// The encoding of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// Indented JSON.
    PrettyJson,
    Yaml,
    /// For Go types only.
    Protobuf,
    /// Only if the server offers it.
    Cbor,
}

/// The version of `meta.k8s.io` that the client requests for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

/// The requested view of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Table(MetaVersion),
    /// `PartialObjectMetadata`
    Partial(MetaVersion),
    /// `PartialObjectMetadataList`
    PartialList(MetaVersion),
}

/// The result of content negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) encoding: Encoding,
    pub(crate) view: View,
}

/// The type of an endpoint. Endpoints differ in the media types they offer and in their error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// One object of a built-in kind.
    Object,
    /// One object of a built-in kind that has no table.
    Unprinted,
    /// A collection of a built-in kind, listed or watched.
    Collection,
    /// Custom resources, and any path without its own route.
    Custom,
}

/// The encoding of a [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorEncoding {
    As(Encoding),
    /// The client accepts none of the offered types and gets indented JSON.
    Forced,
}

/// A clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
struct Clause<'h> {
    main: &'h str,
    sub: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl Encoding {
    /// Returns the Content-Type of a body in this encoding.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
            Self::Cbor => CBOR,
        }
    }

    /// Returns the Content-Type of a watch whose events have this encoding.
    pub(crate) const fn stream_type(self) -> &'static str {
        match self {
            Self::Protobuf => PROTOBUF_WATCH,
            Self::Cbor => windlass_cbor::SEQUENCE_MEDIA_TYPE,
            _ => self.media_type(),
        }
    }
}

impl ErrorEncoding {
    /// Returns the encoding of a status with this code. That nothing is acceptable is never written in CBOR: the endpoints
    /// that respond with it to a client that accepts CBOR do not offer CBOR.
    pub(crate) fn of_code(self, code: u16) -> Self {
        if code == 406 && self == Self::As(Encoding::Cbor) { Self::Forced } else { self }
    }
}

impl MetaVersion {
    /// `meta.k8s.io/v1`
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Negotiates the form of a response with objects.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    endpoint: Endpoint,
    offer: Offer,
) -> Result<Representation, Status> {
    let accept = accept(headers);
    route_accepts(accept, endpoint, offer)?;
    let pretty = wants_pretty(headers, query);
    clauses(accept)
        .iter()
        .find_map(|clause| clause.representation(pretty, endpoint, offer))
        .ok_or_else(|| Status::not_acceptable(offered(offer)))
}

/// Negotiates the form of a watch: compact JSON, protobuf or CBOR, with any view of the objects.
pub(crate) fn negotiate_watch(
    headers: &HeaderMap,
    query: &Query,
    endpoint: Endpoint,
    offer: Offer,
) -> Result<Representation, Status> {
    let Representation { encoding, view } = negotiate(headers, query, endpoint, offer)?;
    match encoding {
        Encoding::Json | Encoding::PrettyJson => Ok(Representation { encoding: Encoding::Json, view }),
        Encoding::Protobuf | Encoding::Cbor => Ok(Representation { encoding, view }),
        Encoding::Yaml => Err(Status::not_acceptable(offered_watches(offer))),
    }
}

/// Negotiates the form of an error. Never fails.
pub(crate) fn negotiate_error(headers: &HeaderMap, query: &Query, offer: Offer) -> ErrorEncoding {
    let pretty = wants_pretty(headers, query);
    // A status is a Go type for every endpoint.
    let whole = |clause: &Clause<'_>| match clause.representation(pretty, Endpoint::Object, offer) {
        Some(Representation { encoding, view: View::Whole }) => Some(encoding),
        _ => None,
    };
    clauses(accept(headers)).iter().find_map(whole).map_or(ErrorEncoding::Forced, ErrorEncoding::As)
}

/// The form of a page of `config.k8s.io`, such as `/statusz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageForm {
    Text,
    Object { version: &'static str, encoding: Encoding },
}

/// Negotiates the form of a page. Objects must be requested with their group, version and kind.
pub(crate) fn negotiate_page(headers: &HeaderMap, query: &Query, kind: &str) -> Result<PageForm, Status> {
    let pretty = wants_pretty(headers, query);
    let accept = accept(headers).trim();
    if accept.is_empty() {
        return Ok(PageForm::Text);
    }
    let form = |clause: &Clause<'_>| {
        let given =
            |name: &str| clause.parameters.iter().rev().find(|(given, _)| *given == name).map_or("", |found| found.1);
        let (wanted, group, version) = (given("as"), given("g"), given("v"));
        let encodings: &[Encoding] = match (clause.main, clause.sub) {
            ("*" | "application", "*") => &[Encoding::Json, Encoding::Yaml],
            ("application", "json") => &[Encoding::Json],
            ("application", "yaml") => &[Encoding::Yaml],
            _ => &[],
        };
        let version = ["v1beta1", "v1alpha1"].into_iter().find(|known| *known == version);
        if let (Some(version), Some(&encoding)) = (version, encodings.first())
            && (wanted, group) == (kind, "config.k8s.io")
        {
            let pretty = encoding == Encoding::Json && (pretty || given("pretty") == "1");
            let encoding = if pretty { Encoding::PrettyJson } else { encoding };
            return Some(PageForm::Object { version, encoding });
        }
        let is_text = matches!((clause.main, clause.sub), ("*", "*") | ("text", "plain" | "*"));
        (is_text && [wanted, group, given("v")] == [""; 3]).then_some(PageForm::Text)
    };
    clauses(accept).iter().find_map(form).ok_or_else(|| Status::not_acceptable(&[JSON, YAML, "text/plain"]))
}

/// Requires that the client accepts JSON, for endpoints that offer nothing else. The 406 response lists only JSON.
pub(crate) fn accepts_only_json(headers: &HeaderMap) -> Result<(), Status> {
    if accepts_any(accept(headers), &[JSON]) { Ok(()) } else { Err(not_acceptable_by_route(&[JSON])) }
}

/// Returns the format of a request body from its Content-Type. Defaults to JSON.
pub(crate) fn body_format(headers: &HeaderMap, offer: Offer) -> Result<Format, Status> {
    let sent = content_type(headers);
    let formats = [(JSON, Format::Json), (YAML, Format::Yaml), (PROTOBUF, Format::Protobuf), (CBOR, Format::Cbor)];
    if sent.is_empty() {
        return Ok(Format::Json);
    }
    let known = formats.into_iter().find(|(media_type, _)| sent.eq_ignore_ascii_case(media_type));
    match known {
        Some((_, format)) if format != Format::Cbor || offer == Offer::WithCbor => Ok(format),
        _ => Err(Status::unsupported_media_type(offered(offer))),
    }
}

/// Returns the Content-Type without parameters. Empty if the header is missing.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim()
}

/// Returns the router's error for an unknown media type, which is checked before the body is read.
pub(crate) fn unsupported_by_route(kubernetes: KubernetesVersion, has_body: bool) -> Status {
    // Without a body, the router of 1.33 responds with 406 instead of 415.
    if kubernetes < V1_34 && !has_body {
        return not_acceptable_by_route(&[]);
    }
    Status::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, "415: Unsupported Media Type")
        .with_details(StatusDetails::default())
}

/// Returns the error for a view of one object on a list, or of a list on one object.
pub(crate) fn wrong_view(view: &str, kind: &str, shown: ResponseKind) -> Status {
    let what = match shown {
        ResponseKind::List => "a list",
        ResponseKind::Object => "not a list",
    };
    let message = format!("you requested {view}, but the requested object is {what} ({kind})");
    Status::failure(406, reason::NOT_ACCEPTABLE, message)
}

/// The content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Object,
    List,
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Checks the Accept header as kube-apiserver's router does: exact types or `*/*`, ignoring parameters.
pub(crate) fn route_accepts(accept: &str, endpoint: Endpoint, offer: Offer) -> Result<(), Status> {
    let offered: &[&str] = match endpoint {
        Endpoint::Object | Endpoint::Unprinted => offered(offer),
        Endpoint::Collection => offered_lists(offer),
        Endpoint::Custom => return Ok(()),
    };
    accepts_one_of(accept, offered)
}

/// Checks that the client accepts one of the types that a separate route offers.
pub(super) fn accepts_one_of(accept: &str, offered: &[&str]) -> Result<(), Status> {
    if accepts_any(accept, offered) { Ok(()) } else { Err(not_acceptable_by_route(offered)) }
}

fn accepts_any(accept: &str, offered: &[&str]) -> bool {
    let accepted = |clause: &str| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "*/*" || offered.contains(&media_type)
    };
    accept.is_empty() || accept.split(',').any(accepted)
}

fn not_acceptable_by_route(offered: &[&str]) -> Status {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", offered.join(", "));
    Status::failure(406, reason::NOT_ACCEPTABLE, message).with_details(StatusDetails::default())
}

/// Reports whether the body should be indented.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(pretty) = query.text("pretty") {
        return matches!(pretty, "1" | "t" | "T" | "TRUE" | "true" | "True");
    }
    let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |value| value.as_bytes());
    [&b"curl"[..], b"Wget", b"Mozilla/5.0"].iter().any(|browser| agent.starts_with(browser))
}

/// Returns the clauses in order of preference.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    if accept.is_empty() {
        return vec![Clause { main: "*", sub: "*", quality: 1.0, parameters: Vec::new() }];
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    let specific = |clause: &Clause<'_>| u8::from(clause.main != "*") + u8::from(clause.sub != "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(specific(b).cmp(&specific(a))));
    clauses
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next()?;
        let (main, sub) = match media_type.split_once('/') {
            Some((main, sub)) => (main.trim(), sub.trim()),
            None if media_type == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self { main, sub, quality: 1.0, parameters: Vec::new() };
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("q", quality)) => clause.quality = quality.parse().unwrap_or(1.0),
                Some((name, value)) => clause.parameters.push((name.trim(), value.trim())),
                None => {}
            }
        }
        Some(clause)
    }

    /// Returns the representation for this clause, if it is supported.
    fn representation(&self, pretty: bool, endpoint: Endpoint, offer: Offer) -> Option<Representation> {
        let encoding = match (self.main, self.sub) {
            ("*", "*") | ("application", "json" | "*") => Encoding::Json,
            ("application", "yaml") => Encoding::Yaml,
            ("application", "vnd.kubernetes.protobuf") => Encoding::Protobuf,
            ("application", "cbor") if offer == Offer::WithCbor => Encoding::Cbor,
            _ => return None,
        };
        let (mut kind, mut group, mut version, mut pretty) = ("", "", "", pretty);
        for (name, value) in &self.parameters {
            match *name {
                "as" => kind = value,
                "g" => group = value,
                "v" => version = value,
                "stream" if !matches!(*value, "" | "watch") || encoding == Encoding::Yaml => return None,
                "pretty" => pretty |= *value == "1",
                _ => {}
            }
        }
        let meta = match (group, version) {
            ("", "") => None,
            ("meta.k8s.io", "v1") => Some(MetaVersion::V1),
            ("meta.k8s.io", "v1beta1") => Some(MetaVersion::V1Beta1),
            _ => return None,
        };
        let view = match (kind, meta) {
            ("", None) => View::Whole,
            ("Table", Some(version)) => View::Table(version),
            ("PartialObjectMetadata", Some(version)) => View::Partial(version),
            ("PartialObjectMetadataList", Some(version)) => View::PartialList(version),
            _ => return None,
        };
        match (encoding, view) {
            (_, View::Table(_)) if endpoint == Endpoint::Unprinted => None,
            // Tables exist only in JSON and YAML.
            (Encoding::Protobuf | Encoding::Cbor, View::Table(_)) => None,
            (Encoding::Protobuf, View::Whole) if endpoint == Endpoint::Custom => None,
            (Encoding::Json, _) if pretty => Some(Representation { encoding: Encoding::PrettyJson, view }),
            _ => Some(Representation { encoding, view }),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        headers
    }

    fn agreed(accept: &str, endpoint: Endpoint) -> Result<(Encoding, View), String> {
        negotiate(&headers(accept), &Query::default(), endpoint, Offer::Stable)
            .map(|agreed| (agreed.encoding, agreed.view))
            .map_err(|status| status.message)
    }

    #[test]
    fn a_missing_body_is_not_acceptable_in_1_33() {
        let code = |kubernetes, has_body| unsupported_by_route(kubernetes, has_body).code;
        assert_eq!(code(KubernetesVersion::V1_33, false), 406);
        assert_eq!((code(KubernetesVersion::V1_33, true), code(KubernetesVersion::V1_34, false)), (415, 415));
    }

    #[test]
    fn first_supported_accept_clause_is_used() {
        use Encoding::{Json, PrettyJson, Protobuf, Yaml};
        let table = View::Table(MetaVersion::V1);
        for (accept, expected) in [
            ("", (Json, View::Whole)),
            ("*/*", (Json, View::Whole)),
            ("application/yaml", (Yaml, View::Whole)),
            ("application/json;q=0.1, application/yaml", (Yaml, View::Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", (Protobuf, View::Whole)),
            ("application/json,application/vnd.kubernetes.protobuf", (Json, View::Whole)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", (Json, table)),
            ("application/json;g=meta.k8s.io;v=v1;as=Table", (Json, table)),
            ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", (Json, View::Whole)),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io,application/json", (Json, View::Whole)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", (Json, View::Partial(MetaVersion::V1))),
            ("application/json;pretty=1", (PrettyJson, View::Whole)),
            ("application/json;charset=utf-8", (Json, View::Whole)),
            ("application/json;stream=watch", (Json, View::Whole)),
        ] {
            assert_eq!(agreed(accept, Endpoint::Object), Ok(expected), "{accept}");
        }
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(agreed(kubectl, Endpoint::Unprinted), Ok((Json, View::Whole)));
        assert_eq!(agreed("application/*", Endpoint::Custom), Ok((Json, View::Whole)));
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(agreed(&format!("{protobuf},application/json"), Endpoint::Custom), Ok((Json, View::Whole)));
        let metadata = format!("{protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        assert_eq!(agreed(&metadata, Endpoint::Custom), Ok((Protobuf, View::Partial(MetaVersion::V1))));
    }

    #[test]
    fn unsupported_accept_is_rejected_by_router_or_negotiation() {
        let router = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let negotiation = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for accept in ["text/html", "application/*", "garbage"] {
            assert_eq!(agreed(accept, Endpoint::Object), Err(router.to_owned()), "{accept}");
        }
        assert_eq!(agreed("text/html", Endpoint::Custom), Err(negotiation.to_owned()));
        assert_eq!(agreed("application/vnd.kubernetes.protobuf", Endpoint::Custom), Err(negotiation.to_owned()));
        assert_eq!(agreed("application/json;as=Foo;v=v1;g=meta.k8s.io", Endpoint::Object), Err(negotiation.to_owned()));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(agreed(table, Endpoint::Unprinted), Err(negotiation.to_owned()));
        let list = agreed("text/html", Endpoint::Collection).unwrap_err();
        assert!(
            list.ends_with(", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"),
            "{list}"
        );
    }

    #[test]
    fn browsers_and_pretty_parameter_get_indented_json() {
        let mut curl = headers("");
        curl.insert(header::USER_AGENT, "curl/8".parse().unwrap());
        let encoding = |headers: &HeaderMap, query: &str| {
            negotiate(headers, &Query::parse(query), Endpoint::Object, Offer::Stable).unwrap().encoding
        };
        assert_eq!(encoding(&curl, ""), Encoding::PrettyJson);
        assert_eq!(encoding(&curl, "pretty=0"), Encoding::Json);
        assert_eq!(encoding(&headers(""), "pretty=true"), Encoding::PrettyJson);
        assert_eq!(encoding(&headers(""), "pretty=zz"), Encoding::Json);
    }

    #[test]
    fn errors_are_encoded_for_any_accept_header() {
        let error = |accept: &str| negotiate_error(&headers(accept), &Query::default(), Offer::Stable);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(error("text/html"), ErrorEncoding::Forced);
        assert_eq!(error(table), ErrorEncoding::Forced);
        assert_eq!(error(&format!("{table},application/json")), ErrorEncoding::As(Encoding::Json));
        assert_eq!(error("application/yaml"), ErrorEncoding::As(Encoding::Yaml));
        assert_eq!(error("application/vnd.kubernetes.protobuf"), ErrorEncoding::As(Encoding::Protobuf));
    }

    #[test]
    fn watch_is_json_or_protobuf() {
        let watch =
            |accept: &str| negotiate_watch(&headers(accept), &Query::default(), Endpoint::Collection, Offer::Stable);
        let encoding = |accept: &str| watch(accept).unwrap().encoding;
        assert_eq!(encoding("application/json;stream=watch;pretty=1"), Encoding::Json);
        assert_eq!(encoding("application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf);
        assert_eq!(
            watch("application/yaml").unwrap_err().message,
            "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        );
    }

    #[test]
    fn content_type_decides_the_body_format() {
        let format = |sent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, sent.parse().unwrap());
            body_format(&headers, Offer::Stable).map_err(|status| status.code)
        };
        assert_eq!(body_format(&HeaderMap::new(), Offer::Stable).unwrap(), Format::Json);
        assert_eq!(format("application/json; charset=utf-8"), Ok(Format::Json));
        assert_eq!(format("application/yaml"), Ok(Format::Yaml));
        assert_eq!(format("application/vnd.kubernetes.protobuf"), Ok(Format::Protobuf));
        assert_eq!(format("text/plain"), Err(415));
    }

    #[test]
    fn cbor_is_negotiated_only_if_it_is_offered() {
        let cbor = "application/json;q=0.9,application/cbor;q=1";
        let agreed = |accept: &str, offer| {
            let agreed = negotiate(&headers(accept), &Query::default(), Endpoint::Custom, offer);
            agreed.map(|agreed| agreed.encoding).map_err(|status| status.message)
        };
        assert_eq!(agreed(cbor, Offer::Stable), Ok(Encoding::Json));
        assert_eq!(agreed(cbor, Offer::WithCbor), Ok(Encoding::Cbor));
        assert_eq!(agreed("*/*", Offer::WithCbor), Ok(Encoding::Json));
        assert!(agreed("application/cbor", Offer::Stable).unwrap_err().ends_with("vnd.kubernetes.protobuf"));
        assert!(agreed("text/html", Offer::WithCbor).unwrap_err().ends_with("protobuf, application/cbor"));

        let watch = |accept: &str, offer| negotiate_watch(&headers(accept), &Query::default(), Endpoint::Custom, offer);
        let encoding = watch("application/cbor", Offer::WithCbor).unwrap().encoding;
        assert_eq!(encoding.stream_type(), "application/cbor-seq");
        assert_eq!(watch("application/cbor", Offer::Stable).unwrap_err().code, 406);

        let mut sent = HeaderMap::new();
        sent.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/cbor"));
        assert_eq!(body_format(&sent, Offer::WithCbor), Ok(Format::Cbor));
        assert_eq!(body_format(&sent, Offer::Stable).unwrap_err().code, 415);
        let error = |offer| negotiate_error(&headers("application/cbor"), &Query::default(), offer);
        assert_eq!(error(Offer::WithCbor), ErrorEncoding::As(Encoding::Cbor));
        assert_eq!(error(Offer::Stable), ErrorEncoding::Forced);
    }
}
