//! The parts of a request that providers check.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tower_chat_history_core::Message;

/// The parts of a request that providers check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) messages: &'a [Message],
    /// The tools, as JSON.
    pub(crate) tools: Option<&'a str>,
    /// `false` if the request disables thinking.
    pub(crate) thinks: bool,
}

/// The body of a request.
#[derive(Deserialize)]
pub(super) struct Body<'a> {
    messages: Vec<Message>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    thinking: Option<Value>,
}

impl<'a> Body<'a> {
    /// Reads a body, or returns `None` if it is not a request with messages.
    pub(super) fn read(body: &'a str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }

    pub(super) fn prompt(&self) -> Prompt<'_> {
        Prompt {
            messages: &self.messages,
            tools: self.tools.map(RawValue::get),
            thinks: thinks(self.thinking.as_ref()),
        }
    }
}

/// Returns `false` if this value of the field `thinking` disables thinking.
pub(crate) fn thinks(thinking: Option<&Value>) -> bool {
    thinking.is_none_or(|thinking| thinking["type"] != "disabled")
}
