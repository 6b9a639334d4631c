//! What the examples share: where the model is, and where history is kept.

mod provider;
mod store;

pub use self::{
    provider::{Provider, ProviderError},
    store::{StoreUrl, StoreUrlError},
};

/// The program in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
