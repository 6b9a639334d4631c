//! The reader of a prompt: what it accepts, and the parts of a request's head that it does not accept in their place.

use tower_chat_history_core::{ChatCompletions, Compat, Dialect, Message, Role, SystemMessages};

use super::super::count::Counting;
use crate::context::{
    RequestInfo,
    bridge::{UNDERSTOOD, constant_reply, first_of, is_question, reply_to_summary},
};

/// The reader of a call's prompt.
pub(super) struct PromptReader {
    /// The description of what it accepts.
    pub(super) compat: Compat,
    /// The message that says what the head's instructions say, if the reader does not take these: one of the user, if
    /// it takes no system messages, or a system message, if it takes no developer messages.
    head: Option<Message>,
    /// The number of these instructions.
    instructions: usize,
    /// True if the window begins with that message and a constant reply.
    has_reply: bool,
}

/// The tool of a request that has none, and calls.
const STUB_TOOL: &str = concat!(
    r#"{"type":"function","function":{"name":"unavailable","description":"This tool is not available. Do not call it.","#,
    r#""parameters":{"type":"object","properties":{}}}}"#
);

impl PromptReader {
    pub(super) fn new(compat: Compat, dialect: &'static dyn Dialect, request: &RequestInfo) -> Self {
        let mut reader = Self { compat, head: None, instructions: 0, has_reply: false };
        // In other formats, instructions are no messages.
        if dialect.name() != ChatCompletions::NAME {
            return reader;
        }
        let role = if compat.system == SystemMessages::Never {
            Role::User
        } else if compat.no_developer && request.head.iter().any(|message| *message.role() == Role::Developer) {
            Role::System
        } else {
            return reader;
        };

        let instructions = request.head.iter().take_while(|message| message.is_instruction());
        let texts: Vec<String> = instructions.map(|message| message.text().into_owned()).collect();
        if !texts.is_empty() {
            reader.instructions = texts.len();
            reader.head = Message::compose(dialect, &role, texts.join("\n\n")).ok();
        }
        reader
    }

    /// Returns the number of messages of the head that are not sent.
    pub(super) fn left_out_of_head(&self) -> usize {
        if self.head.is_some() { self.instructions } else { 0 }
    }

    /// Puts the instructions of the head before the messages of a window, as a message of the user. A constant reply
    /// stands between it and another one.
    pub(super) fn put_head_into(&mut self, window: &mut Vec<Message>, input: &[Message]) {
        let Some(head) = &self.head else { return };
        let next = window.first().or(first_of(input));
        let reply = reply_to_summary(head, next).filter(|_| is_question(head));
        self.has_reply = reply.is_some();
        window.splice(0..0, [Some(head.clone()), reply].into_iter().flatten());
    }

    /// Returns the messages after those of the head. The digest of the request already has the head.
    pub(super) fn without_head<'m>(&self, context: &'m [Message]) -> &'m [Message] {
        let added = usize::from(self.head.is_some()) + usize::from(self.has_reply);
        context.get(added..).unwrap_or_default()
    }

    /// Returns the tokens that the head has more than as instructions.
    pub(super) fn head_overhead(&self, counting: &Counting) -> u64 {
        let reply = self.head.as_ref().filter(|head| is_question(head));
        let reply = reply.and_then(|head| constant_reply(head, UNDERSTOOD));
        reply.map_or(0, |reply| counting.message(&reply))
    }

    /// Returns the tool that a request without tools needs, because its messages have calls.
    pub(super) fn stub_tool(&self, request: &RequestInfo, messages: &[Message]) -> Option<&'static str> {
        let needs_tool = self.compat.calls_need_tools && request.tools.is_none();
        let has_calls = |message: &Message| !message.tool_calls().is_empty() || !message.answers().is_empty();
        (needs_tool && messages.iter().any(has_calls)).then_some(STUB_TOOL)
    }
}
