//! Code that the programs share: figures of a process, and the objects of the controllers.

pub mod process;
pub mod widget;
