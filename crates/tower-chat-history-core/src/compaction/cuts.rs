//! The content of a compaction.

use super::Cut;
use crate::seq::Seq;

/// The newest cut of a profile, and the one that it replaced. This is what an engine keeps in a
/// [`Compaction`](crate::Compaction): [`compact`](Self::compact) writes it, and [`read`](Self::read) reads it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cuts {
    /// The newest cut.
    pub cut: Cut,
    /// The cut that it replaced, if it is known. A turn that began under it ends under it, so that its prompts stay
    /// prefixes of each other.
    pub replaced: Option<Box<Cut>>,
}

impl Cuts {
    /// Creates the cuts from the newest one. The cut that it replaced is not known.
    #[must_use]
    pub const fn new(cut: Cut) -> Self {
        Self { cut, replaced: None }
    }

    /// Sets the cut that the newest one replaced. The default is `None`.
    #[must_use]
    pub fn replacing(mut self, replaced: Option<Cut>) -> Self {
        self.replaced = replaced.map(Box::new);
        self
    }

    /// Returns the cuts to store when the log is [truncated](crate::Truncate) to the exchanges before position `len`, or
    /// `None` if nothing of them is still right.
    ///
    /// If the newest cut must be removed, the cut that it replaced takes its place, as far as that one is still right.
    /// The provider still cannot read the encrypted elements that remain, so [`encrypted_from`](super::Positions::encrypted_from) stays in any case.
    #[must_use]
    pub fn truncated_to(&self, len: u64) -> Option<Self> {
        let replaced = self.replaced.as_ref().and_then(|cut| cut.truncated_to(len));
        if let Some(cut) = self.cut.truncated_to(len) {
            return Some(Self::new(cut).replacing(replaced));
        }

        let encrypted_from = self.cut.encrypted_from.min(Seq::new(len));
        if let Some(mut cut) = replaced {
            cut.encrypted_from = encrypted_from;
            return Some(Self::new(cut));
        }
        (encrypted_from > Seq::FIRST).then(|| Self::new(Cut::without_encrypted(encrypted_from)))
    }
}
