//! Settings as data: reading them from any format of `serde`, and the errors of settings that cannot be used.
//!
//! The options of this library's crates are data of serde behind their features `config`. A program puts those that it
//! needs into a struct of its own, and [reads](read) it from a file.
//!
//! Names of settings end in their unit: `_ms` for milliseconds, `_bytes`, `_tokens`, `_percent`. A setting that is
//! missing has the default of the option. An unknown name is an error. So is a name that is set twice, and a value that
//! would set nothing, such as `null` or `inf`.

mod error;
pub mod field;
mod read;
mod secret;
mod strict;

pub use self::{error::ConfigError, read::read, secret::Secret};
