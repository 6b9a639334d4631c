//! Documentation pages. These modules contain no code.

#[doc = include_str!("../docs/costs.md")]
pub mod costs {}
#[doc = include_str!("../docs/durability.md")]
pub mod durability {}
#[doc = include_str!("../docs/erasing.md")]
pub mod erasing {}
#[doc = include_str!("../docs/failures.md")]
pub mod failures {}
#[doc = include_str!("../docs/layout.md")]
pub mod layout {}
#[doc = include_str!("../docs/memory.md")]
pub mod memory {}
#[doc = include_str!("../docs/rights.md")]
pub mod rights {}
#[doc = include_str!("../docs/tls.md")]
pub mod tls {}
