//! Searching: from a query to ranked messages.

mod counted;
mod parts;
mod query;
mod ranking;
mod scorer;

pub(crate) use self::counted::{Counted, evidence};
pub use self::{
    query::Query,
    ranking::{Hit, Ranking, Search},
};
