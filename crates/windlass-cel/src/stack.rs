//! Stack space for recursion. Expressions can be deeply nested, and threads of a server have small stacks.

use std::{io, thread};

/// The stack size of a thread for deep expressions in bytes. Memory is only allocated when used.
const LARGE_STACK: usize = 128 << 20;

/// Runs a function on a thread with a large stack.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(crate) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(LARGE_STACK).spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("the evaluation of an expression panicked"))
    })
}
