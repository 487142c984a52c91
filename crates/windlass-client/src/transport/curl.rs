//! Logs each request as a `curl` command, for manual reproduction: at level `debug`, target `windlass_client::curl`.
//!
//! Credentials are masked and bodies omitted, because they may contain secrets.

use std::{
    fmt::{self, Write as _},
    task::{Context, Poll},
};

use http::{HeaderName, HeaderValue, Request, header};
use tower::Service;

use crate::body::Body;

const TARGET: &str = "windlass_client::curl";
const MASK: &str = "<masked>";
/// Headers that contain secrets even if their values are not marked as sensitive.
const SECRET: [HeaderName; 3] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

/// Logs the requests to a service. Their URIs are full URLs.
#[derive(Clone, Debug)]
pub(crate) struct Curl<S>(pub(super) S);

/// A request, displayed as a command.
struct Command<'r>(&'r Request<Body>);

/// A text, displayed as one word of a shell.
struct Quoted<'t>(&'t str);

impl<S: Service<Request<Body>>> Service<Request<Body>> for Curl<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        tracing::debug!(target: TARGET, "{}", Command(&request));
        self.0.call(request)
    }
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(request) = self;
        write!(f, "curl -v -X{}", request.method())?;
        for (name, value) in request.headers() {
            write!(f, " -H {}", Quoted(&format!("{name}: {}", shown(name, value))))?;
        }
        write!(f, " {}", Quoted(&request.uri().to_string()))
    }
}

/// Returns the printable value of a header. Credentials keep the word that names their scheme.
fn shown(name: &HeaderName, value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    if !value.is_sensitive() && !SECRET.contains(name) {
        return text.into_owned();
    }
    match text.split_once(' ') {
        Some((scheme @ ("Basic" | "Bearer"), _)) => format!("{scheme} {MASK}"),
        _ => MASK.to_owned(),
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        f.write_str(&self.0.replace('\'', r"'\''"))?;
        f.write_char('\'')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::basic;

    #[test]
    fn a_request_reads_as_a_command_without_its_secrets() {
        let mut request = Request::post("https://h:6443/api/v1/pods?labelSelector=a%3Db")
            .header("accept", "application/json")
            .header("x-told", "it's")
            .header("authorization", "Bearer s3cret")
            .header("cookie", "s3cret")
            .body(Body::from("s3cret"))
            .unwrap();
        let told = "curl -v -XPOST -H 'accept: application/json' -H 'x-told: it'\\''s' -H 'authorization: Bearer <masked>' \
                    -H 'cookie: <masked>' 'https://h:6443/api/v1/pods?labelSelector=a%3Db'";
        assert_eq!(Command(&request).to_string(), told);
        request.headers_mut().clear();
        request.headers_mut().insert("x-mine", basic("me", "s3cret").unwrap());
        let told = "curl -v -XPOST -H 'x-mine: Basic <masked>' 'https://h:6443/api/v1/pods?labelSelector=a%3Db'";
        assert_eq!(Command(&request).to_string(), told);
    }
}
