//! What the examples share: where the model is, where history is kept, what counts tokens, and what makes summaries.

mod counter;
mod extract;
mod provider;
mod store;

pub use self::{
    counter::Counter,
    extract::Extract,
    provider::{Provider, ProviderError},
    store::{OpenStoreError, StoreUrl, StoreUrlError, StoreUrlParser},
};

/// The program in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
