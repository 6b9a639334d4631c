//! Calls that write. An append and a compaction are one script each. A deletion, a truncation and a prune may take
//! several steps.

mod append;
mod compact;
mod contention;
mod delete;
mod prune;
mod remaining;
mod sweep;
mod truncate;

pub(crate) use self::{append::append, compact::compact, delete::delete, prune::prune, truncate::truncate};
