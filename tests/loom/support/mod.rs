//! What the models share: the explorer that counts executions, and the worlds of an index and of a
//! whole cache.

pub mod engine_world;
pub mod explore;
pub mod flights;
pub mod index_world;
