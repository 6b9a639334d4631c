//! Calls that write. An append, a compaction and a change of attachments are one script each. A deletion, a truncation
//! and a prune may take several steps.

mod append;
mod attach;
mod compact;
mod delete;
mod prune;
mod remaining;
mod sweep;
mod truncate;

pub(crate) use self::{
    append::append, attach::attach, compact::compact, delete::delete, prune::prune, truncate::truncate,
};
