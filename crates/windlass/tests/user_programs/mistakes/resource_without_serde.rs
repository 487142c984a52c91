use windlass::{Resource, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta, prelude::*};

#[derive(Clone, Debug, Default, Resource)]
#[resource(group = "example.com", version = "v1")]
struct Website {
    metadata: ObjectMeta,
}

fn main() {}

fn controller() -> Controller<Website> {
    //~ `Website` does not say of which kind it is
    //~ and is `Serialize`, `Deserialize`, `Clone` and `Debug`
    Controller::<Website>::new()
}
