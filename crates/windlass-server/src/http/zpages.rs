//! `/statusz` and `/flagz`: the state and the flags of the server, as text for people or as an object of `config.k8s.io`.
//!
//! Served since Kubernetes 1.36. `/configz` does not exist in kube-apiserver.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{
    Body, Exchange,
    media::{self, PageForm},
    respond,
};
use crate::{kubernetes::KubernetesVersion, state::State};

const COMPONENT: &str = "apiserver";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees \
                       and is for debugging purposes only.";
/// The paths for people and probes.
const PATHS: [&str; 7] = ["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"];

/// Answers a request for one of the pages; `None` for any other path.
pub(super) fn answer(server: &State, exchange: &Exchange) -> Option<Result<Response<Body>, windlass_api::Status>> {
    let kubernetes = server.choices.kubernetes;
    let kind = match exchange.info.path.as_str() {
        _ if kubernetes < KubernetesVersion::V1_36 => return None,
        "/statusz" => "Statusz",
        "/flagz" => "Flagz",
        _ => return None,
    };
    Some(media::negotiate_page(&exchange.headers, &exchange.query, kind).map(|form| match form {
        PageForm::Text => {
            let page = if kind == "Statusz" { status_text(server) } else { flags_text(server) };
            respond::respond(StatusCode::OK, respond::TEXT, Body::whole(page))
        }
        PageForm::Object { version, encoding } => {
            let mut object = json!({
                "kind": kind,
                "apiVersion": format!("config.k8s.io/{version}"),
                "metadata": {"name": COMPONENT},
            });
            let fields = if kind == "Statusz" { status_fields(server) } else { flag_fields(server) };
            if let Some(object) = object.as_object_mut() {
                object.extend(fields);
            }
            let mut response = respond::document(StatusCode::OK, object.to_string().into_bytes(), encoding);
            let media_type = encoding.media_type();
            let content_type = format!("{media_type};g=config.k8s.io;v={version};as={kind}");
            let headers = response.headers_mut();
            if let Ok(content_type) = HeaderValue::from_str(&content_type) {
                headers.insert(header::CONTENT_TYPE, content_type);
            }
            if version == "v1alpha1" {
                let page = kind.to_lowercase();
                let warning =
                    format!("299 - \"This version of the {page} endpoint is deprecated. Please use a newer version.\"");
                headers.extend(HeaderValue::from_str(&warning).ok().map(|warning| (header::WARNING, warning)));
            }
            response
        }
    }))
}

/// Returns the versions of the program and of the API that it serves.
fn versions(server: &State) -> (&'static str, String) {
    let kubernetes = server.choices.kubernetes;
    (kubernetes.release().trim_start_matches('v'), format!("1.{}", kubernetes.minor()))
}

fn uptime(server: &State) -> i64 {
    server.clock().now().as_second().saturating_sub(server.started.as_second()).max(0)
}

fn status_text(server: &State) -> String {
    let (binary, emulated) = versions(server);
    let (up, started) = (uptime(server), server.started.strftime("%a %b %e %H:%M:%S UTC %Y"));
    let up = format!("{} hr {:02} min {:02} sec", up / 3600, up / 60 % 60, up % 60);
    let paths = PATHS.join(" ");
    format!(
        "\n{COMPONENT} statusz\n{WARNING}\n\nStarted: {started}\nUp: {up}\nGo version: none\nBinary version: {binary}\n\
         Emulation version: {emulated}\nPaths: {paths}\n"
    )
}

fn status_fields(server: &State) -> Map<String, Value> {
    let (binary, emulated) = versions(server);
    let fields = [
        ("startTime", windlass_api::format_time(server.started).into()),
        ("uptimeSeconds", uptime(server).into()),
        ("goVersion", "none".into()),
        ("binaryVersion", binary.into()),
        ("emulationVersion", emulated.into()),
        ("paths", json!(PATHS)),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

fn flags_text(server: &State) -> String {
    let flags = server.flags.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let flags: String = flags.collect();
    format!("\n{COMPONENT} flagz\n{WARNING}\n{flags}")
}

fn flag_fields(server: &State) -> Map<String, Value> {
    let mut fields = Map::new();
    if !server.flags.is_empty() {
        fields.insert("flags".to_owned(), json!(server.flags));
    }
    fields
}
