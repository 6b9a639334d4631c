//! The provider: it checks requests and makes signed replies.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use serde_json::{Map, Value};
use tower_chat_history_core::{Digest, Usage};

use super::{
    MadeMessage, Refusal, Say, content, order,
    request::{Request, Speaker},
    thinking::{self, AcceptedPrompt, KnownThinking, Rules, is_thinking},
};
use crate::util::lock;

/// A provider of Anthropic's Messages API. See the [module docs](super). Clones are the same provider.
#[derive(Clone, Debug)]
pub struct MessagesProvider {
    rules: Rules,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    made: KnownThinking,
    signatures: HashSet<String>,
    /// The replies that were paused, without their thinking.
    paused: HashSet<Digest>,
    /// The types of the blocks of all replies, and those that the test has added.
    kinds: HashSet<String>,
    replies: u64,
    counts: ThinkingCounts,
}

/// The numbers of thinking blocks in the requests that a [`MessagesProvider`] accepted for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThinkingCounts {
    /// The number of blocks in all requests. A block counts once for each request.
    pub sent: u64,
    /// The number of blocks that the provider had made before the request, and that were missing in it.
    pub missing: u64,
    /// The number of blocks that did not fit, and that the request asked to ignore.
    pub dropped: u64,
}

impl MessagesProvider {
    /// Creates the provider with this name. Its signatures depend on the name, so all providers with one name accept
    /// each other's thinking.
    #[must_use]
    pub fn new(name: impl AsRef<str>) -> Self {
        let rules = Rules { secret: Digest::of(name.as_ref().as_bytes()), checks_signatures: true };
        Self { rules, state: Arc::default() }
    }

    /// Makes the provider know blocks of this type, as if it were a type of the API. It always knows the types of
    /// [`Say::Block`]s in its own replies.
    #[must_use]
    pub fn with_block_type(self, kind: impl Into<String>) -> Self {
        lock(&self.state).kinds.insert(kind.into());
        self
    }

    /// Returns the numbers of thinking blocks in the requests that were accepted for a [`reply`](Self::reply).
    #[must_use]
    pub fn counts(&self) -> ThinkingCounts {
        lock(&self.state).counts
    }

    /// Checks the body of a request.
    ///
    /// # Errors
    ///
    /// Returns the first reason why the API refuses it. Faults of the structure come before those of signatures.
    pub fn check(&self, body: &str) -> Result<(), Refusal> {
        self.read(body).map(|_| ())
    }

    /// Checks the body of a request, and returns the scripted reply. Its thinking is signed. The reason to stop is
    /// `tool_use` if there is a call, `pause_turn` if the reply pauses, and `end_turn` otherwise.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check`](Self::check). The counts then stay as they are.
    pub fn reply(&self, body: &str, script: &[Say]) -> Result<MadeMessage, Refusal> {
        let (request, accepted) = self.read(body)?;
        Ok(self.made(body, request, &accepted, script))
    }

    /// Returns the scripted reply to a request that may break the rules.
    ///
    /// # Errors
    ///
    /// Returns the error of a body that is not a request.
    #[cfg(feature = "server")]
    pub(crate) fn reply_unchecked(&self, body: &str, script: &[Say]) -> Result<MadeMessage, Refusal> {
        let request = Request::read(body)?;
        let accepted = Rules { checks_signatures: false, ..self.rules }.check(&request)?;
        Ok(self.made(body, request, &accepted, script))
    }

    fn made(&self, body: &str, request: Request, accepted: &AcceptedPrompt, script: &[Say]) -> MadeMessage {
        let mut before = accepted.before.clone();
        let mut content = Vec::new();

        let mut state = lock(&self.state);
        state.count(accepted);

        for mut block in script.iter().flat_map(Say::blocks) {
            if is_thinking(&block) {
                let signature = self.rules.sign(&mut before, &block);
                let name = if block["type"] == "thinking" { "signature" } else { "data" };
                block[name] = signature.clone().into();
                state.signatures.insert(signature);
            } else {
                thinking::add(&mut before, Speaker::Assistant, &block);
            }
            state.kinds.extend(block["type"].as_str().map(str::to_owned));
            content.push(block);
        }

        thinking::record(&mut state.made, &content);
        state.replies += 1;

        let has_calls = content.iter().any(|block: &Value| block["type"] == "tool_use");
        let pauses = !has_calls && script.contains(&Say::Pause);
        if pauses {
            state.paused.insert(thinking::said(&content));
        }
        let stop_reason = match (has_calls, pauses) {
            (true, _) => "tool_use",
            (false, true) => "pause_turn",
            (false, false) => "end_turn",
        };
        MadeMessage {
            id: format!("msg_{}", state.replies),
            model: request.model,
            content: content.iter().map(Value::to_string).collect(),
            stop_reason: stop_reason.to_owned(),
            usage: Usage::new(body.len() as u64 / 4, 1),
            fields: Map::new(),
        }
    }

    fn read(&self, body: &str) -> Result<(Request, AcceptedPrompt), Refusal> {
        let request = Request::read(body)?;
        let groups = request.groups();
        order::check(&groups)?;

        // The last message is the paused reply, or its last part if it was paused several times.
        let last = request.messages.last().map(|last| thinking::said(&last.blocks));
        order::check_end(&groups, |blocks| {
            let kind = blocks.last().map(|block| block.kind()).unwrap_or_default();
            let is_of_server = matches!(kind, "server_tool_use" | "mcp_tool_use") || kind.ends_with("_tool_result");
            is_of_server || last.is_some_and(|last| lock(&self.state).paused.contains(&last))
        })?;

        content::check(&request, &lock(&self.state).kinds)?;
        order::check_calls(&groups)?;
        drop(groups);

        let accepted = self.rules.check(&request)?;
        if !request.drops_thinking {
            thinking::check_last(&request, &lock(&self.state).made)?;
        }
        Ok((request, accepted))
    }
}

impl State {
    fn count(&mut self, accepted: &AcceptedPrompt) {
        let kept: HashSet<&String> = accepted.signatures.iter().collect();
        let missing = self.signatures.iter().filter(|signature| !kept.contains(signature)).count() as u64;
        self.counts.sent += accepted.signatures.len() as u64;
        self.counts.missing += missing - accepted.dropped.min(missing);
        self.counts.dropped += accepted.dropped;
    }
}
