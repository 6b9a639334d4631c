//! Calls that write. Appending, compacting, forking, labeling and deleting are each a function in the database, and one
//! round trip. Truncating, pruning and erasing are rarer: each is a transaction of several statements.

mod append;
mod compact;
mod delete;
mod erase;
mod fork;
mod labels;
mod prune;
mod scrub;
mod truncate;

pub(crate) use self::{
    append::{AppendRequest, append},
    compact::compact,
    delete::delete,
    erase::{SYSTEM, bar, erase, erase_if},
    fork::fork,
    labels::set_labels,
    prune::prune,
    scrub::scrub,
    truncate::truncate,
};
