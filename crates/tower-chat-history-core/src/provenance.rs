//! The prompt after which a reply was made.

use serde::{Deserialize, Serialize};

use crate::{compaction::Cut, digest::Digest, memory::block, seq::Seq};

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

/// The provider that made a reply. A provider's sealed reasoning can be read only by the same provider, and with some
/// providers only on the same route or account.
///
/// The values are the application's own names, for example `anthropic`, `bedrock` and `team-a`. They are stored with
/// exchanges, so do not use secrets. `None` stands for an unknown value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Origin {
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The way to the provider: a gateway, a cloud, a region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The account, project or key, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The model that is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Origin {
    /// The origin of which nothing is known.
    pub const UNKNOWN: Self = Self { provider: None, route: None, account: None, model: None };

    /// Creates the origin of which nothing is known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self::UNKNOWN
    }

    /// Sets the provider. The default is `None`.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = Some(name.into());
        self
    }

    /// Sets the route. The default is `None`.
    #[must_use]
    pub fn route(mut self, name: impl Into<String>) -> Self {
        self.route = Some(name.into());
        self
    }

    /// Sets the account. The default is `None`.
    #[must_use]
    pub fn account(mut self, name: impl Into<String>) -> Self {
        self.account = Some(name.into());
        self
    }

    /// Sets the model. The default is `None`.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Returns `true` if nothing is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The positions of a [`Cut`], with the end of its summary in place of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "SevenPositions", into = "SevenPositions")]
#[non_exhaustive]
pub struct Positions {
    /// [`Cut::window_start`].
    pub window_start: Seq,
    /// [`Cut::rounds_start`].
    pub rounds_start: Seq,
    /// [`Cut::cleared_before`].
    pub cleared_before: Seq,
    /// [`Cut::recalled_from`].
    pub recalled_from: Seq,
    /// [`Cut::reasoning_from`].
    pub reasoning_from: Seq,
    /// [`Cut::encrypted_from`].
    pub encrypted_from: Seq,
    /// The end of the exchanges that the [summary](Cut::summary) covers, or the first position if there is none.
    pub covers_to: Seq,
}

impl Positions {
    fn moved_back(self, first: Seq) -> Self {
        Self {
            window_start: self.window_start.moved_back(first),
            rounds_start: self.rounds_start.moved_back(first),
            cleared_before: self.cleared_before.moved_back(first),
            recalled_from: self.recalled_from.moved_back(first),
            reasoning_from: self.reasoning_from.moved_back(first),
            encrypted_from: self.encrypted_from.moved_back(first),
            covers_to: self.covers_to.moved_back(first),
        }
    }
}

impl Cut {
    /// Returns the positions.
    #[must_use]
    pub fn positions(&self) -> Positions {
        Positions {
            window_start: self.window_start,
            rounds_start: self.rounds_start,
            cleared_before: self.cleared_before,
            recalled_from: self.recalled_from,
            reasoning_from: self.reasoning_from,
            encrypted_from: self.encrypted_from,
            covers_to: self.covers_to(),
        }
    }
}

type SevenPositions = (Seq, Seq, Seq, Seq, Seq, Seq, Seq);

impl From<SevenPositions> for Positions {
    fn from(positions: SevenPositions) -> Self {
        let (window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to) =
            positions;
        Self { window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to }
    }
}

impl From<Positions> for SevenPositions {
    fn from(cut: Positions) -> Self {
        let Positions { window_start, rounds_start, cleared_before, .. } = cut;
        let Positions { recalled_from, reasoning_from, encrypted_from, covers_to, .. } = cut;
        (window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to)
    }
}
