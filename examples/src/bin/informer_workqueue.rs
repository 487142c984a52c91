//! Runs an informer, a work queue and three workers until Ctrl-C. Handlers add the keys of pods to the queue. Workers
//! take keys and read the newest state from the cache.

use windlass::{
    Client, ObjectRef, WorkQueue,
    cache::{DecodeError, InformerOptions, Lister, Notification},
    informer_factory,
    k8s::core::v1::Pod,
    shutdown,
};

type Key = ObjectRef<Pod>;

const WORKERS: usize = 3;
/// The maximum number of retries. After that, a key is dropped until its pod changes.
const MAX_RETRIES: u32 = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let factory = informer_factory(&client, InformerOptions::default()).within("default");
    let pods = factory.informer::<Pod>();

    // The producer: every event of a pod adds its key to the queue. A key that is already queued is not added again.
    let queue = WorkQueue::<Key>::builder().name("pods").build();
    let producer = queue.clone();
    let registration = pods.add_handler(move |event: Notification<Pod>| producer.add(event.object().object_ref()));
    factory.start();
    factory.wait_for_sync().await?;
    registration.has_synced().await?;

    // The consumers start when the cache is complete: a key without an object is a deleted pod.
    let workers: Vec<_> =
        (1..=WORKERS).map(|number| tokio::spawn(run_worker(number, queue.clone(), pods.store()))).collect();
    println!("SYNCED {} pods, {WORKERS} workers", pods.store().len());

    shutdown::signal().await;
    queue.shut_down_with_drain().await;
    for worker in workers {
        worker.await?;
    }
    factory.shutdown().await;
    Ok(())
}

/// Takes keys until the queue is shut down and empty.
async fn run_worker(number: usize, queue: WorkQueue<Key>, pods: Lister<Pod>) {
    while let Some(key) = queue.get().await {
        match sync(&pods, &key) {
            Ok(state) => {
                println!("worker {number}: {key} {state}");
                queue.forget(&key);
            }
            Err(error) if queue.num_requeues(&key) < MAX_RETRIES => {
                println!("worker {number}: {key} failed, retried later: {error}");
                queue.add_rate_limited(key.clone());
            }
            Err(error) => {
                println!("worker {number}: {key} given up: {error}");
                queue.forget(&key);
            }
        }
        queue.done(&key);
    }
}

/// The business logic: reads the newest state of one pod from the cache.
fn sync(pods: &Lister<Pod>, key: &Key) -> Result<String, DecodeError> {
    let Some(pod) = pods.get(key) else { return Ok("is gone".to_owned()) };
    let pod = pod.get()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    Ok(format!("is {}", phase.unwrap_or("without a phase")))
}
