//! A first informer with a few objects before the measurement. It loads the program's own pages, which are not a cost
//! of objects.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use windlass_api::{
    ApiResource, BoxError, ListItem, ListMeta, ListOptions, ListWatch, ListWatchError, Object, RawEvent, WatchOptions,
};
use windlass_cache::{InformerOptions, SharedInformer};

/// The number of objects: too few to train a dictionary, whose memory the allocator would reuse.
const FEW: u32 = 4;

/// Syncs an informer of the first few objects, and drops it.
pub(super) async fn warm_up<K: Object>(
    resource: ApiResource,
    list_watch: Arc<dyn ListWatch>,
    options: InformerOptions,
) -> Result<(), BoxError> {
    let informer = SharedInformer::<K>::for_resource(resource, Arc::new(FirstPage(list_watch)), options);
    let registration = informer.add_handler(|notification| {
        std::hint::black_box(&notification);
    });
    let running = tokio::spawn(informer.clone().run(std::future::pending()));
    registration.has_synced().await?;
    running.abort();
    // The informer ends by cancellation, which is not an error.
    let _ = running.await;
    Ok(())
}

/// Lists only a few objects, and never sends an event.
#[derive(Debug)]
struct FirstPage(Arc<dyn ListWatch>);

impl ListWatch for FirstPage {
    fn list(
        &self,
        options: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>> {
        let options = ListOptions { limit: Some(FEW), resource_version: None, ..options };
        async move {
            let items = self.0.list(options).await?;
            let cut = items.map(|item| match item? {
                ListItem::End(meta) => {
                    Ok(ListItem::End(ListMeta { resource_version: meta.resource_version, ..ListMeta::default() }))
                }
                object @ ListItem::Object(_) => Ok(object),
            });
            Ok(cut.boxed())
        }
        .boxed()
    }

    fn watch(
        &self,
        _: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>> {
        async { Ok(stream::pending().boxed()) }.boxed()
    }
}
