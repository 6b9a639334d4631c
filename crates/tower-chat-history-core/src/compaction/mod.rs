//! Compactions: derived records that define which part of the log is sent.

mod cut;
mod error;
mod summary;
#[cfg(test)]
mod tests;
mod version;

pub use self::{cut::Cut, error::CompactionError, summary::Summary, version::CompactionVersion};
use crate::{memory::block, seq::Seq};

/// A stored compaction of one profile.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Compaction {
    /// The version number.
    pub version: CompactionVersion,
    /// The positions and the summary.
    pub cut: Cut,
    /// The cut that this one replaced, if it is known. A turn that began under it ends under it, so that its prompts
    /// stay prefixes of each other.
    pub replaced: Option<Box<Cut>>,
}

impl Compaction {
    /// Creates the compaction of this version. The cut that it replaced is not known.
    #[must_use]
    pub const fn new(version: CompactionVersion, cut: Cut) -> Self {
        Self { version, cut, replaced: None }
    }

    /// Sets the cut that this compaction replaced. The default is `None`.
    #[must_use]
    pub fn replacing(mut self, replaced: Option<Cut>) -> Self {
        self.replaced = replaced.map(Box::new);
        self
    }

    /// Returns an estimate of the memory that this compaction takes, in bytes: its summaries and a constant.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.cut.memory()
            + self.replaced.as_ref().map_or(0, |cut| block(size_of::<Cut>()) + cut.memory())
    }

    /// Returns the compaction to store when the log is [truncated](crate::Truncate) to its first `len` exchanges,
    /// or `None` if it must be removed. Stores call this within the truncation.
    ///
    /// If the cut must be removed, the cut that it replaced takes its place, as far as that one is still right. The
    /// provider still cannot read the encrypted elements that remain, so [`Cut::encrypted_from`] stays in any case.
    ///
    /// The result always has the next version, even if the cut is unchanged, so that no compaction made from the
    /// log before the truncation can replace it.
    #[must_use]
    pub fn truncated_to(&self, len: u64) -> Option<Self> {
        let replaced = self.replaced.as_ref().and_then(|cut| cut.truncated_to(len));
        let (cut, replaced) = match (self.cut.truncated_to(len), replaced) {
            (Some(cut), replaced) => (cut, replaced),
            (None, Some(mut replaced)) => {
                replaced.encrypted_from = self.cut.encrypted_from.min(Seq::new(len));
                (replaced, None)
            }
            (None, None) => (Cut::without_encrypted(self.cut.encrypted_from.min(Seq::new(len)))?, None),
        };
        Some(Self::new(self.version.next(), cut).replacing(replaced))
    }

    /// Returns the compaction to store when the log is pruned with [`Derived::Erase`](crate::Derived::Erase), or
    /// `None` if it must be removed because it has a summary, which describes removed exchanges. Of such a compaction,
    /// only [`Cut::encrypted_from`] stays. Stores call this within the prune.
    #[must_use]
    pub fn without_derived(&self) -> Option<Self> {
        let (cut, replaced) = match self.cut.summary {
            None => (self.cut.clone(), self.replaced.as_deref().filter(|cut| cut.summary.is_none()).cloned()),
            Some(_) => (Cut::without_encrypted(self.cut.encrypted_from)?, None),
        };
        Some(Self::new(self.version.next(), cut).replacing(replaced))
    }
}
