//! The rules that a compaction can break.

use crate::seq::Seq;

/// A violation of the rules for compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A position is before the stored one.
    #[error("a position of the compaction is before the stored one")]
    GoesBack,
    /// A position is beyond the end of the log.
    #[error("a position of the compaction is beyond the end of the log")]
    BeyondLog,
    /// The window would start within a turn.
    #[error("the window must start with an exchange that opens a turn, which exchange {seq} does not")]
    NotAnOpening {
        /// The position at which it would start.
        seq: Seq,
    },
    /// The summary covers exchanges that are still in the window.
    #[error("the summary covers exchanges that are still in the window")]
    CoversWindow,
}
