//! Routing and responses of the console. No I/O.

use std::net::IpAddr;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{self, HeaderName},
};
use http_body_util::Full;

/// The content at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A file of the page.
    File(&'static File),
    State,
    Events,
}

/// A file of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All files of the page.
static FILES: [File; 11] = [
    File { path: "/", content_type: HTML, text: include_str!("page/index.html") },
    File { path: "/console.css", content_type: CSS, text: include_str!("page/console.css") },
    File { path: "/icon.svg", content_type: SVG, text: include_str!("page/icon.svg") },
    File { path: "/caches.js", content_type: SCRIPT, text: include_str!("page/caches.js") },
    File { path: "/choice.js", content_type: SCRIPT, text: include_str!("page/choice.js") },
    File { path: "/console.js", content_type: SCRIPT, text: include_str!("page/console.js") },
    File { path: "/controllers.js", content_type: SCRIPT, text: include_str!("page/controllers.js") },
    File { path: "/dom.js", content_type: SCRIPT, text: include_str!("page/dom.js") },
    File { path: "/head.js", content_type: SCRIPT, text: include_str!("page/head.js") },
    File { path: "/log.js", content_type: SCRIPT, text: include_str!("page/log.js") },
    File { path: "/words.js", content_type: SCRIPT, text: include_str!("page/words.js") },
];

/// Headers of every response: they forbid caching, framing, referrers, content sniffing, and loading from other
/// origins.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

impl File {
    pub(super) fn answer(&self) -> Response<Full<Bytes>> {
        let mut answer = Response::new(Full::new(Bytes::from_static(self.text.as_bytes())));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        answer
    }
}

/// Returns the requested route, or the status and reason of a rejection. `hosts` are the allowed host names in addition
/// to addresses and `localhost`.
pub(super) fn route<B>(request: &Request<B>, hosts: &[String]) -> Result<Route, (StatusCode, &'static str)> {
    if !is_for_here(request, hosts) {
        return Err((StatusCode::MISDIRECTED_REQUEST, "this host name is not allowed for the console\n"));
    }
    let route = match request.uri().path() {
        "/api/state" => Route::State,
        "/api/events" => Route::Events,
        path => match FILES.iter().find(|file| file.path == path) {
            Some(file) => Route::File(file),
            None => return Err((StatusCode::NOT_FOUND, "404 page not found\n")),
        },
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "the console is read-only\n"));
    }
    Ok(route)
}

pub(super) fn protect(headers: &mut HeaderMap) {
    headers.extend(HEADERS.iter().cloned());
}

/// Reports whether the `Host` header is an address or an allowed name. This rejects DNS rebinding: a page that points
/// its own name to this address sends that name.
fn is_for_here<B>(request: &Request<B>, hosts: &[String]) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    let mut asked = host.into_iter().chain(named).peekable();
    asked.peek().is_some() && asked.all(|asked| is_local(asked, hosts))
}

fn is_local(authority: &str, hosts: &[String]) -> bool {
    let Ok(authority) = authority.parse::<http::uri::Authority>() else { return false };
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    literal.parse::<IpAddr>().is_ok()
        || host == "localhost"
        || host.ends_with(".localhost")
        || hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, path: &str, host: Option<&str>) -> Result<Route, u16> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        route(&request.body(()).unwrap(), &["console.example.com".to_owned()]).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn console_answers_requests_for_local_hosts_only() {
        for host in ["127.0.0.1:9090", "localhost", "LOCALHOST:1", "[::1]:9090", "10.1.2.3", "web.localhost:80"] {
            assert_eq!(ask(Method::GET, "/api/state", Some(host)), Ok(Route::State), "{host}");
        }
        assert_eq!(ask(Method::GET, "/api/events", Some("Console.Example.com:443")), Ok(Route::Events));
        for host in ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil.example.com:9090", "", "a b"] {
            assert_eq!(ask(Method::GET, "/api/state", Some(host)), Err(421), "{host}");
        }
        assert_eq!(ask(Method::GET, "/api/state", None), Err(421));
        assert_eq!(ask(Method::GET, "http://evil.example.com/", Some("localhost")), Err(421));
    }

    #[test]
    fn console_is_read_only() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
            assert_eq!(ask(method.clone(), "/", Some("localhost")), Err(405), "{method}");
        }
        assert!(matches!(ask(Method::HEAD, "/", Some("localhost")), Ok(Route::File(_))));
        for path in ["/index.html", "/api", "/api/state/", "/../Cargo.toml"] {
            assert_eq!(ask(Method::GET, path, Some("localhost")), Err(404), "{path}");
        }
    }

    #[test]
    fn page_loads_no_external_resources() {
        let page = FILES.iter().find(|file| file.path == "/").unwrap().text;
        let values = ["href=\"", "src=\""].into_iter().flat_map(|name| page.split(name).skip(1));
        let asked = values.filter_map(|value| value.split('"').next()).filter(|value| !value.starts_with('#'));
        let asked: Vec<_> = asked.collect();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked.iter().all(|path| FILES.iter().any(|file| file.path == *path)), "{asked:?}");
        for File { path, text, .. } in &FILES {
            let elsewhere =
                text.match_indices("://").map(|(at, _)| &text[at.saturating_sub(5)..(at + 20).min(text.len())]);
            let elsewhere: Vec<_> = elsewhere.filter(|text| !text.contains("www.w3.org")).collect();
            assert!(elsewhere.is_empty(), "{path}: {elsewhere:?}");
            for line in text.lines().filter(|line| line.starts_with("import")) {
                let (_, module) = line.split_once(" from \".").unwrap_or_else(|| panic!("{path}: {line}"));
                let module = module.trim_end_matches("\";");
                assert!(FILES.iter().any(|file| file.path == module), "{path}: {module}");
            }
        }
        assert!(!page.contains("style=") && !page.contains("onclick"), "the content security policy forbids it");
    }
}
