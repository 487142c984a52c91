use windlass::{Reconciler, k8s::core::v1::Secret};
use windlass::{k8s::core::v1::ConfigMap, prelude::*};

struct OfSecrets;

impl Reconciler<Secret> for OfSecrets {
    type Error = windlass::Error;

    async fn reconcile(&self, _: Arc<Secret>, _: Context) -> windlass::Result<Action> {
        Ok(Action::await_change())
    }
}

fn main() {}

fn add(manager: &mut Manager) {
    //~ `OfSecrets` is not a reconciler for `ConfigMap`
    //~ or a type implementing `Reconciler<ConfigMap>`
    manager.add(Controller::<ConfigMap>::new().reconcile(OfSecrets));
}
