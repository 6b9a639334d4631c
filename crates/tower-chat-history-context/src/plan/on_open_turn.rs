//! Questions on open tool calls.

/// What becomes of unanswered tool calls when a new question comes instead of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOpenTurn {
    /// The question wins: the calls count as abandoned, results that come later are left out of what is sent.
    #[default]
    Supersede,
    /// The question fails with [`InputError::TurnOpen`](super::InputError::TurnOpen) before the model is called.
    Reject,
}
