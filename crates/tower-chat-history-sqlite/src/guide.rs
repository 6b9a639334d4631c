//! Documentation pages. These modules contain no code.

#[doc = include_str!("../docs/damage.md")]
pub mod damage {}
#[doc = include_str!("../docs/durability.md")]
pub mod durability {}
#[doc = include_str!("../docs/erasing.md")]
pub mod erasing {}
#[doc = include_str!("../docs/file.md")]
pub mod file {}
#[doc = include_str!("../docs/processes.md")]
pub mod processes {}
