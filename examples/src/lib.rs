//! Shared parts of the examples: the model provider, the store, token counters, and a summarizer.

mod cli;
mod extract;
mod over_http;
mod provider;
mod store;

pub use self::{
    cli::{Counter, interrupted},
    extract::Extract,
    over_http::{HttpApi, HttpClient, HttpProvider, client, texts},
    provider::{Provider, ProviderError},
    store::{OpenStoreError, StoreUrl, StoreUrlError, StoreUrlParser},
};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
