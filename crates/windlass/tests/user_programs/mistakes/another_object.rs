use windlass::k8s::core::v1::Secret;
use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

async fn reconcile(_: Arc<Secret>, _: Context) -> windlass::Result<Action> {
    Ok(Action::await_change())
}

fn add(manager: &mut Manager) {
    //~ Arc<ConfigMap>, windlass::Context) -> _`
    //~ Secret>, windlass::Context) -> _`
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
}
