//! Documentation pages. These modules contain no code.

#[doc = include_str!("../../docs/http/requests.md")]
pub mod requests {}
#[doc = include_str!("../../docs/http/responses.md")]
pub mod responses {}
