//! The scale subresource of any resource, by the name of the resource.

use windlass_api::{DynamicObject, GroupResource, GroupVersionResource};

use crate::{Accessor, Client, DeferredRestMapper, MappingError, Served, accessor::served};

/// Reads and writes the scale of objects whose kind is known only at run time, as an autoscaler does.
///
/// A mapper determines the served version of a resource and whether it has the scale subresource. A custom resource has
/// it if its CustomResourceDefinition declares it.
///
/// ```no_run
/// # async fn example(client: windlass_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_api::GroupResource;
/// use windlass_client::{CachedDiscovery, DeferredRestMapper, Scales};
///
/// let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
/// let deployments = Scales::new(client, mapper).of(&GroupResource::new("apps", "deployments")).await?.within("shop");
/// let mut scale = deployments.get_scale("web").await?;
/// scale.spec.get_or_insert_default().replicas = Some(5);
/// deployments.update_scale(&scale).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Scales {
    client: Client,
    mapper: DeferredRestMapper,
}

/// A resource that is only known to have the scale subresource.
#[derive(Clone, Copy, Debug)]
pub struct Scalable;

impl Served for Scalable {
    type Object = DynamicObject;
}
served!(@can [] Scalable: Scale);

impl Scales {
    /// Creates a scale client from a client and a mapper.
    #[must_use]
    pub const fn new(client: Client, mapper: DeferredRestMapper) -> Self {
        Self { client, mapper }
    }

    /// Returns the accessor of a resource's scales, in the version that the server prefers. The empty group matches any
    /// group. Returns an error if the resource has no scale.
    pub async fn of(&self, resource: &GroupResource) -> Result<Accessor<Scalable>, MappingError> {
        let GroupResource { group, resource: name } = resource.clone();
        let found = self.mapper.resource_for(&GroupVersionResource::new(group, "", name)).await?;
        if !found.subresources.iter().any(|part| part.name == "scale") {
            let resource = found.resource.group_resource();
            return Err(MappingError::NoSubresource { resource, subresource: "scale" });
        }
        Ok(Accessor::new(self.client.dynamic(&found.resource), String::new()))
    }
}

impl Accessor<Scalable> {
    /// Sets the namespace. Defaults to the client's default namespace.
    #[must_use]
    pub fn within(self, namespace: impl Into<String>) -> Self {
        Self::new(self.resources().clone(), namespace.into())
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::{CachedDiscovery, testing::Fake};

    const DISCOVERY: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
        {"metadata":{"name":"x.io"},"versions":[{"version":"v2","resources":[
            {"resource":"farms","responseKind":{"group":"x.io","version":"v2","kind":"Farm"},"scope":"Namespaced","singularResource":"farm","verbs":["get"],
             "subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get","patch","update"]}]},
            {"resource":"barns","responseKind":{"group":"x.io","version":"v2","kind":"Barn"},"scope":"Namespaced","singularResource":"barn","verbs":["get"]}]}]}]}"#;
    const SCALE: &str = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"f","namespace":"a"},"spec":{"replicas":2}}"#;

    fn server() -> Fake {
        Fake::new(|request| {
            let body = match request.uri().path() {
                "/api" => r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}"#,
                "/apis" => DISCOVERY,
                _ => return Response::new(SCALE.into()),
            };
            let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            Response::builder().header("content-type", kind).body(body.into()).unwrap()
        })
    }

    fn scales(server: &Fake) -> Scales {
        let client = server.client();
        Scales::new(client.clone(), DeferredRestMapper::new(CachedDiscovery::in_memory(client)))
    }

    #[tokio::test]
    async fn scale_uses_the_served_version() {
        let server = server();
        let farms = scales(&server).of(&GroupResource::new("x.io", "farms")).await.unwrap();
        let mut scale = farms.clone().within("a").get_scale("f").await.unwrap();
        scale.spec.get_or_insert_default().replicas = Some(3);
        farms.update_scale(&scale).await.unwrap();
        farms.patch_scale("f", windlass_api::Patch::Merge(serde_json::json!({"spec": {"replicas": 4}}))).await.unwrap();
        assert_eq!(
            server.seen()[2..],
            [
                "GET /apis/x.io/v2/namespaces/a/farms/f/scale",
                "PUT /apis/x.io/v2/namespaces/a/farms/f/scale",
                "PATCH /apis/x.io/v2/namespaces/home/farms/f/scale",
            ]
        );
    }

    #[tokio::test]
    async fn missing_scale_and_unserved_kind_are_different_errors() {
        let scales = scales(&server());
        let error = scales.of(&GroupResource::new("", "barns")).await.unwrap_err();
        assert_eq!(error.to_string(), "barns.x.io has no scale");
        let error = scales.of(&GroupResource::new("x.io", "cats")).await.unwrap_err();
        assert!(matches!(error, MappingError::NoResource(_)), "{error}");
    }
}
