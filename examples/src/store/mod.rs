//! Where history is kept, as the command line says it: one URL chooses the store.

mod open;
mod url;

pub use self::{
    open::OpenStoreError,
    url::{StoreUrl, StoreUrlError, StoreUrlParser},
};
