//! Rules of thinking.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tower_chat_history_core::Digest;

use super::{
    Reason,
    request::{BlockAt, Request, RequestMessage, Speaker},
};
use crate::signature::{self, Before, Fault, digest_of};

/// The rules of a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) secret: Digest,
    /// `false` if every signature is accepted.
    pub(super) checks_signatures: bool,
}

/// The thinking of replies, by what else they say. Replies can say the same after other thinking.
pub(super) type KnownThinking = HashMap<Digest, HashSet<Vec<Digest>>>;

/// A prompt whose thinking is accepted.
pub(super) struct AcceptedPrompt {
    /// The prompt of the next thinking.
    pub(super) before: Before,
    /// The signatures in the prompt.
    pub(super) signatures: Vec<String>,
    /// The number of blocks that are ignored.
    pub(super) dropped: u64,
}

/// Returns `true` for readable and redacted thinking.
pub(super) fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// Returns the text and the signature of thinking. Redacted thinking has only a signature.
fn signed(block: &Value) -> (String, &str) {
    if block["type"] == "thinking" {
        let text = block["thinking"].as_str().unwrap_or_default();
        return (format!("thinking {text}"), block["signature"].as_str().unwrap_or_default());
    }
    ("redacted".to_owned(), block["data"].as_str().unwrap_or_default())
}

/// Adds a block to the prompt of the next thinking.
pub(super) fn add(before: &mut Before, speaker: Speaker, block: &Value) {
    let role = Digest::of(format!("{speaker:?}").as_bytes());
    before.prompt = before.prompt.then(role).then(digest_of(block));
}

fn follow(before: &mut Before, signature: &str) {
    before.seal = signature::seal(signature).map(str::to_owned);
}

impl Rules {
    /// Signs thinking, and adds it to the prompt of the next one.
    pub(super) fn sign(self, before: &mut Before, block: &Value) -> String {
        let signature = signature::sign(self.secret, before, &signed(block).0);
        follow(before, &signature);
        signature
    }

    /// Checks all signatures of a prompt.
    pub(super) fn check(self, request: &Request) -> Result<AcceptedPrompt, Reason> {
        let before = Before { prompt: request.head, seal: None };
        let mut accepted = AcceptedPrompt { before, signatures: Vec::new(), dropped: 0 };
        for (speaker, BlockAt { message, block, json }) in request.blocks() {
            if !is_thinking(json) {
                add(&mut accepted.before, speaker, json);
                continue;
            }

            let (text, signature) = signed(json);
            let checked = signature::check(self.secret, signature, &accepted.before, &text).map(|_| ());
            match if self.checks_signatures { checked } else { Ok(()) } {
                Ok(()) => {
                    follow(&mut accepted.before, signature);
                    accepted.signatures.push(signature.to_owned());
                }
                Err(Fault::Invalid) => return Err(Reason::InvalidSignature { message, block }),
                Err(Fault::OtherPrompt) if request.drops_thinking => accepted.dropped += 1,
                Err(Fault::OtherPrompt) => return Err(Reason::OtherConversation { message, block }),
            }
        }

        Ok(accepted)
    }
}

fn is_blank(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|text| text.trim().is_empty())
}

/// Returns what a reply says besides its thinking, without texts that a client may leave out.
pub(super) fn said(blocks: &[Value]) -> Digest {
    let said: Vec<&Value> = blocks.iter().filter(|block| !is_thinking(block) && !is_blank(block)).collect();
    digest_of(&serde_json::json!(said))
}

/// Returns the thinking of a reply. Thinking at its end is never sent.
fn thinking(blocks: &[Value]) -> Vec<Digest> {
    let end = blocks.iter().rposition(|block| !is_thinking(block) && !is_blank(block)).map_or(0, |last| last + 1);
    blocks[..end].iter().filter(|block| is_thinking(block)).map(digest_of).collect()
}

/// Records the thinking of a reply.
pub(super) fn record(made: &mut KnownThinking, blocks: &[Value]) {
    made.entry(said(blocks)).or_default().insert(thinking(blocks));
}

/// Checks the thinking of the last reply, and that of its turn.
pub(super) fn check_last(request: &Request, made: &KnownThinking) -> Result<(), Reason> {
    let last = request.messages.iter().rposition(|sent| sent.speaker == Speaker::Assistant);
    let Some(message) = last else { return Ok(()) };
    let blocks = &request.messages[message].blocks;
    let found = thinking(blocks);
    if !found.is_empty() && made.get(&said(blocks)).is_some_and(|made| !made.contains(&found)) {
        return Err(Reason::ChangedThinking { message });
    }

    let answers = request.messages[message + 1..].iter().flat_map(|sent| &sent.blocks);
    let is_round = answers.map(|block| &block["type"]).any(|kind| kind == "tool_result");
    if request.needs_thinking && is_round && lacks_thinking(&request.messages[..=message], made) {
        return Err(Reason::MissingThinking { message });
    }
    Ok(())
}

/// Returns `true` if the last turn of the model has no thinking, although thinking was made with it, or it was not made
/// by this provider. Replies with only results between them are one turn.
fn lacks_thinking(messages: &[RequestMessage], made: &KnownThinking) -> bool {
    let mut lacks_some = false;
    for message in messages.iter().rev() {
        if message.speaker != Speaker::Assistant {
            let only_results = message.blocks.iter().all(|block| block["type"] == "tool_result");
            if message.blocks.is_empty() || !only_results {
                break;
            }
            continue;
        }

        if !thinking(&message.blocks).is_empty() {
            return false;
        }
        let had_none = made.get(&said(&message.blocks)).is_some_and(|made| made.iter().any(Vec::is_empty));
        lacks_some |= !had_none;
    }
    lacks_some
}
