//! Providers for the tests of this workspace.

pub mod formats;
pub mod signing;
