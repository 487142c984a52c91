//! Request counts of an API server, from its metrics.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::BoxError;

/// The counter. Windlass uses the real server's name and labels.
const COUNTER: &str = "apiserver_request_total{";

/// The requests of nodes that are constant and independent of the load.
const HEARTBEATS: [&str; 2] = ["leases", "nodes/status"];

const CONFLICT: &str = "409";

/// Request counts by verb, resource and code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCounts(BTreeMap<Kind, u64>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: String,
    /// The resource, with its subresource after a slash.
    resource: String,
    code: String,
}

impl RequestCounts {
    /// Parses the text format of Prometheus. Skips heartbeats, and watches, which are counted at different times.
    pub(super) fn read(text: &str) -> Result<Self, BoxError> {
        let mut counts = Self::default();
        let mut found = false;
        for line in text.lines().filter_map(|line| line.strip_prefix(COUNTER)) {
            let (labels, count) = line.rsplit_once("} ").ok_or_else(|| format!("no count: {line}"))?;
            let count: f64 = count.trim().parse().map_err(|error| format!("{error}: {line}"))?;
            let labels: BTreeMap<_, _> = labels.split("\",").filter_map(|label| label.split_once("=\"")).collect();
            let of = |name: &str| labels.get(name).copied().unwrap_or_default().trim_end_matches('"');
            let resource = match of("subresource") {
                "" => of("resource").to_owned(),
                subresource => format!("{}/{subresource}", of("resource")),
            };
            found = true;
            if of("verb") != "WATCH" && !HEARTBEATS.contains(&&*resource) {
                let kind = Kind { verb: of("verb").to_owned(), resource, code: of("code").to_owned() };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and not negative")]
                let count = count as u64;
                *counts.0.entry(kind).or_default() += count;
            }
        }
        if found { Ok(counts) } else { Err("the server's metrics have no apiserver_request_total".into()) }
    }

    /// Returns the difference to an earlier count.
    pub(super) fn since(&self, before: &Self) -> Self {
        let later = self
            .0
            .iter()
            .map(|(kind, count)| (kind.clone(), count.saturating_sub(before.0.get(kind).copied().unwrap_or_default())));
        Self(later.filter(|(_, count)| *count > 0).collect())
    }

    /// Returns the number of writes.
    pub(super) fn writes(&self) -> u64 {
        self.sum(|kind| !matches!(&*kind.verb, "GET" | "LIST"))
    }

    /// Returns a line with the total, the conflicts, and the counts by verb.
    pub(super) fn figures(&self) -> Value {
        let mut line = json!({
            "bench": "requests", "all": self.sum(|_| true), "writes": self.writes(),
            "conflicts": self.sum(|kind| kind.code == CONFLICT),
            "events": self.sum(|kind| kind.resource == "events"),
        });
        for verb in self.0.keys().map(|kind| &*kind.verb) {
            line[verb] = json!(self.sum(|kind| kind.verb == verb));
        }
        line
    }

    /// Returns a line with the most frequent requests.
    pub(super) fn busiest(&self) -> Value {
        let mut kinds: Vec<_> = self.0.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let told = |(kind, count): &(&Kind, &u64)| format!("{count} {} {} {}", kind.verb, kind.resource, kind.code);
        json!({"bench": "busiest", "requests": kinds.iter().take(16).map(told).collect::<Vec<_>>()})
    }

    fn sum(&self, of: impl Fn(&Kind) -> bool) -> u64 {
        self.0.iter().filter(|(kind, _)| of(kind)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 70
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 9
"#;

    const AFTER: &str = r#"
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 12
apiserver_request_total{code="409",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="status",verb="PUT",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1.2e+06
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="resource",subresource="status",verb="PATCH",version="v1"} 8
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 5
"#;

    #[test]
    fn counts_exclude_watches_and_heartbeats() {
        let counts = RequestCounts::read(AFTER).unwrap().since(&RequestCounts::read(BEFORE).unwrap());
        assert_eq!(counts.writes(), 13);
        let figures = counts.figures();
        assert_eq!(
            ["all", "conflicts", "POST", "PUT", "GET"].map(|name| figures[name].as_u64()),
            [1_200_013, 3, 10, 3, 1_200_000].map(Some)
        );
        assert!(figures.get("WATCH").is_none());
        assert_eq!(counts.busiest()["requests"][2], "3 PUT deployments/status 409");
    }

    #[test]
    fn a_server_that_does_not_count_is_an_error() {
        assert!(RequestCounts::read("up 1\n").is_err());
        assert!(RequestCounts::read("apiserver_request_total{verb=\"GET\"} many\n").is_err());
    }

    #[tokio::test]
    async fn the_embedded_server_counts_so_that_it_can_be_read() {
        let server = windlass_server::Server::builder().build();
        server.start().await.unwrap();
        let client = windlass_client::Client::from_service(server.service(), "default");
        client.list::<k8s_openapi::api::core::v1::Pod>().await.unwrap();
        let request = http::Request::get("/metrics").body(bytes::Bytes::new()).unwrap();
        let answer = client.request(request).await.unwrap().into_body();
        let text = http_body_util::BodyExt::collect(answer).await.unwrap().to_bytes();
        let counts = RequestCounts::read(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(counts.figures()["LIST"], 1);
    }
}
