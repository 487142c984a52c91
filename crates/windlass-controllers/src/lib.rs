//! The built-in controllers and a node simulator, on the public API only
