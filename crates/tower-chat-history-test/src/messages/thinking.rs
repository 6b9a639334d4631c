//! Rules of thinking.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tower_chat_history_core::Digest;

use super::{
    Reason,
    request::{Placed, Request, Said, Speaker},
};
use crate::{
    normal,
    signature::{self, Before, Fault},
};

/// The rules of a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) secret: Digest,
    /// `false` if every signature is accepted.
    pub(super) checks_signatures: bool,
}

/// The thinking of replies, by what else they say. Replies can say the same after other thinking.
pub(super) type Made = HashMap<Digest, HashSet<Vec<Digest>>>;

/// A prompt whose thinking is accepted.
pub(super) struct Accepted {
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
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match &block["type"] {
        kind if kind == "thinking" => (format!("thinking {}", text("thinking")), text("signature")),
        _ => ("redacted".to_owned(), text("data")),
    }
}

/// Adds a block to the prompt of the next thinking.
pub(super) fn add(before: &mut Before, speaker: Speaker, block: &Value) {
    let role = Digest::of(format!("{speaker:?}").as_bytes());
    before.prompt = before.prompt.then(role).then(normal::digest_of(block));
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
    pub(super) fn check(self, request: &Request) -> Result<Accepted, Reason> {
        let before = Before { prompt: request.head, seal: None };
        let mut accepted = Accepted { before, signatures: Vec::new(), dropped: 0 };
        for (speaker, Placed { message, block, json }) in request.blocks() {
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
    normal::digest_of(&serde_json::json!(said))
}

/// Returns the thinking of a reply. Thinking at its end is never sent.
fn thinking(blocks: &[Value]) -> Vec<Digest> {
    let end = blocks.iter().rposition(|block| !is_thinking(block) && !is_blank(block)).map_or(0, |last| last + 1);
    blocks[..end].iter().filter(|block| is_thinking(block)).map(normal::digest_of).collect()
}

/// Records the thinking of a reply.
pub(super) fn record(made: &mut Made, blocks: &[Value]) {
    made.entry(said(blocks)).or_default().insert(thinking(blocks));
}

/// Checks the thinking of the last reply, and that of its turn.
pub(super) fn check_last(request: &Request, made: &Made) -> Result<(), Reason> {
    let is_reply = |said: &Said| said.speaker == Speaker::Assistant;
    let Some(message) = request.messages.iter().rposition(is_reply) else { return Ok(()) };
    let blocks = &request.messages[message].blocks;
    let found = thinking(blocks);
    if !found.is_empty() && made.get(&said(blocks)).is_some_and(|made| !made.contains(&found)) {
        return Err(Reason::ChangedThinking { message });
    }
    let answers = request.messages[message + 1..].iter().flat_map(|said| &said.blocks);
    let is_round = answers.map(|block| &block["type"]).any(|kind| kind == "tool_result");
    if request.needs_thinking && is_round && lacks_thinking(&request.messages[..=message], made) {
        return Err(Reason::MissingThinking { message });
    }
    Ok(())
}

/// Returns `true` if the last turn of the model has no thinking, although thinking was made with it, or it was not made
/// by this provider. Replies with only results between them are one turn.
fn lacks_thinking(messages: &[Said], made: &Made) -> bool {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let is_of_turn = |said: &&Said| {
        said.speaker == Speaker::Assistant || !said.blocks.is_empty() && said.blocks.iter().all(is_result)
    };
    let turn = messages.iter().rev().take_while(is_of_turn).filter(|said| said.speaker == Speaker::Assistant);
    let had_none = |reply: &Said| made.get(&said(&reply.blocks)).is_some_and(|made| made.iter().any(Vec::is_empty));
    let mut lacks_some = false;
    for reply in turn {
        if !thinking(&reply.blocks).is_empty() {
            return false;
        }
        lacks_some |= !had_none(reply);
    }
    lacks_some
}
