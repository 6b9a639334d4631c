//! Documentation pages. These modules contain no code.

#[cfg(feature = "client")]
#[doc = include_str!("../docs/client-requests.md")]
pub mod client_requests {}
#[cfg(feature = "client")]
#[doc = include_str!("../docs/client-responses.md")]
pub mod client_responses {}
#[doc = include_str!("../docs/providers.md")]
pub mod providers {}
#[doc = include_str!("../docs/types.md")]
pub mod types {}
