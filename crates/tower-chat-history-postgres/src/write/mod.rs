//! The calls that write. Appends, compactions and deletions are a function in the database each, one round trip; editing a
//! log is rarer, and is a transaction that asks the core crate's rules.

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
