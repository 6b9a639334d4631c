//! Vectors of passages, for a search by meaning.

mod block;
mod quantized;

pub(crate) use self::block::Nearest;
pub use self::{block::VectorBlock, quantized::Vector};
