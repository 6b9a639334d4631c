//! The rules for thinking of Anthropic's models, behind OpenRouter and LiteLLM.

use serde_json::Value;
use tower_chat_history_core::{Digest, Message, Role};

use super::{
    ChatProvider,
    prompt::Prompt,
    recorded::Recorded,
    refusal::{ProviderRefusal, Refused},
    thought::Thought,
};
use crate::{
    normal::{blocks, calls, digest, tools_digest, value},
    signature::{self, Before, Fault},
};

/// The field of a message with the thinking.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Reads an element of the field.
    pub(super) read: fn(&Value) -> Entry,
}

/// An element of the field.
pub(super) enum Entry {
    /// Thinking and its signature.
    Signed(Thought, String),
    /// An element that the model does not see.
    Unseen,
    /// An element without a signature, or one that cannot be read.
    Unsigned,
}

/// A place in Anthropic's own format: the index of a message, and of a block in it. Messages of one role are merged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) message: usize,
    pub(super) block: usize,
}

/// Checks the signatures of a prompt, and the thinking of an open tool round.
pub(super) fn check(
    provider: ChatProvider,
    field: &Field,
    prompt: &Prompt<'_>,
    recorded: Option<&Recorded>,
) -> Result<(), ProviderRefusal> {
    let places = places(field, prompt.messages);
    let refused = |(reason, message): (Refused, String)| ProviderRefusal::new(provider, reason, message);
    check_signatures(field, prompt, &places).map_err(refused)?;
    let Some(position) = open_round(prompt.messages) else { return Ok(()) };
    check_round(field, position, &prompt.messages[position], places[position], recorded).map_err(refused)
}

fn check_signatures(field: &Field, prompt: &Prompt<'_>, places: &[Place]) -> Result<(), (Refused, String)> {
    let mut before = Before { prompt: tools_digest(prompt.tools), seal: None };
    for (position, (message, place)) in prompt.messages.iter().zip(places).enumerate() {
        let message = value(message);
        for (block, entry) in entries(field, &message).into_iter().enumerate() {
            let checked = match &entry {
                Entry::Signed(thought, signature) => {
                    signature::check(secret(thought), signature, &before, thought.text())
                }
                Entry::Unseen | Entry::Unsigned => Err(Fault::Invalid),
            };
            let wording = || {
                let (message, block) = (place.message, place.block + block);
                format!("messages.{message}.content.{block}: Invalid `signature` in `thinking` block")
            };
            match checked {
                Ok(seal) => before.seal = Some(seal.to_owned()),
                Err(Fault::Invalid) => return Err((Refused::InvalidThinking { position, block }, wording())),
                Err(Fault::OtherPrompt) => {
                    let wording = format!(
                        "{}. The block is bound to a different conversation. Remove the block, or set \
                         `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
                        wording()
                    );
                    return Err((Refused::OtherConversation { position, block }, wording));
                }
            }
        }
        before.prompt = before.prompt.then(digest(&message));
    }
    Ok(())
}

/// Checks the last assistant message of a prompt that ends with the results of its calls.
fn check_round(
    field: &Field,
    position: usize,
    message: &Message,
    place: Place,
    recorded: Option<&Recorded>,
) -> Result<(), (Refused, String)> {
    let message = value(message);
    let kept = signatures(field, &message).len();
    // Without a record, at least one piece of thinking is expected.
    let made = recorded.map_or(1, |recorded| recorded.signatures(&message).unwrap_or_default());
    let at = format!("messages.{}.content.{}", place.message, place.block);
    if kept == 0 && made > 0 {
        let found = if blocks(&message).is_empty() { "tool_use" } else { "text" };
        // One word is misspelled by the provider.
        let wording = format!(
            "{at}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, a \
             final `assistant` message must start with a thinking block (prece\
             eding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks \
             from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at \
             https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
        );
        return Err((Refused::MissingThinking { position }, wording));
    }
    if kept < made {
        let wording = format!(
            "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
             blocks must remain as they were in the original response."
        );
        return Err((Refused::ChangedThinking { position }, wording));
    }
    Ok(())
}

/// Returns the prompt of the next reply's thinking.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn before_reply(field: &Field, prompt: &Prompt<'_>) -> Before {
    let mut before = Before { prompt: tools_digest(prompt.tools), seal: None };
    for message in prompt.messages {
        let message = value(message);
        if let Some(last) = signatures(field, &message).last().and_then(|last| signature::seal(last)) {
            before.seal = Some(last.to_owned());
        }
        before.prompt = before.prompt.then(digest(&message));
    }
    before
}

/// Returns the place at which each message begins. System messages have no place of their own.
pub(super) fn places(field: &Field, messages: &[Message]) -> Vec<Place> {
    let mut next: Option<(bool, Place)> = None;
    let mut all = Vec::with_capacity(messages.len());
    for message in messages {
        if matches!(message.role(), Role::System | Role::Developer) {
            all.push(next.map_or_else(Place::default, |(_, place)| place));
            continue;
        }
        let is_reply = *message.role() == Role::Assistant;
        let place = match next {
            None => Place::default(),
            Some((was_reply, place)) if was_reply == is_reply => place,
            Some((_, place)) => Place { message: place.message + 1, block: 0 },
        };
        all.push(place);
        let message = value(message);
        let length = if message["role"] == "tool" {
            1
        } else {
            entries(field, &message).len() + blocks(&message).len() + calls(&message).len()
        };
        next = Some((is_reply, Place { block: place.block + length, ..place }));
    }
    all
}

/// Returns the thinking of an assistant message, without the elements that the model does not see.
fn entries(field: &Field, message: &Value) -> Vec<Entry> {
    let entries = match &message[field.name] {
        Value::Array(entries) if message["role"] == "assistant" => entries.iter().map(field.read).collect(),
        Value::Null | Value::Array(_) => Vec::new(),
        _ => vec![Entry::Unsigned],
    };
    entries.into_iter().filter(|entry| !matches!(entry, Entry::Unseen)).collect()
}

fn signatures(field: &Field, message: &Value) -> Vec<String> {
    let signature = |entry| match entry {
        Entry::Signed(_, signature) => Some(signature),
        Entry::Unseen | Entry::Unsigned => None,
    };
    entries(field, message).into_iter().filter_map(signature).collect()
}

/// Returns the position of the last assistant message, if the prompt ends with the results of its calls.
fn open_round(messages: &[Message]) -> Option<usize> {
    let last = messages.iter().rposition(|message| !message.is_tool_result())?;
    (last + 1 < messages.len() && *messages[last].role() == Role::Assistant).then_some(last)
}

/// Returns the thoughts with their signatures, in a reply after this prompt.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn signed<'t>(before: &Before, thoughts: &'t [Thought]) -> Vec<(&'t Thought, String)> {
    let mut before = before.clone();
    let sign = |thought| {
        let signature = signature::sign(secret(thought), &before, thought.text());
        before.seal = signature::seal(&signature).map(str::to_owned);
        (thought, signature)
    };
    thoughts.iter().map(sign).collect()
}

/// Returns the secret by which thoughts of this kind are signed.
fn secret(thought: &Thought) -> Digest {
    let name: &[u8] = match thought {
        Thought::Text(_) => b"claude",
        Thought::Redacted => b"claude, redacted",
    };
    Digest::of(name)
}
