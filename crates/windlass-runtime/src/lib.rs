//! Manager, controllers and workers
