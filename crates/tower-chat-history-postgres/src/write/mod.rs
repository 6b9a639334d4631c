//! Calls that write. An append, a compaction and a deletion are each a function in the database, and one round trip.
//! Truncating and pruning are rarer: each is a transaction that applies the core crate's rules.

mod append;
mod compact;
mod compactions;
mod delete;
mod prune;
mod truncate;

pub(crate) use self::{
    append::{AppendRequest, append},
    compact::compact,
    delete::delete,
    prune::prune,
    truncate::truncate,
};
