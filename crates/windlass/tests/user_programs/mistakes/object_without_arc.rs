use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

async fn reconcile(_: ConfigMap, _: Context) -> windlass::Result<Action> {
    Ok(Action::await_change())
}

fn add(manager: &mut Manager) {
    //~ expected function signature `fn(Arc<ConfigMap>, windlass::Context) -> _`
    //~ found function signature `fn(ConfigMap, windlass::Context) -> _`
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
}
