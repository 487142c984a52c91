use windlass::{api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, prelude::*};

#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, windlass::Resource)]
#[resource(group = "example.com", version = "v1")]
struct Website {
    metadata: ObjectMeta,
}

async fn reconcile(_: Arc<Website>, _: Context) -> windlass::Result<Action> {
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let mut manager = Manager::try_default().await?;
    manager.add(Controller::<Website>::new().reconcile(reconcile));
    manager.run(shutdown::signal()).await
}
