//! Lists that are longer than a page.

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

/// How many objects a page holds when nobody says. As Go's pager.
const PAGE_SIZE: u32 = 500;

/// Lists all objects, page by page.
#[must_use = "nothing is sent before `.await`"]
pub struct Paged<K> {
    list: List<K>,
}

/// The objects of a list, one after another. After an error nothing more comes. Dropping it ends the request behind it.
#[must_use = "nothing is sent before it is polled"]
pub struct Items<K>(BoxStream<'static, Result<K>>);

into_future! {
    Paged => ObjectList<K>;
}

impl<K: Object> List<K> {
    /// All that the list holds, in pages of [`Self::limit`] objects, or of 500: no single answer is large.
    ///
    /// When that takes so long that the version of the first page is forgotten, all is asked for again, at once.
    pub fn paged(self) -> Paged<K> {
        Paged { list: self }
    }

    /// All that the list holds, object by object as it arrives, in pages of [`Self::limit`] objects, or of 500: neither the
    /// list nor a page is ever held whole.
    ///
    /// Nothing is fetched ahead: a page is asked for when the one before has been taken, and one that is taken slowly
    /// arrives slowly. When that takes so long that the version of the first page is forgotten, the error is
    /// [`Error::is_expired`](crate::Error::is_expired): what was taken by then cannot be taken back.
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

    /// The page that a token leads to. A server takes no version beside a token, which holds one.
    fn after(mut self, token: String) -> Self {
        self.options.continue_token = Some(token);
        self.options.resource_version = None;
        self.options.version_match = None;
        self
    }
}

/// Where a stream of items is.
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
