use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

struct Refused;

async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action, Refused> {
    Ok(Action::await_change())
}

fn add(manager: &mut Manager) {
    //~ is not a reconciler for `ConfigMap`
    //~ where `E` is an error, such as `windlass::Error`
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
}
