//! The store that the command line names.

mod open;
mod url;

pub(crate) use self::{
    open::{OpenStoreError, Settings},
    url::StoreUrl,
};
