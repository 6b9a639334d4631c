//! The account of what a translation leaves out.

use std::ops::AddAssign;

/// The numbers of parts that a translation leaves out, because another provider cannot read them, or because the other
/// dialect has no form for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Messages with reasoning, readable or sealed.
    pub reasoning: usize,
    /// Calls that the provider executed itself, and their results.
    pub provider_calls: usize,
    /// Compactions that the provider made. The messages before them are sent in their place.
    pub compactions: usize,
    /// Images, audio, videos and files. Each becomes a short note, unless the model made it.
    pub media: usize,
    /// Parts of other kinds: names of participants, calls and results without an id, unknown kinds.
    pub other: usize,
}

impl LeftOut {
    /// Returns the sum of all numbers.
    #[must_use]
    pub const fn total(self) -> usize {
        let Self { reasoning, provider_calls, compactions, media, other } = self;
        reasoning + provider_calls + compactions + media + other
    }

    /// Returns `true` if nothing is left out.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.total() == 0
    }
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: Self) {
        self.reasoning += other.reasoning;
        self.provider_calls += other.provider_calls;
        self.compactions += other.compactions;
        self.media += other.media;
        self.other += other.other;
    }
}
