//! The sealed forms of the values that a store keeps.

mod attachment;
mod compaction;
mod exchange;
mod labels;
mod opener;

pub(crate) use self::{
    attachment::{open_attachment, seal_attachment},
    compaction::{open_compaction, seal_compact},
    exchange::{open_exchange, seal_exchange},
    labels::{open_labels, seal_labels},
    opener::Opener,
};
