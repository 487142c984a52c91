//! Informers for programs without a manager.

use std::sync::Arc;

use windlass_api::ListWatch;
use windlass_cache::{InformerFactory, InformerOptions};
use windlass_client::Client;

/// Returns a factory of shared informers that list and watch through a client. The counterpart of client-go's
/// `NewSharedInformerFactory`.
///
/// Requests for the same kind, namespace and selectors return the same informer. Create informers and add handlers
/// first, then start the factory and wait until the caches have synced:
///
/// ```no_run
/// use windlass::{Client, cache::{InformerOptions, Notification}, informer_factory, k8s::core::v1::Pod};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::try_default().await?;
/// let factory = informer_factory(&client, InformerOptions::default());
/// let pods = factory.informer::<Pod>();
/// let _registration = pods.add_handler(|notification: Notification<Pod>| println!("{}", notification.key()));
/// factory.start();
/// factory.wait_for_sync().await?;
/// println!("{} pods", pods.store().len());
/// # Ok(())
/// # }
/// ```
///
/// A [manager](crate::Manager) has its own factory, which its controllers share.
#[must_use]
pub fn informer_factory(client: &Client, options: InformerOptions) -> InformerFactory {
    let client = client.clone();
    let list_watch = move |resource: &_, namespace: Option<&str>| {
        Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>
    };
    InformerFactory::new(list_watch, options)
}
