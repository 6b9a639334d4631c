//! Calls that write. A compaction and an append to a conversation that exists are one script each. An append or a fork
//! that creates a conversation takes several steps. A truncation, a prune and a fork then remove what they cut off in
//! small steps.

mod append;
mod cut;
mod fork;
mod replace;

pub(crate) use self::{
    append::append,
    cut::{prune, truncate},
    fork::fork,
    replace::{compact, set_labels},
};
