//! Metrics from the APIs of a cluster: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.

use std::{borrow::Cow, time::Duration};

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};
use serde::{Deserialize, de::DeserializeOwned};
use windlass_api::{GroupKind, GroupVersion, LabelSelector, Quantity, parse_duration};
use windlass_client::{
    CachedDiscovery, Client, DeferredRestMapper,
    rest::{RestRequest, RestResponse},
};

use super::{MetricApi, MetricError, MetricSource, PodMetric, Sample, Samples, selector_of};
use crate::pod_control::server_message;

/// The message of a server that does not serve an API.
const NOT_SERVED: &str = "the server could not find the requested resource";
/// The default window of metrics that do not specify one.
const WINDOW: Duration = Duration::from_mins(1);

/// Metrics from an API server. The `metrics.k8s.io` API is served by metrics-server, or by the simulated nodes.
#[derive(Clone, Debug)]
pub struct ApiMetrics {
    client: Client,
    mapper: DeferredRestMapper,
}

/// `metrics.k8s.io/v1beta1`, `PodMetrics`.
#[derive(Debug, Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: Timestamp,
    window: String,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    usage: std::collections::BTreeMap<String, Quantity>,
}

/// `custom.metrics.k8s.io/v1beta2`, `MetricValue`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    described_object: Named,
    timestamp: Timestamp,
    window_seconds: Option<u64>,
    value: Quantity,
}

/// `external.metrics.k8s.io/v1beta1`, `ExternalMetricValue`.
#[derive(Debug, Deserialize)]
struct ExternalValue {
    value: Quantity,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Items<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

impl ApiMetrics {
    /// Creates a source that uses this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
        Self { client, mapper }
    }

    fn get(&self, group: &'static str, version: &'static str) -> RestRequest {
        self.client.rest(GroupVersion::new(group, version)).get()
    }

    /// Returns the resource usage of pods.
    async fn usage(
        &self,
        namespace: &str,
        pods: &LabelSelector,
        resource: &str,
        container: Option<&str>,
    ) -> Result<Samples, MetricError> {
        let request = self.get("metrics.k8s.io", "v1beta1").namespace(namespace).resource("pods");
        let metrics: Vec<PodMetrics> =
            items(MetricApi::Resource, selected(request, "labelSelector", pods), "pods").await?;
        Ok(metrics.into_iter().filter_map(|metrics| metrics.sample(resource, container)).collect())
    }

    async fn custom(
        &self,
        namespace: &str,
        resource: &str,
        name: &str,
        pods: Option<&LabelSelector>,
        metric: &MetricIdentifier,
    ) -> Result<Vec<MetricValue>, MetricError> {
        let mut request = self.get("custom.metrics.k8s.io", "v1beta2");
        request = match resource {
            // Metrics of a namespace have a separate path.
            "namespaces" => request.resource("namespaces").name(namespace).sub_resource("metrics"),
            _ => request.namespace(namespace).resource(resource.to_owned()).name(name.to_owned()),
        };
        request = request.suffix(&metric.name);
        if let Some(pods) = pods {
            request = selected(request, "labelSelector", pods);
        }
        items(MetricApi::Custom, selected(request, "metricLabelSelector", &selector_of(metric)?), resource).await
    }

    /// Returns the resource of a described object, in the format of the custom metrics API.
    async fn resource_of(&self, object: &CrossVersionObjectReference) -> Result<String, MetricError> {
        let group_version = object.api_version.as_deref().unwrap_or_default();
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let kind = GroupKind::new(group.to_owned(), object.kind.clone());
        let versions: Vec<_> = Some(version).filter(|version| !version.is_empty()).into_iter().collect();
        let found = self.mapper.mapping(&kind, &versions).await;
        let found = found.map_err(|error| MetricError::Fetch { api: MetricApi::Custom, why: error.to_string() })?;
        Ok(found.resource.group_resource().to_string())
    }
}

impl MetricSource for ApiMetrics {
    fn of_pods<'a>(
        &'a self,
        namespace: &'a str,
        pods: &'a LabelSelector,
        metric: PodMetric<'a>,
    ) -> BoxFuture<'a, Result<Samples, MetricError>> {
        async move {
            match metric {
                PodMetric::Resource { name, container } => self.usage(namespace, pods, name, container).await,
                PodMetric::Custom(metric) => {
                    let values = self.custom(namespace, "pods", "*", Some(pods), metric).await?;
                    Ok(values.into_iter().map(MetricValue::sample).collect())
                }
            }
        }
        .boxed()
    }

    fn of_object<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a CrossVersionObjectReference,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Quantity, MetricError>> {
        async move {
            let resource = self.resource_of(object).await?;
            let values = self.custom(namespace, &resource, &object.name, None, metric).await?;
            match <[MetricValue; 1]>::try_from(values) {
                Ok([one]) => Ok(one.value),
                Err(values) => {
                    let why = format!(
                        "the custom metrics API server returned {} results when we asked for exactly one",
                        values.len()
                    );
                    Err(MetricError::Fetch { api: MetricApi::Custom, why })
                }
            }
        }
        .boxed()
    }

    fn external<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Vec<Quantity>, MetricError>> {
        async move {
            let request = self.get("external.metrics.k8s.io", "v1beta1").namespace(namespace);
            let request = request.resource(metric.name.clone());
            let request = selected(request, "labelSelector", &selector_of(metric)?);
            let values: Vec<ExternalValue> = items(MetricApi::External, request, &metric.name).await?;
            Ok(values.into_iter().map(|value| value.value).collect())
        }
        .boxed()
    }
}

impl PodMetrics {
    /// Returns the pod's usage of a resource. Returns `None` if the named container, or any container if none is named,
    /// lacks the metric.
    fn sample(self, resource: &str, container: Option<&str>) -> Option<(String, Sample)> {
        let mut meant = self.containers.into_iter().filter(|known| container.is_none_or(|name| known.name == name));
        let first = meant.next()?.usage.remove(resource)?;
        let value = meant.try_fold(first, |sum, mut other| Some(sum + other.usage.remove(resource)?))?;
        let window =
            parse_duration(&self.window).ok().and_then(|window| Duration::try_from(window).ok()).unwrap_or(WINDOW);
        Some((self.metadata.name, Sample { value, at: self.timestamp, window }))
    }
}

impl MetricValue {
    fn sample(self) -> (String, Sample) {
        let window = self.window_seconds.map_or(WINDOW, Duration::from_secs);
        (self.described_object.name, Sample { value: self.value, at: self.timestamp, window })
    }
}

/// Returns the items of a list, or an error if it is empty.
async fn items<T: DeserializeOwned>(
    api: MetricApi,
    request: RestRequest,
    resource: &str,
) -> Result<Vec<T>, MetricError> {
    let answer = request.send().await.and_then(RestResponse::into::<Items<T>>);
    let list = answer.map_err(|error| MetricError::Fetch { api, why: why(api, resource, &error) })?;
    if list.items.is_empty() { Err(MetricError::Nothing(api)) } else { Ok(list.items) }
}

/// Returns the error message of Go's clients. They add the requested resource if the server gives no message.
fn why(api: MetricApi, resource: &str, error: &windlass_client::Error) -> String {
    let said = server_message(error);
    match api {
        _ if !error.is_not_found() || said != NOT_SERVED => said,
        MetricApi::Resource => format!("{said} (get {resource}.metrics.k8s.io)"),
        MetricApi::External => format!("{said} (get {resource}.external.metrics.k8s.io)"),
        MetricApi::Custom => "no custom metrics API (custom.metrics.k8s.io) registered".to_owned(),
    }
}

fn selected(request: RestRequest, parameter: &'static str, selector: &LabelSelector) -> RestRequest {
    if selector.is_empty() {
        return request;
    }
    request.param(Cow::Borrowed(parameter), selector.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use windlass_client::Body;

    use super::*;

    /// Returns a source whose server always gives one response, and the list of its requests.
    fn source(code: u16, body: &'static str) -> (ApiMetrics, Arc<Mutex<Vec<String>>>) {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let keep = Arc::clone(&seen);
        let server = tower::service_fn(move |request: http::Request<Body>| {
            keep.lock().push(format!("{} {}", request.method(), request.uri()));
            let answer = http::Response::builder().status(code).body(Body::from(body)).unwrap();
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        (ApiMetrics::new(Client::from_service(server, "home")), seen)
    }

    fn metric(name: &str, labels: serde_json::Value) -> MetricIdentifier {
        serde_json::from_value(serde_json::json!({"name": name, "selector": {"matchLabels": labels}})).unwrap()
    }

    #[tokio::test]
    async fn pod_metrics_are_requested_by_pod_and_metric_selector() {
        let (source, seen) = source(
            200,
            r#"{"items": [{"describedObject": {"kind": "Pod", "name": "p"}, "timestamp": "2020-01-01T00:00:00Z", "windowSeconds": 20, "value": "1500m"}]}"#,
        );
        let (pods, metric) = ("app=web".parse().unwrap(), metric("qps", serde_json::json!({"verb": "GET"})));
        let samples = source.of_pods("n", &pods, PodMetric::Custom(&metric)).await.unwrap();
        assert_eq!((samples["p"].value.milli_value(), samples["p"].window), (1500, Duration::from_secs(20)));
        assert_eq!(
            *seen.lock(),
            [
                "GET /apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/%2A/qps?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET"
            ]
        );
    }

    #[tokio::test]
    async fn external_metrics_are_requested_by_name() {
        let (source, seen) = source(200, r#"{"items": [{"value": "3"}, {"value": "500m"}]}"#);
        let metric = metric("depth", serde_json::json!({"queue": "orders"}));
        let values = source.external("n", &metric).await.unwrap();
        assert_eq!(values.iter().map(Quantity::milli_value).collect::<Vec<_>>(), [3000, 500]);
        assert_eq!(
            *seen.lock(),
            ["GET /apis/external.metrics.k8s.io/v1beta1/namespaces/n/depth?labelSelector=queue%3Dorders"]
        );
    }

    #[tokio::test]
    async fn missing_metric_has_the_error_of_kubernetes() {
        let everything = LabelSelector::default();
        let cpu = PodMetric::Resource { name: "cpu", container: None };
        let said = async |code, body| {
            let (source, _) = source(code, body);
            source.of_pods("n", &everything, cpu).await.unwrap_err().to_string()
        };
        assert_eq!(said(200, r#"{"items": []}"#).await, "no metrics returned from resource metrics API");
        assert_eq!(
            said(404, "404 page not found\n").await,
            "unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
        );
    }

    #[test]
    fn pod_metrics_need_all_measured_containers() {
        let metrics = || -> PodMetrics {
            serde_json::from_str(
                r#"{"metadata": {"name": "p"}, "timestamp": "2020-01-01T00:00:00Z", "window": "15s", "containers": [
                    {"name": "a", "usage": {"cpu": "100m", "memory": "1Mi"}}, {"name": "b", "usage": {"cpu": "50m"}}]}"#,
            )
            .unwrap()
        };
        let of = |resource: &str, container: Option<&str>| {
            metrics().sample(resource, container).map(|(pod, sample)| (pod, sample.value.milli_value()))
        };
        assert_eq!(metrics().sample("cpu", None).unwrap().1.window, Duration::from_secs(15));
        assert_eq!(of("cpu", None), Some(("p".to_owned(), 150)));
        assert_eq!(of("cpu", Some("b")), Some(("p".to_owned(), 50)));
        assert_eq!(of("memory", Some("a")), Some(("p".to_owned(), 1_048_576_000)));
        assert_eq!([of("memory", None), of("cpu", Some("c")), of("disk", None)], [None, None, None]);
    }
}
