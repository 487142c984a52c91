//! The trust in the cluster, and the registration there.

use serde_json::{Value, json};
use windlass::{
    ObjectRef,
    api::{BoxError, k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService},
    client::Client,
    k8s::{
        authorization::v1::SubjectAccessReview,
        core::v1::{ConfigMap, Service},
    },
    server::{AccessReviewer, FrontProxy},
};

/// The name that the cluster expects in the certificate: that of the service.
pub(crate) const SERVER_NAME: &str = "ferries.default.svc";
const NAMESPACE: &str = "default";
const SERVICE: &str = "ferries";
const GROUP: &str = "ferries.example.com";

/// Asks the cluster what a user may do.
#[derive(Debug)]
pub(crate) struct Reviewer(pub(crate) Client);

impl AccessReviewer for Reviewer {
    fn review(&self, review: Value) -> std::pin::Pin<Box<dyn Future<Output = Result<Value, BoxError>> + Send + '_>> {
        Box::pin(async move {
            let review: SubjectAccessReview = serde_json::from_value(review)?;
            Ok(serde_json::to_value(self.0.create(&review).await?)?)
        })
    }
}

/// Returns the headers in which the cluster names the users, and the CA of the certificate that it presents.
pub(crate) async fn front_proxy(client: &Client) -> Result<(FrontProxy, String), BoxError> {
    let key = ObjectRef::<ConfigMap>::new("extension-apiserver-authentication").within("kube-system");
    let data = client.get(&key).await?.data.unwrap_or_default();
    let list = |name: &str| -> Result<Vec<String>, BoxError> {
        let text = data.get(&format!("requestheader-{name}"));
        Ok(text.map(|text| serde_json::from_str(text)).transpose()?.unwrap_or_default())
    };
    let proxy = FrontProxy {
        allowed_names: list("allowed-names")?,
        username_headers: list("username-headers")?,
        uid_headers: list("uid-headers")?,
        group_headers: list("group-headers")?,
        extra_header_prefixes: list("extra-headers-prefix")?,
    };
    let ca = data.get("requestheader-client-ca-file").ok_or("the cluster has no front proxy")?;
    Ok((proxy, ca.clone()))
}

/// Makes the versions part of the cluster's API. The service leads to this machine.
pub(crate) async fn register(client: &Client, port: u16, ca: &str) -> Result<(), BoxError> {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }))?;
    client.apply(&service).await?;
    for (version, priority) in [("v1", 20), ("v1alpha1", 10)] {
        let mut registration: APIService = serde_json::from_value(json!({
            "metadata": {"name": format!("{version}.{GROUP}")},
            "spec": {
                "group": GROUP, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
            },
        }))?;
        if let Some(spec) = &mut registration.spec {
            spec.ca_bundle = Some(windlass::api::k8s_openapi::ByteString(ca.as_bytes().to_vec()));
        }
        client.apply(&registration).await?;
    }
    Ok(())
}
