use windlass::{k8s::core::v1::ConfigMap, prelude::*};

fn main() {}

fn controller() -> Controller<ConfigMap> {
    //~ does not say of which kind it is
    //~ a type of your own says so with `#[derive(windlass::Resource)]`
    Controller::<ConfigMap>::new().owns::<String>()
}
