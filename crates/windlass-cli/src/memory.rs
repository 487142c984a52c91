//! Returns freed memory to the system.
//!
//! The allocator keeps freed pages for a second, and checks their age only when it frees another page. A server that
//! becomes idle after a large request would keep the memory of that request.

use std::{hint::black_box, time::Duration};

/// The time between two checks.
const PERIOD: Duration = Duration::from_secs(5);

/// A block of this size has a page of its own, which is freed with it. Its memory is never touched.
const BLOCK: usize = 1 << 20;

/// Makes the allocator return the pages that have been free for a second, until the future is dropped.
pub(crate) async fn return_freed_pages() {
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(BLOCK)));
    }
}
