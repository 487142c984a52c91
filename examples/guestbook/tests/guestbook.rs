//! Tests of the guestbook operator.

use guestbook::{Guestbook, GuestbookStatus, controller};
use windlass::{ObjectBuilder as _, api::ErrorChain, envtest::Environment, k8s::core::v1::ConfigMap};

#[tokio::test(start_paused = true)]
async fn guestbook_gets_a_page() -> Result<(), Box<dyn std::error::Error>> {
    let env = Environment::start().await;
    env.define::<Guestbook>().await;
    let mut manager = env.manager();
    manager.add(controller());
    env.run(manager);

    let mut book = Guestbook::named("lobby").in_namespace("default");
    book.spec.entries = vec!["hello".into()];
    env.client().create(&book).await?;
    let page = env.eventually::<ConfigMap>("lobby", |_| true).await;
    assert_eq!(page.data.unwrap()["index.html"], "<h1>Guestbook</h1><ul><li>hello</li></ul>");
    env.eventually::<Guestbook>("lobby", |book| book.status == Some(GuestbookStatus { entries: 1 })).await;

    // A deleted page is created again.
    let first = page.metadata.uid;
    env.client().delete::<ConfigMap>("lobby").await?;
    env.eventually::<ConfigMap>("lobby", |page| page.metadata.uid != first).await;
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn title_over_80_characters_is_rejected() -> Result<(), Box<dyn std::error::Error>> {
    let env = Environment::start().await;
    env.define::<Guestbook>().await;

    let mut loud = Guestbook::named("loud").in_namespace("default");
    loud.spec.title = "!".repeat(81);
    let refused = env.client().create(&loud).await.unwrap_err();
    let reason = ErrorChain(&refused).to_string();
    assert!(reason.contains("spec.title: Too long: may not be more than 80 bytes"), "{reason}");
    Ok(env.stop().await?)
}
