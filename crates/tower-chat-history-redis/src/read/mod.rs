//! Calls that read. The answer of each comes from one script, and has one state of the conversation.

mod describe;
mod limited;
mod load;
mod page;

pub(crate) use self::{
    describe::{describe, describe_all, labels},
    load::load,
    page::page,
};
