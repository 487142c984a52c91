//! Runs a shared informer of the pods in the default namespace until Ctrl-C. A handler prints added, updated and
//! deleted pods.

use windlass::{
    Client,
    cache::{Callbacks, DeletedState, InformerOptions, InitialList},
    informer_factory,
    k8s::core::v1::Pod,
    shutdown,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1. a client, 2. a factory, 3. an informer, 4. its handlers, 5. start, 6. wait for the caches.
    let client = Client::try_default().await?;
    let factory = informer_factory(&client, InformerOptions::default()).within("default");
    let pods = factory.informer::<Pod>();
    let handlers = Callbacks::new()
        .on_add(|pod, initial| {
            let when = if initial == InitialList::Yes { " (initial list)" } else { "" };
            println!("ADDED {}{when}", pod.key());
        })
        .on_update(|old, new| match (old.get(), new.get()) {
            (Ok(old), Ok(new_pod)) => println!("UPDATED {}: {} -> {}", new.key(), phase(&old), phase(&new_pod)),
            (Err(error), _) | (_, Err(error)) => println!("UPDATED {}: cannot decode it: {error}", new.key()),
        })
        .on_delete(|gone| {
            let last = if gone.state == DeletedState::Unknown { " (the last state is unknown)" } else { "" };
            println!("DELETED {}{last}", gone.object.key());
        });
    let registration = pods.add_handler(handlers);
    factory.start();
    factory.wait_for_sync().await?;
    // The handler has also seen the initial list.
    registration.has_synced().await?;
    println!("SYNCED {} pods", pods.store().len());

    shutdown::signal().await;
    factory.shutdown().await;
    Ok(())
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("?")
}
