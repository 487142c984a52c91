//! Buffers of threads, for copies of bodies that are read once.

use std::cell::RefCell;

/// The number of idle buffers of a thread. Two objects are compared with two buffers.
const IDLE: usize = 2;

/// Larger buffers are not retained.
const LARGEST: usize = 64 << 10;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `with` with an empty buffer. Calls may be nested.
pub(crate) fn with_buffer<T>(with: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A thread that ends has no idle buffers anymore.
    let idle = BUFFERS.try_with(|buffers| buffers.borrow_mut().pop());
    let mut buffer = idle.ok().flatten().unwrap_or_default();
    let result = with(&mut buffer);
    if buffer.capacity() <= LARGEST {
        buffer.clear();
        let _ = BUFFERS.try_with(|buffers| {
            let mut buffers = buffers.borrow_mut();
            if buffers.len() < IDLE {
                buffers.push(buffer);
            }
        });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_empty() {
        let used = with_buffer(|buffer| {
            buffer.extend_from_slice(&[7; 1_000]);
            with_buffer(|other| other.extend_from_slice(&[8; 10]));
            buffer.as_ptr() as usize
        });
        with_buffer(|buffer| {
            assert!(buffer.is_empty());
            assert_eq!(buffer.as_ptr() as usize, used);
            with_buffer(|other| assert!(other.is_empty() && other.capacity() >= 10));
        });
        with_buffer(|buffer| buffer.reserve(LARGEST + 1));
        with_buffer(|buffer| assert!(buffer.capacity() <= LARGEST));
    }
}
