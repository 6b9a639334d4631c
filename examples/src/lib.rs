//! Shared parts of the examples: the model provider, the store, token counters, and a summarizer.

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

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
