//! The sealed forms of the values that a store keeps.

mod compaction;
mod exchange;
mod labels;
mod opener;

pub(crate) use self::{
    compaction::{open_compaction, seal_compact},
    exchange::{open_exchange, seal_exchange},
    labels::{open_labels, seal_labels},
    opener::Opener,
};
