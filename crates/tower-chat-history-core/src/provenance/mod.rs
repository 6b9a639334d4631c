//! The prompt after which a reply was made.

mod origin;
mod positions;

use serde::{Deserialize, Serialize};

pub use self::{origin::Origin, positions::Positions};
use crate::{digest::Digest, memory::block, seq::Seq};

/// The prompt after which a reply was made, and the provider that made it.
///
/// It is stored next to the exchange's record if the reply has reasoning that is [bound](crate::Bound) to its prompt or
/// to its origin. Later prompts repeat the reasoning only where these conditions still hold. The messages of the log do
/// not contain it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// The version of the code that renders prompts. Digests of different versions cannot be compared.
    pub renderer: u32,
    /// The digests of the prompt. `None` if no part of the messages is bound to it, or if the log is a copy and the
    /// prompt began with a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digests: Option<PromptDigests>,
    /// The positions of the cut under which the prompt was made.
    pub cut: Positions,
    /// The provider that made the reply.
    #[serde(default, skip_serializing_if = "Origin::is_unknown")]
    pub origin: Origin,
    /// The position of the log's next exchange when the prompt was made. The exchanges from there to the reply's own
    /// were stored in the meantime, so the prompt did not contain them. `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Seq>,
}

impl Provenance {
    /// Creates the provenance of a reply: the version of the renderer, the positions of the cut, and the provider.
    #[must_use]
    pub const fn new(renderer: u32, cut: Positions, origin: Origin) -> Self {
        Self { renderer, digests: None, cut, origin, made_at: None }
    }

    /// Sets the digests of the prompt. The default is `None`.
    #[must_use]
    pub const fn digests(mut self, digests: Option<PromptDigests>) -> Self {
        self.digests = digests;
        self
    }

    /// Sets the position of the log's next exchange when the prompt was made. The default is `None`.
    #[must_use]
    pub const fn made_at(mut self, next: Option<Seq>) -> Self {
        self.made_at = next;
        self
    }

    /// Returns this value for a copy of the log whose positions are lower by `first`. Positions before the copied ones
    /// become 0. An exchange that was stored after the prompt was made, but is not copied, cannot be hidden by the
    /// reply.
    ///
    /// The digests depend on no position, so they stay. Those of a prompt that began with a summary are removed,
    /// because a copy has no summary.
    pub(crate) fn moved_back(self, first: Seq) -> Self {
        let digests = self.digests.filter(|_| self.cut.covers_to == Seq::FIRST);
        let made_at = self.made_at.map(|next| next.moved_back(first));
        Self { digests, cut: self.cut.moved_back(first), made_at, ..self }
    }

    /// Returns an estimate of the memory of its parts, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let Origin { provider, route, account, model } = &self.origin;
        [provider, route, account, model].into_iter().flatten().map(|text| block(text.capacity())).sum()
    }
}

/// The digests of the prompt after which a reply was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptDigests {
    /// The digest of the request's head: instructions and tools.
    pub head: Digest,
    /// The digest of everything that was sent before the reply, with the head.
    pub prompt: Digest,
}

impl PromptDigests {
    /// Creates the digests of a prompt: that of its head, and that of the whole prompt.
    #[must_use]
    pub const fn new(head: Digest, prompt: Digest) -> Self {
        Self { head, prompt }
    }
}
