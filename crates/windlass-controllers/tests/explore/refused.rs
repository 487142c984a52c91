//! Writes that the server refuses with a conflict although nothing has changed, as an admission webhook can.

use k8s_openapi::{api::batch::v1::Job, serde_json::json};
use windlass_api::{ObjectExt, Resource as _, Status};
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::{Environment, RequestMatcher, Verb};

use crate::running::{create_job, finish_job};

#[tokio::test(start_paused = true)]
async fn refused_write_is_repeated_without_an_event() {
    let env = Environment::start().await;
    let client = env.client();
    create_job(&client, json!({"ttlSecondsAfterFinished": 5})).await.unwrap();
    finish_job(&client).await.unwrap();
    let conflict = Status::modified(&Job::api_resource().group_resource(), "job");
    let refused = env.on(RequestMatcher::any().verb(Verb::Delete).of::<Job>()).once().fail(conflict);
    let mut manager = env.manager();
    Controllers::of([BuiltIn::TtlAfterFinished]).add_to(&mut manager);
    env.run(manager);
    env.eventually::<Job>("job", ObjectExt::is_deleting).await;
    assert_eq!(refused.hits(), 1);
    env.stop().await.unwrap();
}
