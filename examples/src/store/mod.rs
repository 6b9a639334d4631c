//! Stores by URL, for the command line.

mod open;
mod url;

pub use self::{
    open::{AnyStore, OpenStoreError},
    url::{StoreUrl, StoreUrlError, StoreUrlParser},
};
