//! The names of stored records.

use std::fmt;

/// The version of the format of blocks and segments.
pub(super) const FORMAT: u8 = 1;

/// The name of a record of the index, next to the positions of the exchanges that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordName {
    /// A block, `all`.
    Block,
    /// A table of a segment, `b00` to `b63`.
    Bucket(u8),
    /// The documents of a segment, `docs`.
    Documents,
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("all"),
            Self::Bucket(bucket) => write!(f, "b{bucket:02}"),
            Self::Documents => f.write_str("docs"),
        }
    }
}
