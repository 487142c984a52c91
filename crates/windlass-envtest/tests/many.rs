//! Many environments side by side.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use futures::future::join_all;
use windlass_api::{
    ObjectBuilder as _,
    k8s_openapi::api::core::v1::{ConfigMap, Namespace},
};
use windlass_envtest::Environment;

/// The number of environments whose memory `bench/README.md` measures.
const MANY: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_environments_share_nothing() {
    let environments = join_all((0..MANY).map(|number| {
        tokio::spawn(async move {
            let env = Environment::start().await;
            env.client().create(&ConfigMap::named(format!("only-{number}")).in_namespace("default")).await.unwrap();
            env
        })
    }))
    .await;
    // All environments exist now.
    for (number, env) in environments.into_iter().enumerate() {
        let env = env.unwrap();
        let configs = env.client().list::<ConfigMap>().within("default").await.unwrap();
        let names: Vec<_> = configs.items.iter().filter_map(|config| config.metadata.name.as_deref()).collect();
        assert_eq!(names, [format!("only-{number}")]);
        assert_eq!(env.client().list::<Namespace>().await.unwrap().items.len(), 4);
        env.stop().await.unwrap();
    }
}
