//! Example programs of the public API. They only need to compile; other tests cover their behavior.

#![allow(dead_code, unused_variables, reason = "nothing here is run")]

#[cfg(test)]
mod mistakes;

/// The user's other code: a custom resource and its functions.
mod theirs {
    use serde::{Deserialize, Serialize};
    pub(crate) use windlass::k8s::core::v1::ConfigMap;
    use windlass::{
        Resource, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, k8s::apps::v1::Deployment,
    };

    #[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
    #[resource(group = "example.com", version = "v1")]
    pub(crate) struct Website {
        metadata: ObjectMeta,
    }

    pub(crate) fn deployment_for(_: &Website) -> Deployment {
        Deployment::default()
    }

    #[derive(Debug)]
    pub(crate) enum SyncError {
        BadSpec(String),
        Api(windlass::client::Error),
    }

    impl std::fmt::Display for SyncError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("synchronizing the site")
        }
    }

    impl std::error::Error for SyncError {}
}

mod ten_lines {
    use crate::theirs::{Website, deployment_for};
    // BEGIN
    use windlass::{k8s::apps::v1::Deployment, prelude::*};

    async fn reconcile(site: Arc<Website>, cx: Context) -> windlass::Result<Action> {
        let deployment = deployment_for(&site).controlled_by(&*site);
        cx.client().apply(&deployment).await?;
        Ok(Action::await_change())
    }

    #[tokio::main]
    async fn main() -> windlass::Result<()> {
        let mut manager = Manager::try_default().await?;
        manager.add(Controller::<Website>::new().owns::<Deployment>().reconcile(reconcile));
        manager.run(shutdown::signal()).await
    }
    // END
}

mod everything_on {
    use std::time::Duration;

    use crate::theirs::{ConfigMap, SyncError, Website, deployment_for};
    // BEGIN
    use windlass::{ApiResource, DynamicObject, Reconciler, Retry, Watch, k8s::apps::v1::Deployment, prelude::*};

    struct WebsiteReconciler {
        registry: String, // state is a struct, not a context parameter
    }

    impl Reconciler<Website> for WebsiteReconciler {
        type Error = SyncError;

        async fn reconcile(&self, site: Arc<Website>, cx: Context) -> Result<Action, SyncError> {
            cx.client().apply(&deployment_for(&site)).force().await.map_err(SyncError::Api)?;
            let all = cx.client().list::<Deployment>().within("apps").labels("app=website").await;
            let all = all.map_err(SyncError::Api)?;
            let cached = cx.store::<Website>().get(&site.object_ref());
            Ok(Action::requeue_after(Duration::from_mins(5)))
        }

        // Optional; the default is back-off.
        fn retry(&self, error: &SyncError) -> Retry {
            match error {
                SyncError::BadSpec(_) => Retry::Never,
                SyncError::Api(_) => Retry::Backoff,
            }
        }
    }

    fn add(manager: &mut Manager, api_resource: ApiResource) {
        manager.add(
            Controller::<Website>::new()
                .owns_with(Watch::<Deployment>::all().labels("app=website"))
                .watches(|config: &ConfigMap| Some(ObjectRef::new(config.name())))
                .concurrency(4)
                .reconcile(WebsiteReconciler { registry: "r".into() }),
        );
        manager.add(Controller::watching(Watch::<DynamicObject>::dynamic(api_resource)).reconcile(
            async |object: Arc<DynamicObject>, _cx: Context| Ok::<_, windlass::Error>(Action::await_change()),
        ));
    }
    // END
}

/// A manager can run in a spawned task.
fn a_running_manager_is_send(manager: windlass::Manager) {
    fn is_send(_: impl Send) {}
    is_send(manager.run(std::future::pending()));
}
