//! Calls that write. A compaction and an append to a conversation that exists are one script each. An append that
//! creates a conversation takes several steps. A truncation and a prune then remove what they cut off in small steps.

mod append;
mod compact;
mod prune;
mod sweep;
mod truncate;

pub(crate) use self::{append::append, compact::compact, prune::prune, truncate::truncate};
