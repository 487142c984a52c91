//! Reflector, event queue, indexer and shared informers over encoded objects
