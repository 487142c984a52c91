//! The exploration of a rollout. It takes longest, and its name lets it begin first.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Node, Pod},
    },
    serde_json::json,
};
use tokio::time::{Instant, sleep};
use windlass_api::Patch;
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::explore::{StepResult, explore};

use crate::{
    LOOK, PATIENCE, create, of,
    workloads::{pods, spec, template},
};

/// Waits for the first replica set: a template that is replaced before the controller has seen it rightly gets none.
async fn first_template_is_seen(client: &Client) -> StepResult {
    let begun = Instant::now();
    while client.list::<ReplicaSet>().within("default").await?.items.is_empty() {
        if begun.elapsed() > PATIENCE {
            return Err("there is no replica set".into());
        }
        sleep(LOOK).await;
    }
    Ok(())
}

#[test]
fn rollout_ends_with_the_new_pods() {
    let scenario = of(BuiltIn::Deployment)
        .other_controller(|manager| Controllers::of([BuiltIn::ReplicaSet, BuiltIn::Nodes]).nodes(1).add_to(manager))
        .step("two replicas", |client| async move {
            create::<Deployment>(
                &client,
                json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec(2, "a")}),
            )
            .await
        })
        .step("another image", |client| async move {
            first_template_is_seen(&client).await?;
            let image = Patch::Merge(json!({"spec": {"template": template("b")}}));
            client.patch::<Deployment>("web", image).await?;
            Ok(())
        })
        .ignoring::<Node>()
        .ignoring_field::<Pod>("/status")
        .may_churn::<Pod>()
        .settled("there are two pods", pods(2));
    explore(scenario).assert();
}
