//! Lists that are read in several pages.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{
    Stream,
    stream::{BoxStream, StreamExt, TryStreamExt, try_unfold},
};
use windlass_api::{Object, ObjectList};

use super::{
    into_future,
    read::{List, Page, PageItem},
};
use crate::Result;

/// The default number of objects per page, as in client-go's pager.
const PAGE_SIZE: u32 = 500;

/// Lists all objects, page by page.
#[must_use = "nothing is sent before `.await`"]
pub struct Paged<K> {
    list: List<K>,
}

/// A stream of the objects of a list. The stream ends after an error. Dropping it cancels the current request.
#[must_use = "nothing is sent before it is polled"]
pub struct Items<K>(BoxStream<'static, Result<K>>);

into_future! {
    Paged => ObjectList<K>;
}

impl<K: Object> List<K> {
    /// Lists all objects in pages of [`Self::limit`] objects, by default 500, so that no single response is large.
    ///
    /// If the server has discarded the resource version of the first page meanwhile, the whole list is requested again
    /// in a single response.
    pub fn paged(self) -> Paged<K> {
        Paged { list: self }
    }

    /// Streams all objects as they arrive, in pages of [`Self::limit`] objects, by default 500. Neither the list nor a
    /// page is ever held in memory as a whole.
    ///
    /// Nothing is prefetched: the next page is requested after the last object of the previous page was taken. A slow
    /// consumer slows down the response. If the server discards the resource version of the first page meanwhile, the
    /// stream ends with an error for which [`Error::is_expired`](crate::Error::is_expired) returns `true`. The objects
    /// received until then are not sent again.
    ///
    /// ```
    /// # use futures::TryStreamExt as _;
    /// # use windlass_api::{ObjectExt as _, k8s_openapi::api::core::v1::Pod};
    /// # use windlass_client::{Client, Result};
    /// # async fn names(client: Client) -> Result<()> {
    /// let mut pods = client.list::<Pod>().items();
    /// while let Some(pod) = pods.try_next().await? {
    ///     println!("{}", pod.name());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn items(self) -> Items<K> {
        let first = Place::NotBegun(self.in_pages());
        let items = try_unfold(first, |mut place| async move {
            loop {
                place = match place {
                    Place::NotBegun(list) => Place::Within(Box::new(list.open().await?), list),
                    Place::Within(mut page, list) => match page.next().await? {
                        PageItem::Object(object) => return Ok(Some((object, Place::Within(page, list)))),
                        PageItem::End(metadata) => match metadata.continue_token {
                            Some(token) => Place::NotBegun(list.after(token)),
                            None => return Ok(None),
                        },
                    },
                };
            }
        });
        Items(items.boxed())
    }

    fn in_pages(mut self) -> Self {
        self.options.limit.get_or_insert(PAGE_SIZE);
        self
    }

    /// Requests the page of a token. The request must not contain a resource version, because the token contains one.
    fn after(mut self, token: String) -> Self {
        self.options.continue_token = Some(token);
        self.options.resource_version = None;
        self.options.version_match = None;
        self
    }
}

/// The position of a stream of items.
enum Place<K> {
    /// Before a page.
    NotBegun(List<K>),
    /// In a page of that list.
    Within(Box<Page<K>>, List<K>),
}

impl<K: Object> Paged<K> {
    async fn send(self) -> Result<ObjectList<K>> {
        let mut all = self.list.clone().in_pages().send().await?;
        while let Some(token) = all.metadata.continue_token.take() {
            match self.list.clone().in_pages().after(token).send().await {
                Ok(page) => {
                    all.items.extend(page.items);
                    all.metadata.continue_token = page.metadata.continue_token;
                    all.metadata.remaining = page.metadata.remaining;
                }
                Err(error) if error.is_expired() => {
                    let mut whole = self.list;
                    whole.options.limit = None;
                    return whole.send().await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

impl<K> Stream for Items<K> {
    type Item = Result<K>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.try_poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for Items<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
