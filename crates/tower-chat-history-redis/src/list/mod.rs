//! Listings and labels.

mod describe;
mod labels;
mod page;

pub(crate) use self::{
    describe::{describe, describe_all},
    labels::set_labels,
    page::list,
};
