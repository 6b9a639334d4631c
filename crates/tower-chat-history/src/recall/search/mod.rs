//! Searching: from a query to ranked messages.

mod counted;
mod query;
mod ranking;
mod scorer;
mod terms;

pub(crate) use self::{
    counted::{Counted, evidence},
    scorer::Scoring,
    terms::{Document, ExchangeTerms},
};
pub use self::{
    query::Query,
    ranking::{Hit, Ranking, Search},
    terms::LogTerms,
};
