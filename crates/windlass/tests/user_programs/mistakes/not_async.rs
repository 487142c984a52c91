use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

fn reconcile(_: Arc<ConfigMap>, _: Context) -> windlass::Result<Action> {
    Ok(Action::await_change())
}

fn add(manager: &mut Manager) {
    //~ is not a reconciler for `ConfigMap`
    //~ an `async fn(Arc<ConfigMap>, Context) -> Result<Action, E>`
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
}
