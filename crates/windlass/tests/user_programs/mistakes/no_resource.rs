use windlass::prelude::*;

#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Website {
    image: String,
}

fn main() {}

fn controller() -> Controller<Website> {
    //~ `Website` does not say of which kind it is
    //~ a type of your own says so with `#[derive(windlass::Resource)]`
    Controller::<Website>::new()
}
