//! The provenance of a reply: how its prompt was made.

use tower_chat_history_core::{Digest, Message, Origin, Positions, PromptDigests, Provenance, Seq};

use crate::context::request::RequestInfo;

/// The version of the code that renders prompts. It changes whenever the same log leads to another prompt, because
/// digests of different versions cannot be compared.
pub const RENDERER: u32 = 1;

/// The conditions of a call under which reasoning may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    pub request: &'a RequestInfo,
    /// The [digest](RequestInfo::digest) of the request's head.
    pub head: Digest,
    pub origin: &'a Origin,
}

impl Conditions<'static> {
    /// Returns the conditions of a call of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { request: &UNKNOWN_REQUEST, head: Digest::default(), origin: &UNKNOWN_ORIGIN }
    }
}

static UNKNOWN_REQUEST: RequestInfo = RequestInfo::new();
static UNKNOWN_ORIGIN: Origin = Origin::UNKNOWN;

/// The facts about the prompt of a reply.
#[derive(Clone, Copy, Debug)]
pub struct SentPrompt<'a> {
    /// All messages after the head.
    pub messages: &'a [Message],
    /// The positions of the cut.
    pub under: Positions,
    /// The position of the log's next exchange when the prompt was made. `None` if the log was not loaded.
    pub next: Option<Seq>,
    /// The estimated size of the prompt in tokens, if it was counted.
    pub tokens: Option<u64>,
}

/// Returns the provenance of a reply that was made after this prompt.
#[must_use]
pub fn provenance(call: Conditions<'_>, prompt: SentPrompt<'_>) -> Provenance {
    let digests = PromptDigests::new(call.head, digest_after(call.head, prompt.messages));
    Provenance::new(RENDERER, prompt.under, digests, call.origin.clone()).made_at(prompt.next).tokens(prompt.tokens)
}

/// Returns the digest of a prompt that continues with these messages.
pub(super) fn digest_after<'m>(digest: Digest, messages: impl IntoIterator<Item = &'m Message>) -> Digest {
    messages.into_iter().fold(digest, |digest, message| digest.then(message.digest()))
}

/// Returns `true` if it depends on the prompt or the origin how the message is sent.
pub(super) fn is_ruled(message: &Message) -> bool {
    message.bound().can_be_removed() || message.index().restarts
}

/// Returns `true` if it depends on the messages before it how the message is sent.
pub(super) fn depends_on_prefix(message: &Message) -> bool {
    message.bound().to_prefix || message.index().restarts
}
