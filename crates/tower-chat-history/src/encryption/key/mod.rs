//! Keys, their ids and their errors.

mod error;
mod id;
mod secret;

pub use self::{error::KeyError, id::KeyId, secret::Secret};
