//! Room for recursion: expressions are nested as deep as their authors like, and threads of a server have small stacks.

use std::{io, thread};

/// The stack of a thread for what is deep, in bytes; only what is used of it is taken.
const ROOM: usize = 128 << 20;

/// Runs something where there is room for deep recursion.
///
/// # Errors
/// When there can be no more threads.
pub(crate) fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(ROOM).spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("the evaluation of an expression panicked"))
    })
}
