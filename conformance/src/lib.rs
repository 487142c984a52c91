//! One suite, two targets.
