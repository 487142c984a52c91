use windlass::{k8s::apps::v1::Deployment, k8s::core::v1::ConfigMap, prelude::*};

async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> windlass::Result<Action> {
    let deployment = deployment_for(&config).controlled_by(&*config);
    cx.client().apply(&deployment).await?;
    Ok(Action::await_change())
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let mut manager = Manager::try_default().await?;
    manager.add(Controller::<ConfigMap>::new().owns::<Deployment>().reconcile(reconcile));
    manager.run(shutdown::signal()).await
}

fn deployment_for(_: &ConfigMap) -> Deployment {
    Deployment::default()
}
