//! Searching: from a query to ranked messages.

mod parts;
mod query;
mod ranking;
mod scorer;

pub use self::{
    query::Query,
    ranking::{Hit, Ranking, Search},
};
