//! The plan of an operation: which of the next calls fail or lose their answers.

use std::collections::VecDeque;

use tower_chat_history_core::{ConversationId, Seq, StoreError};

/// A kind of [`StoreError`] that a [`FaultStore`](crate::FaultStore) fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// [`StoreError::Unavailable`]: a retry may succeed.
    Unavailable,
    /// [`StoreError::Backend`]: a retry will not succeed.
    Backend,
    /// [`StoreError::Conflict`], without the current revision.
    Conflict,
    /// [`StoreError::Gone`].
    Gone,
    /// [`StoreError::Corrupt`], at the first position of the conversation of the call. If the call names no conversation,
    /// it is [`StoreError::Backend`].
    Corrupt,
}

impl Fault {
    pub(super) fn error(self, id: Option<&ConversationId>) -> StoreError {
        const REASON: &str = "the store failed on demand";
        match (self, id) {
            (Self::Unavailable, _) => StoreError::unavailable(REASON),
            (Self::Backend, _) | (Self::Corrupt, None) => StoreError::backend(REASON),
            (Self::Conflict, _) => StoreError::Conflict { current: None },
            (Self::Gone, _) => StoreError::Gone,
            (Self::Corrupt, Some(id)) => {
                StoreError::Corrupt { conversation: id.clone(), seq: Seq::FIRST, source: REASON.into() }
            }
        }
    }
}

/// The step of the plan that one call takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Pass,
    Fail(Fault),
    LoseAnswer,
}

/// The steps of the next calls, as pairs of a number of calls and their step. When all steps are used, calls pass.
#[derive(Debug, Default)]
pub(super) struct Plan(VecDeque<(usize, Step)>);

impl Plan {
    pub(super) fn push(&mut self, calls: usize, step: Step) {
        if calls > 0 {
            self.0.push_back((calls, step));
        }
    }

    pub(super) fn next(&mut self) -> Step {
        let Some((left, step)) = self.0.front_mut() else { return Step::Pass };
        let step = *step;
        *left -= 1;
        if *left == 0 {
            self.0.pop_front();
        }
        step
    }
}
