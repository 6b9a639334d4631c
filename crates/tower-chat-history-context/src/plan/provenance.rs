//! The provenance of a reply: the conditions under which it was made.

use tower_chat_history_core::{Digest, Exchange, Message, Origin, Positions, PromptDigests, Provenance, Seq};

use crate::request::RequestInfo;

/// The version of the code that renders prompts. It changes whenever the same log leads to another prompt, because
/// digests of different versions cannot be compared.
pub const RENDERER: u32 = 1;

/// The conditions of a call under which reasoning may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    pub request: &'a RequestInfo,
    pub origin: &'a Origin,
}

impl Conditions<'static> {
    /// The conditions of a call of which nothing is known.
    pub const UNKNOWN: Self = Self { request: &UNKNOWN_REQUEST, origin: &UNKNOWN_ORIGIN };
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
}

/// Returns the provenance of an exchange whose reply was made after this prompt. Returns `None` if no part of its
/// messages is bound to its prompt or its origin. The provenance has no digests if no part of the reply is bound to its
/// prompt.
#[must_use]
pub fn provenance(exchange: &Exchange, prompt: SentPrompt<'_>, call: Conditions<'_>) -> Option<Provenance> {
    if !exchange.messages.iter().any(is_ruled) {
        return None;
    }
    let digests = exchange.is_bound_to_prompt().then(|| {
        let head = call.request.digest();
        PromptDigests::new(head, digest_after(head, prompt.messages))
    });
    Some(Provenance::new(RENDERER, prompt.under, call.origin.clone()).digests(digests).made_at(prompt.next))
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
