use windlass::prelude::*;

fn main() {}

fn add(manager: &mut Manager) {
    //~ cannot be added to a `Manager`
    //~ other work is a `Task`
    manager.add(async { Ok::<_, windlass::Error>(()) });
}
