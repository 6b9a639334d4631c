//! The index of a message, and the dialect that read it.

use std::sync::OnceLock;

use super::dialect::{Dialect, Index};

/// The index of a message.
pub(super) enum LazyIndex {
    /// Read when the message was created.
    Read(Indexed),
    /// Empty as long as nobody knows the dialect.
    ReadLater(OnceLock<Indexed>),
}

pub(super) struct Indexed {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) index: Index,
}

impl LazyIndex {
    #[inline]
    pub(super) fn get(&self) -> Option<&Indexed> {
        match self {
            Self::Read(indexed) => Some(indexed),
            Self::ReadLater(indexed) => indexed.get(),
        }
    }

    /// Sets the index if there is none yet.
    pub(super) fn set(&self, dialect: &'static dyn Dialect, index: Index) {
        if let Self::ReadLater(indexed) = self {
            indexed.get_or_init(|| Indexed { dialect, index });
        }
    }
}
