//! Test environments with an existing server: they must work over a network as they do in process, with each server.

use conformance::{on_each_target, unique};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectBuilder as _, ObjectExt as _, Status};
use windlass_envtest::{Environment, RequestMatcher, User, Verb};

fn definition(group: &str) -> String {
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: websites.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: websites, kind: Website}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, properties: {{size: {{type: integer, default: 3}}}}}}
"
    )
}

#[tokio::test]
async fn environment_uses_an_existing_cluster() {
    on_each_target(|target| async {
        let env = Environment::builder().existing(target.config.clone()).start().await.unwrap();
        let client = env.client();
        let group = format!("{}.example.com", unique("envtest"));
        let names = env.install_manifests(&definition(&group)).await.unwrap();
        // Existing objects are replaced.
        assert_eq!(env.install_manifests(&definition(&group)).await.unwrap(), names);
        let websites = ApiResource::namespaced(GroupVersionKind::new(group, "v1", "Website"), "websites");
        let mut website = DynamicObject::new(&websites, "blog").within("default");
        website.data.insert("spec".to_owned(), serde_json::json!({}));
        let website = client.dynamic(&websites).create(&website).await.unwrap();
        assert_eq!(website.data["spec"]["size"], 3);
        client.delete::<CustomResourceDefinition>(names[0].as_str()).await.unwrap();
        env.eventually_gone::<CustomResourceDefinition>(names[0].as_str()).await;

        let config = ConfigMap::named(unique("envtest")).in_namespace("default");
        let creating = || RequestMatcher::any().verb(Verb::Create).of::<ConfigMap>();
        let recorder = env.record(creating());
        let fault = env.on(creating()).once().fail(Status::internal("not today"));
        assert_eq!(client.create(&config).await.unwrap_err().status().map(|status| status.code), Some(500));
        let (found, created) =
            tokio::join!(env.eventually::<ConfigMap>(config.name(), |_| true), client.create(&config));
        assert_eq!(found.uid(), created.unwrap().uid());
        assert_eq!((fault.hits(), recorder.requests().len()), (1, 2));
        client.delete::<ConfigMap>(config.name()).await.unwrap();
        env.eventually_gone::<ConfigMap>(config.name()).await;

        let nobody = env.client_as(User::new("nobody")).unwrap();
        assert!(nobody.list::<Pod>().await.unwrap_err().is_forbidden());
        env.stop().await.unwrap();
        target
    })
    .await;
}
