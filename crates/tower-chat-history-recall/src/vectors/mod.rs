//! Vectors of passages, for a search by meaning.

mod block;
mod quantized;

pub use self::{block::VectorBlock, quantized::Vector};
