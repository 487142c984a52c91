use windlass::{DynamicObject, prelude::*};

fn main() {}

fn controller() -> Controller<DynamicObject> {
    //~ `DynamicObject` does not say of which kind it is
    //~ objects of kinds that are known only at run time are watched by `Watch::dynamic(resource)`
    Controller::<DynamicObject>::new()
}
