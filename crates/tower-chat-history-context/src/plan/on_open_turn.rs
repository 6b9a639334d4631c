//! The policy for questions while tool calls are open.

/// Decides what happens to open tool calls if a new question comes instead of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOpenTurn {
    /// The question is sent, and the calls count as abandoned. Results that come later are left out of prompts.
    #[default]
    Supersede,
    /// The call with the question fails with [`InputError::TurnOpen`](super::InputError::TurnOpen) before the model is
    /// called.
    Reject,
}
