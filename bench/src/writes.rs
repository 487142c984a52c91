//! The cost of a write in the embedded server: one write at a time, in this process, without a socket.

use bytes::Bytes;
use clap::Args;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::Service as _;
use windlass_api::BoxError;
use windlass_server::{Server, Service};

use crate::objects;

/// The flags of `windlass-bench writes`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The number of objects of each kind in each round
    #[arg(long, default_value_t = 500)]
    objects: usize,
    /// Measure only this figure
    #[arg(long)]
    only: Option<String>,
}

/// The operations on every object of a round, in this order.
const FIGURES: [&str; 9] = [
    "create",
    "get",
    "update",
    "update by another manager",
    "apply",
    "apply again",
    "apply that changes nothing",
    "update that clears the managers",
    "update without managers",
];

/// A measured kind.
struct Kind {
    name: &'static str,
    collection: &'static str,
    object: fn(usize) -> Value,
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

const KINDS: [Kind; 4] = [
    Kind {
        name: "Deployment",
        collection: "/apis/apps/v1/namespaces/default/deployments",
        object: objects::deployment,
    },
    Kind { name: "Pod", collection: "/api/v1/namespaces/default/pods", object: objects::pod },
    Kind { name: "Service", collection: SERVICES, object: objects::service },
    Kind { name: "Service with node port", collection: SERVICES, object: objects::node_port_service },
];

pub(crate) async fn run(options: &Options) -> Result<(), BoxError> {
    for kind in &KINDS {
        let mut rows = vec![Vec::new(); FIGURES.len()];
        for _ in 0..options.rounds {
            // A new server per round, so that the storage does not grow.
            let server = Server::builder().service_cidr("10.0.0.0/16".parse()?).build();
            server.start().await?;
            let mut writer = Writer { service: server.service(), kind, objects: options.objects };
            for (row, figure) in rows.iter_mut().zip(FIGURES) {
                row.push(writer.measure(figure).await?);
            }
        }
        for (figure, mut values) in FIGURES.iter().zip(rows) {
            if options.only.as_ref().is_some_and(|only| only != figure) {
                continue;
            }
            values.sort_by(f64::total_cmp);
            let (min, median) = (values[0], values[values.len() / 2]);
            println!(
                "{}",
                json!({"bench": "writes", "kind": kind.name, "figure": figure, "min_us": min, "median_us": median})
            );
        }
    }
    Ok(())
}

struct Writer<'k> {
    service: Service,
    kind: &'k Kind,
    objects: usize,
}

impl Writer<'_> {
    /// Runs the operation for every object; returns the microseconds for each.
    async fn measure(&mut self, figure: &str) -> Result<f64, BoxError> {
        let requests: Vec<_> = (0..self.objects).map(|at| self.request(figure, at)).collect();
        let started = Instant::now();
        for (method, path, content, body) in requests {
            self.send(method, &path, content, body).await?;
        }
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let each = started.elapsed().as_secs_f64() * 1e6 / self.objects as f64;
        Ok(each)
    }

    fn request(&self, figure: &str, at: usize) -> (Method, String, &'static str, Bytes) {
        let mut object = (self.kind.object)(at);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let path = |query: &str| format!("{}/{name}{query}", self.kind.collection);
        let (method, path, content) = match figure {
            "create" => (Method::POST, format!("{}?fieldManager=one", self.kind.collection), objects::JSON),
            "get" => (Method::GET, path(""), objects::JSON),
            "update" => (Method::PUT, path("?fieldManager=one"), objects::JSON),
            "update by another manager" | "update that clears the managers" | "update without managers" => {
                (Method::PUT, path("?fieldManager=two"), objects::JSON)
            }
            _ => (Method::PATCH, path("?fieldManager=three&force=true"), objects::APPLY),
        };
        // Each write changes a label, except the one that changes nothing.
        let value = if figure == "apply that changes nothing" { "apply again" } else { figure };
        object["metadata"]["labels"]["written"] = value.replace(' ', "-").into();
        if figure == "update that clears the managers" {
            object["metadata"]["managedFields"] = json!([{}]);
        }
        let body = if method == Method::GET { Vec::new() } else { object.to_string().into_bytes() };
        (method, path, content, body.into())
    }

    async fn send(&mut self, method: Method, path: &str, content: &str, body: Bytes) -> Result<(), BoxError> {
        let request = Request::builder().method(method.clone()).uri(path).header("Content-Type", content);
        let response = self.service.call(request.body(Full::new(body))?).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&answer)).into())
    }
}
