use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

fn add(manager: &mut Manager) {
    //~ `NoReconciler` is not a reconciler for `ConfigMap`
    //~ give the controller one with `.reconcile(..)`: an `async fn(Arc<ConfigMap>, Context) -> Result<Action, E>`
    manager.add(Controller::<ConfigMap>::new());
}
