//! Storages of tests that change another one.

use std::fmt;

use futures::future::BoxFuture;

use super::super::{
    Change, CommitError, Committed, CompactRange, EventStream, Expect, Range, RangeQuery, Revision, Storage,
    StorageError, StoredValue,
};

/// A storage of a test that forwards to another one, except for the methods that it overrides. Each has the contract of
/// the method of [`Storage`] with the same name.
///
/// The methods with a default in [`Storage`] that call another method keep it, so that they call the overridden ones.
///
/// Don't import it beside [`Storage`]: calls of the methods would be ambiguous. Write `impl suite::Forward for …`.
pub trait Forward: fmt::Debug + Send + Sync + 'static {
    /// Returns the other storage.
    fn below(&self) -> &dyn Storage;

    /// Forwards [`Storage::revision`].
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.below().revision()
    }

    /// Forwards [`Storage::get`].
    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        self.below().get(key, at)
    }

    /// Forwards [`Storage::range`].
    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        self.below().range(query)
    }

    /// Returns the values of [`Self::range`], as [`Storage::range_compact`] does by default.
    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        Box::pin(async move { Ok(self.range(query).await?.into()) })
    }

    /// Forwards [`Storage::commit`].
    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        self.below().commit(key, expect, change)
    }

    /// Forwards [`Storage::watch`].
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        self.below().watch(prefix, after)
    }

    /// Forwards [`Storage::shares_values`].
    fn shares_values(&self) -> bool {
        self.below().shares_values()
    }

    /// Forwards [`Storage::is_shared`].
    fn is_shared(&self) -> bool {
        self.below().is_shared()
    }

    /// Forwards [`Storage::request_progress`].
    fn request_progress(&self) {
        self.below().request_progress();
    }

    /// Forwards [`Storage::compact`].
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.below().compact(upto)
    }
}

impl<F: Forward> Storage for F {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        Forward::revision(self)
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        Forward::get(self, key, at)
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        Forward::range(self, query)
    }

    fn range_compact(&self, query: RangeQuery) -> BoxFuture<'_, Result<CompactRange, StorageError>> {
        Forward::range_compact(self, query)
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        Forward::commit(self, key, expect, change)
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        Forward::watch(self, prefix, after)
    }

    fn shares_values(&self) -> bool {
        Forward::shares_values(self)
    }

    fn is_shared(&self) -> bool {
        Forward::is_shared(self)
    }

    fn request_progress(&self) {
        Forward::request_progress(self);
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        Forward::compact(self, upto)
    }
}
