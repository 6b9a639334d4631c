//! Stores by URL, for the command line.

mod open;
mod url;

pub use self::{
    open::OpenStoreError,
    url::{StoreUrl, StoreUrlError, StoreUrlParser},
};
