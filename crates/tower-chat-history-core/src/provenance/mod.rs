//! The prompt after which a reply was made.

mod origin;

pub use self::origin::Origin;
use crate::{compaction::Positions, digest::Digest, memory::block, seq::Seq};

/// The conditions under which the prompt of a reply was made, and the provider that made the reply.
///
/// Every exchange with a reply of a model has one, next to its record. The log, the positions in it and the
/// [digest](PromptDigests::prompt) are enough to make the prompt again and to prove that it is the one that was sent.
///
/// It has no text of messages. Its record is small: in a log of fewer than 100,000 exchanges, with fewer than 10
/// million tokens, it takes at most 110 bytes. The names of the [origin](Origin) and the host come on top.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Provenance {
    /// The version of the code that renders prompts. Digests of different versions cannot be compared.
    pub renderer: u32,
    /// The position of the log's next exchange when the prompt was made. The exchanges from there to the reply's own
    /// were stored in the meantime, so the prompt did not contain them. `None` if the log could not be loaded.
    pub made_at: Option<Seq>,
    /// The positions of the cut under which the prompt was made.
    pub cut: Positions,
    /// The digests of the prompt.
    pub digests: PromptDigests,
    /// The key of what the reader of the prompt accepts, if it accepts less than the log has.
    pub reader: Option<Digest>,
    /// The estimated size of the prompt in tokens, if it was counted. The size that the provider reported is in the
    /// exchange's [usage](crate::Exchange::usage).
    pub tokens: Option<u64>,
    /// The provider that made the reply.
    pub origin: Origin,
    /// The host that was called, if the adapter knew it. Together with the origin, it says who made the reply.
    pub host: Option<String>,
}

impl Provenance {
    /// Creates the provenance of a reply: the version of the renderer, the positions of the cut, the digests of the
    /// prompt, and the provider.
    #[must_use]
    pub const fn new(renderer: u32, cut: Positions, digests: PromptDigests, origin: Origin) -> Self {
        Self { renderer, made_at: None, cut, digests, reader: None, tokens: None, origin, host: None }
    }

    /// Sets the position of the log's next exchange when the prompt was made. The default is `None`.
    #[must_use]
    pub const fn made_at(mut self, next: Option<Seq>) -> Self {
        self.made_at = next;
        self
    }

    /// Sets the key of what the reader of the prompt accepts. The default is `None`.
    #[must_use]
    pub const fn reader(mut self, key: Option<Digest>) -> Self {
        self.reader = key;
        self
    }

    /// Sets the host that was called. The default is `None`.
    #[must_use]
    pub fn host(mut self, host: Option<String>) -> Self {
        self.host = host;
        self
    }

    /// Sets the estimated size of the prompt in tokens. The default is `None`.
    #[must_use]
    pub const fn tokens(mut self, tokens: Option<u64>) -> Self {
        self.tokens = tokens;
        self
    }

    /// Returns an estimate of the memory of its parts, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let Origin { provider, route, account, model } = &self.origin;
        [provider, route, account, model, &self.host].into_iter().flatten().map(|text| block(text.capacity())).sum()
    }
}

/// The digests of the prompt after which a reply was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
