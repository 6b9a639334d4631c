//! What the examples share: where the model is, where history is kept, and what counts tokens.

mod counter;
mod provider;
mod store;

pub use self::{
    counter::Counter,
    provider::{Provider, ProviderError},
    store::{StoreUrl, StoreUrlError},
};

/// The program in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
