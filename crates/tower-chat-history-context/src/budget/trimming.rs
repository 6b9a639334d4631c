//! What was done to a window.

/// Why a window had to be made smaller, and what was done for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimming {
    /// What there was too much of; `None` if the window could stay as it was.
    pub reason: Option<TrimReason>,
    /// True if results were cleared that had not been.
    pub cleared_results: bool,
    /// True if rounds of tool calls were left out.
    pub left_out_rounds: bool,
    /// True if turns were left out.
    pub left_out_turns: bool,
    /// True if a [`Trimmer`](super::Trimmer) decided.
    pub by_trimmer: bool,
    /// True if a [`Trimmer`](super::Trimmer) was asked, and what it said could not be used.
    pub trimmer_failed: bool,
    /// True if the reply's limit was lowered.
    pub shrunk_reply: bool,
    /// True if the stored summary was left out, since there was no room for it.
    pub left_out_summary: bool,
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrimReason {
    /// Tokens: the prompt was over the mark, or over the limit.
    Tokens,
    /// Messages, by a mark that counts them.
    Messages,
    /// Turns, by a mark that counts them.
    Turns,
}

impl TrimReason {
    /// A short constant name of it, for metrics and spans.
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
    /// Returns whether the window had to be made smaller.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.reason.is_some()
    }

    /// Returns whether the model sees less of the conversation for it.
    #[must_use]
    pub const fn is_shortened(&self) -> bool {
        self.cleared_results || self.left_out_rounds || self.left_out_turns || self.by_trimmer || self.left_out_summary
    }

    /// What was done, for spans: the names of its steps, joined with `+`; `none` if there was nothing to do.
    #[must_use]
    pub fn strategy(&self) -> String {
        let steps = [
            (self.shrunk_reply, "shrink_reply"),
            (self.cleared_results, "clear_results"),
            (self.left_out_rounds, "rounds"),
            (self.left_out_turns, "turns"),
            (self.by_trimmer, "trimmer"),
            (self.left_out_summary, "without_summary"),
        ];
        let steps: Vec<&str> = steps.into_iter().filter(|(done, _)| *done).map(|(_, step)| step).collect();
        if steps.is_empty() { "none".to_owned() } else { steps.join("+") }
    }
}
