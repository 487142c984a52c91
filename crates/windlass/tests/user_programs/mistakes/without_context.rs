use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

async fn reconcile(_: Arc<ConfigMap>) -> windlass::Result<Action> {
    Ok(Action::await_change())
}

fn add(manager: &mut Manager) {
    //~ function is expected to take 2 arguments, but it takes 1 argument
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
}
