//! Anthropic's models behind OpenRouter and LiteLLM: the rules for thinking, and the fields with it.

use serde_json::Value;
#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::{Map, json};
use tower_chat_history_core::{Digest, Message, Role};

#[cfg(any(feature = "openai", feature = "server"))]
use super::prompt::ProviderFields;
use super::{
    ChatProvider,
    prompt::{Prompt, ReplyRecords, Thought},
    refusal::{ProviderRefusal, RefusalReason},
};
#[cfg(any(feature = "openai", feature = "server"))]
use crate::util::pieces;
use crate::{
    chat_rules::RuleViolation,
    signature::{self, Before, Fault, blocks, calls, digest, tools_digest, value},
};

/// The field of a message with the thinking.
pub(super) struct Field {
    name: &'static str,
    /// Reads an element of the field.
    read: fn(&Value) -> Entry,
}

/// An element of the field.
enum Entry {
    /// Thinking and its signature.
    Signed(Thought, String),
    /// An element that the model does not see.
    Unseen,
    /// An element without a signature, or one that cannot be read.
    Unsigned,
}

/// The field of OpenRouter.
pub(super) const OPENROUTER: Field = Field { name: "reasoning_details", read: read_openrouter };

/// The field of LiteLLM.
pub(super) const LITELLM: Field = Field { name: "thinking_blocks", read: read_litellm };

fn read_openrouter(entry: &Value) -> Entry {
    match entry["type"].as_str() {
        Some("reasoning.text") => match text(entry, "signature") {
            Some(signature) => Entry::Signed(Thought::Text(text(entry, "text").unwrap_or_default()), signature),
            None => Entry::Unsigned,
        },
        Some("reasoning.encrypted") => {
            text(entry, "data").map_or(Entry::Unsigned, |signature| Entry::Signed(Thought::Redacted, signature))
        }
        Some("reasoning.summary") => Entry::Unseen,
        _ => Entry::Unsigned,
    }
}

fn read_litellm(entry: &Value) -> Entry {
    match entry["type"].as_str() {
        Some("thinking") => match text(entry, "signature") {
            Some(signature) => Entry::Signed(Thought::Text(text(entry, "thinking").unwrap_or_default()), signature),
            None => Entry::Unsigned,
        },
        Some("redacted_thinking") => {
            text(entry, "data").map_or(Entry::Unsigned, |signature| Entry::Signed(Thought::Redacted, signature))
        }
        _ => Entry::Unsigned,
    }
}

/// Returns a field that is a text and not empty.
fn text(entry: &Value, name: &str) -> Option<String> {
    entry[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A place in Anthropic's own format: the index of a message, and of a block in it. Messages of one role are merged.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    message: usize,
    block: usize,
}

/// Checks the signatures of a prompt, and the thinking of an open tool round.
pub(super) fn check(
    provider: ChatProvider,
    field: &Field,
    prompt: &Prompt<'_>,
    records: Option<&ReplyRecords>,
) -> Result<(), ProviderRefusal> {
    let places = places(field, prompt.messages);
    let checked = check_signatures(field, prompt, &places).and_then(|()| match open_round(prompt.messages) {
        Some(position) => check_round(field, position, &prompt.messages[position], places[position], records),
        None => Ok(()),
    });
    checked.map_err(|(reason, message)| ProviderRefusal::new(provider, reason, message))
}

fn check_signatures(field: &Field, prompt: &Prompt<'_>, places: &[Place]) -> Result<(), (RefusalReason, String)> {
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

            let invalid = format!(
                "messages.{}.content.{}: Invalid `signature` in `thinking` block",
                place.message,
                place.block + block
            );
            match checked {
                Ok(seal) => before.seal = Some(seal.to_owned()),
                Err(Fault::Invalid) => return Err((RefusalReason::InvalidThinking { position, block }, invalid)),
                Err(Fault::OtherPrompt) => {
                    let wording = format!(
                        "{invalid}. The block is bound to a different conversation. Remove the block, or set \
                         `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                    );
                    return Err((RefusalReason::OtherConversation { position, block }, wording));
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
    records: Option<&ReplyRecords>,
) -> Result<(), (RefusalReason, String)> {
    let message = value(message);
    let kept = signatures(field, &message).len();
    // Without a record, at least one piece of thinking is expected.
    let made = records.map_or(1, |records| records.signatures(&message).unwrap_or_default());

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
        return Err((RefusalReason::MissingThinking { position }, wording));
    }

    if kept < made {
        let wording = format!(
            "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
             blocks must remain as they were in the original response."
        );
        return Err((RefusalReason::ChangedThinking { position }, wording));
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
fn places(field: &Field, messages: &[Message]) -> Vec<Place> {
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
    let mut signatures = Vec::new();
    for entry in entries(field, message) {
        if let Entry::Signed(_, signature) = entry {
            signatures.push(signature);
        }
    }
    signatures
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
    let mut signed = Vec::new();
    for thought in thoughts {
        let signature = signature::sign(secret(thought), &before, thought.text());
        before.seal = signature::seal(&signature).map(str::to_owned);
        signed.push((thought, signature));
    }
    signed
}

/// Returns the secret by which thoughts of this kind are signed.
fn secret(thought: &Thought) -> Digest {
    let name: &[u8] = match thought {
        Thought::Text(_) => b"claude",
        Thought::Redacted => b"claude, redacted",
    };
    Digest::of(name)
}

/// Returns the wording for a violation of the chat rules, if it has its own.
pub(super) fn wording(field: &Field, violation: &RuleViolation, messages: &[Message]) -> Option<String> {
    let places = places(field, messages);
    match violation {
        RuleViolation::Empty => Some("messages: at least one message is required".into()),
        RuleViolation::OrphanResult { position, id } => places.get(*position).map(|place| {
            format!(
                "messages.{}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous message.",
                place.message, place.block
            )
        }),
        RuleViolation::UnansweredCalls { position, ids } => places.get(*position).map(|place| {
            format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                place.message,
                ids.join(", ")
            )
        }),
        _ => None,
    }
}

/// Returns the fields of a reply of OpenRouter with these thoughts and signatures.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn openrouter_fields(signed: &[(&Thought, String)], chars: usize) -> ProviderFields {
    let mut made = ProviderFields::default();
    let mut text = String::new();
    let mut details = Vec::new();
    for (index, (thought, signature)) in signed.iter().enumerate() {
        match thought {
            Thought::Text(thought) => {
                text += thought;
                for piece in pieces(thought, chars) {
                    let fragment = detail(index, json!({ "type": "reasoning.text", "text": piece }));
                    made.deltas.push(json!({ "reasoning_details": [fragment], "reasoning": piece }));
                }
                let last = detail(index, json!({ "type": "reasoning.text", "signature": signature }));
                made.deltas.push(json!({ "reasoning_details": [last] }));
                let whole = json!({ "type": "reasoning.text", "text": thought, "signature": signature });
                details.push(detail(index, whole));
            }
            Thought::Redacted => {
                let whole = detail(index, json!({ "type": "reasoning.encrypted", "data": signature }));
                made.deltas.push(json!({ "reasoning_details": [whole] }));
                details.push(whole);
            }
        }
    }

    made.fields = Map::from_iter([("reasoning".into(), text.into()), (OPENROUTER.name.into(), details.into())]);
    made
}

/// Returns an element of OpenRouter's field with these fields.
#[cfg(any(feature = "openai", feature = "server"))]
fn detail(index: usize, mut fields: Value) -> Value {
    fields["format"] = "anthropic-claude-v1".into();
    fields["index"] = index.into();
    fields
}

/// Returns the fields of a reply of LiteLLM with these thoughts and signatures.
#[cfg(any(feature = "openai", feature = "server"))]
pub(super) fn litellm_fields(signed: &[(&Thought, String)], chars: usize) -> ProviderFields {
    let mut made = ProviderFields::default();
    let mut text = String::new();
    let mut blocks = Vec::new();
    for (thought, signature) in signed {
        match thought {
            Thought::Text(thought) => {
                text += thought;
                for piece in pieces(thought, chars) {
                    let block = thinking_block(&piece, "");
                    made.deltas.push(json!({ "reasoning_content": piece, "thinking_blocks": [block] }));
                }
                let last = thinking_block("", signature);
                made.deltas.push(json!({ "reasoning_content": "", "thinking_blocks": [last] }));
                blocks.push(thinking_block(thought, signature));
            }
            Thought::Redacted => {
                let block = json!({ "type": "redacted_thinking", "data": signature });
                made.deltas.push(json!({ "thinking_blocks": [block] }));
                blocks.push(block);
            }
        }
    }
    made.fields = Map::from_iter([("reasoning_content".into(), text.into()), (LITELLM.name.into(), blocks.into())]);
    made
}

/// Returns an element of LiteLLM's field.
#[cfg(any(feature = "openai", feature = "server"))]
fn thinking_block(text: &str, signature: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": signature })
}
