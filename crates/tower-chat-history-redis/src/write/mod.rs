//! Calls that write. An append to a conversation that exists and a compaction are one script each. An append that
//! creates a conversation, a truncation and a prune take several steps.

mod append;
mod compact;
mod prune;
mod remaining;
mod sweep;
mod truncate;

pub(crate) use self::{append::append, compact::compact, prune::prune, truncate::truncate};
