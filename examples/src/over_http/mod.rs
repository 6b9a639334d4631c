//! Calls of a provider over HTTP, without an SDK.

mod api;
mod client;
mod provider;
mod texts;

pub use self::{
    api::HttpApi,
    client::{HttpClient, client},
    provider::HttpProvider,
    texts::texts,
};
