//! `CachedStore`: it answers like its inner store, even if others write to that store.

mod erase;
mod failover;
mod interleaved;
mod kept;
mod late;
mod memory;
mod same;
mod support;
