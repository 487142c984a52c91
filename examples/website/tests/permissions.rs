//! The role in `config/rbac` allows the requests of the controller.

use website_operator::{
    api::{READY, Website},
    controller::controller,
};
use windlass::{
    ObjectBuilder as _, Patch,
    api::Conditions as _,
    envtest::Environment,
    k8s::{apps::v1::Deployment, core::v1::Event},
};

#[tokio::test(start_paused = true)]
async fn role_allows_the_calls_of_the_controller() -> Result<(), Box<dyn std::error::Error>> {
    let env = Environment::builder().crds("config/crd/bases").start().await?;
    let permissions = env.permissions_from("config/rbac/role.yaml")?;
    let mut manager = env.manager_of(permissions.client());
    manager.add(controller());
    env.run(manager);

    let website = Website::named("shop").in_namespace("default").with(|website| {
        website.spec.greeting = "Hello".to_owned();
        website.spec.image = Some("nginx".to_owned());
        website.spec.replicas = Some(1);
    });
    env.client().create(&website).await?;
    env.eventually::<Deployment>("shop", |_| true).await;
    let ready = serde_json::json!({"status": {"replicas": 1, "readyReplicas": 1}});
    env.client().patch::<Deployment>("shop", Patch::Merge(ready)).subresource("status").await?;
    let is_ready = |website: &Website| website.status.as_ref().is_some_and(|status| status.conditions.is_true(READY));
    env.eventually::<Website>("shop", is_ready).await;
    env.eventually_all::<Event>(|events| events.iter().any(|event| event.reason.as_deref() == Some("Serving"))).await;
    env.client().delete::<Website>("shop").await?;
    env.eventually_gone::<Website>("shop").await;
    // The rest is for installing, webhooks and the election.
    let unused = permissions.check()?;
    assert!(unused.iter().all(|line| !line.contains("create events of the core group")), "{unused:#?}");
    Ok(env.stop().await?)
}
