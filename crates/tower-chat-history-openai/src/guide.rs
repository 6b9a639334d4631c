//! Documentation pages. These modules contain no code.

#[cfg(feature = "client")]
#[doc = include_str!("../docs/client-requests.md")]
pub mod client_requests {}
#[cfg(feature = "client")]
#[doc = include_str!("../docs/client-responses.md")]
pub mod client_responses {}
#[doc = include_str!("../docs/provider-fields.md")]
pub mod provider_fields {}
#[doc = include_str!("../docs/types.md")]
pub mod types {}
