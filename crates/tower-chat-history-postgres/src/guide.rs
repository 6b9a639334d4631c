//! Documentation pages. These modules contain no code.

#[doc = include_str!("../docs/costs.md")]
pub mod costs {}
#[doc = include_str!("../docs/durability.md")]
pub mod durability {}
#[doc = include_str!("../docs/erasure.md")]
pub mod erasure {}
#[doc = include_str!("../docs/failures.md")]
pub mod failures {}
#[doc = include_str!("../docs/rights.md")]
pub mod rights {}
#[doc = include_str!("../docs/schema.md")]
pub mod schema {}
#[doc = include_str!("../docs/settings.md")]
pub mod settings {}
#[doc = include_str!("../docs/tls.md")]
pub mod tls {}
