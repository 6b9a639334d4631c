//! Calls that read. The answer of a load, a page or a description comes from one script, and has one state of the
//! conversation. Other calls check that it did not change between their steps.

mod attachments;
mod describe;
mod limited;
mod load;
mod page;
mod pick;

pub(crate) use self::{
    attachments::attachments,
    describe::{describe, describe_all, labels},
    load::load,
    page::page,
    pick::pick,
};
