//! One binary for the whole suite: linking is what takes the time.

mod errors;
mod loops;
