//! The role in `config/rbac` allows the requests of the controller.

use guestbook::{Guestbook, GuestbookStatus, controller};
use windlass::{ObjectBuilder as _, envtest::Environment, k8s::core::v1::ConfigMap};

#[tokio::test(start_paused = true)]
async fn role_allows_the_requests_of_the_controller() -> Result<(), Box<dyn std::error::Error>> {
    let env = Environment::start().await;
    env.define::<Guestbook>().await;
    let permissions = env.permissions_from("config/rbac/role.yaml")?;
    let mut manager = env.manager_of(permissions.client());
    manager.add(controller());
    env.run(manager);

    let mut book = Guestbook::named("lobby").in_namespace("default");
    book.spec.entries = vec!["hello".into()];
    env.client().create(&book).await?;
    env.eventually::<ConfigMap>("lobby", |_| true).await;
    env.eventually::<Guestbook>("lobby", |book| book.status == Some(GuestbookStatus { entries: 1 })).await;
    permissions.check()?;
    Ok(env.stop().await?)
}
