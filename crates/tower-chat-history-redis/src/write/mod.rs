//! Calls that write. An append to a conversation that exists, a compaction and a change of attachments are one script
//! each. An append that creates a conversation, a truncation and a prune take several steps.

mod append;
mod attach;
mod compact;
mod prune;
mod remaining;
mod sweep;
mod truncate;

pub(crate) use self::{append::append, attach::attach, compact::compact, prune::prune, truncate::truncate};
