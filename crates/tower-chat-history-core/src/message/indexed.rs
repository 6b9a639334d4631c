//! The index of a message, and the dialect that read it.

use std::sync::OnceLock;

use super::dialect::{Dialect, Index};
use crate::role::Role;

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
    pub(super) is_plain: bool,
}

impl Indexed {
    pub(super) fn new(dialect: &'static dyn Dialect, index: Index) -> Self {
        Self { is_plain: is_plain(&index), dialect, index }
    }
}

/// Returns `true` if a message only says something. See [`Message::is_plain`](super::Message::is_plain).
fn is_plain(index: &Index) -> bool {
    let Index { role, opens, answers, server_calls, server_results, bound, .. } = index;
    let has_calls = !opens.is_empty() || !server_calls.is_empty();
    let has_results = !answers.is_empty() || !server_results.is_empty() || *role == Role::Tool;
    let is_sent_as_it_is = !bound.to_next && !index.says_nothing && !index.is_rewritten;
    is_sent_as_it_is && !has_calls && !has_results
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
            indexed.get_or_init(|| Indexed::new(dialect, index));
        }
    }
}
