//! Calls that write. Appending, compacting, attaching and deleting are each a function in the database, and one round
//! trip. Truncating and pruning are rarer: each is a transaction that applies the core crate's rules.

mod append;
mod attach;
mod compact;
mod compactions;
mod delete;
mod prune;
mod truncate;

pub(crate) use self::{
    append::{AppendRequest, append},
    attach::attach,
    compact::compact,
    delete::delete,
    prune::prune,
    truncate::truncate,
};
