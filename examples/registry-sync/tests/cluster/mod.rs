//! Helpers that create services with slices of endpoints.

use serde_json::{from_value, json};
use windlass::{
    Client, ObjectRef, Patch,
    api::BoxError,
    k8s::{core::v1::Service, discovery::v1::EndpointSlice},
};

pub(crate) type Outcome = Result<(), BoxError>;

fn slice(namespace: &str, service: &str, hosts: &[&str]) -> Result<EndpointSlice, serde_json::Error> {
    let endpoint =
        |host: &&str| json!({"addresses": [host], "targetRef": {"kind": "Pod", "name": format!("pod-{host}")}});
    let endpoints: Vec<_> = hosts.iter().map(endpoint).collect();
    let labels = json!({"kubernetes.io/service-name": service});
    let metadata = json!({"name": service, "namespace": namespace, "labels": labels});
    from_value(json!({"metadata": metadata, "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": endpoints}))
}

/// Creates a service with instances at these hosts.
pub(crate) async fn serve(client: &Client, namespace: &str, name: &str, hosts: &[&str]) -> Outcome {
    let metadata = json!({"name": name, "namespace": namespace});
    let service = json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}});
    client.create(&from_value::<Service>(service)?).await?;
    client.create(&slice(namespace, name, hosts)?).await?;
    Ok(())
}

/// Moves a service to other hosts.
pub(crate) async fn move_to(client: &Client, namespace: &str, name: &str, hosts: &[&str]) -> Outcome {
    let endpoints = slice(namespace, name, hosts)?.endpoints;
    let key = ObjectRef::<EndpointSlice>::new(name).within(namespace);
    client.patch(key, Patch::Merge(json!({"endpoints": endpoints}))).await?;
    Ok(())
}
