//! The account of how a window was made smaller.

/// The reason for which a window was made smaller, and the steps that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimming {
    /// The reason, or `None` if the window did not have to become smaller.
    pub reason: Option<TrimReason>,
    /// True if results were cleared, in addition to those that earlier calls cleared.
    pub cleared_results: bool,
    /// True if rounds of tool calls were left out.
    pub left_out_rounds: bool,
    /// True if turns were left out.
    pub left_out_turns: bool,
    /// True if a [`Trimmer`](super::Trimmer) chose the turns.
    pub by_trimmer: bool,
    /// True if the choice of a [`Trimmer`](super::Trimmer) could not be used.
    pub trimmer_failed: bool,
    /// True if the reply reserve was lowered.
    pub shrunk_reply: bool,
    /// True if the stored summary was left out because there was no room for it.
    pub left_out_summary: bool,
    /// True if the recalled messages of earlier turns were left out.
    pub left_out_recalled: bool,
}

/// The reason why a window had to become smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrimReason {
    /// Too many tokens: the prompt exceeded the watermark or the limit.
    Tokens,
    /// Too many messages, by a watermark that counts them.
    Messages,
    /// Too many turns, by a watermark that counts them.
    Turns,
}

impl TrimReason {
    /// Returns a short constant name, for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Messages => "messages",
            Self::Turns => "turns",
        }
    }
}

impl Trimming {
    /// Returns `true` if the window had to become smaller.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.reason.is_some()
    }

    /// Returns `true` if parts of the conversation were left out or cleared, so that the model does not receive them.
    #[must_use]
    pub const fn is_shortened(&self) -> bool {
        self.cleared_results || self.left_out_rounds || self.left_out_turns || self.by_trimmer || self.left_out_summary
    }

    /// Returns the names of the steps, joined with `+`, for spans. It returns `none` if there were no steps.
    #[must_use]
    pub fn strategy(&self) -> String {
        let steps = [
            (self.shrunk_reply, "shrink_reply"),
            (self.cleared_results, "clear_results"),
            (self.left_out_rounds, "rounds"),
            (self.left_out_turns, "turns"),
            (self.by_trimmer, "trimmer"),
            (self.left_out_summary, "without_summary"),
            (self.left_out_recalled, "without_recalled"),
        ];
        let steps: Vec<&str> = steps.into_iter().filter(|(done, _)| *done).map(|(_, step)| step).collect();
        if steps.is_empty() { "none".to_owned() } else { steps.join("+") }
    }
}
