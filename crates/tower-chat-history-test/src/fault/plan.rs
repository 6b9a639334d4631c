//! Which calls fail, and how.

use std::collections::VecDeque;

use tower_chat_history_core::{ConversationId, Seq, StoreError};

/// A kind of [`StoreError`] that a [`FaultStore`](crate::FaultStore) fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// [`StoreError::Unavailable`]: asking again may help.
    Unavailable,
    /// [`StoreError::Backend`]: asking again will not help.
    Backend,
    /// [`StoreError::Conflict`], without the current revision.
    Conflict,
    /// [`StoreError::Gone`].
    Gone,
    /// [`StoreError::Corrupt`], at the first position of the conversation that was asked for.
    Corrupt,
}

impl Fault {
    pub(super) fn error(self, id: &ConversationId) -> StoreError {
        const WHY: &str = "the store failed on demand";
        match self {
            Self::Unavailable => StoreError::unavailable(WHY),
            Self::Backend => StoreError::backend(WHY),
            Self::Conflict => StoreError::Conflict { current: None },
            Self::Gone => StoreError::Gone,
            Self::Corrupt => StoreError::Corrupt { conversation: id.clone(), seq: Seq::FIRST, source: WHY.into() },
        }
    }
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Pass,
    Fail(Fault),
    LoseAnswer,
}

/// The steps of the calls to come, as runs of equal ones. After them calls pass.
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
