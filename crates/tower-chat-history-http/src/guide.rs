//! Documentation pages. These modules contain no code.

#[doc = include_str!("../docs/requests.md")]
pub mod requests {}
#[doc = include_str!("../docs/responses.md")]
pub mod responses {}
