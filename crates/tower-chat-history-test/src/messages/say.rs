//! Scripts of replies.

use serde_json::{Value, json};

/// A block of a scripted reply. A reply is a list of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Say {
    /// Signed thinking. Its text can be empty.
    Thinking(String),
    /// Redacted thinking.
    Redacted,
    /// A text.
    Text(String),
    /// A call that the program answers.
    Call {
        /// The id that the result must name.
        id: String,
        /// The name of the tool.
        name: String,
        /// The input, which is an object in replies of the API.
        input: Value,
    },
    /// A call of the server tool `web_search` with this id, and its result.
    Search(String),
    /// A call of the server tool `web_search` with this id. Its result comes with a later reply.
    OpenSearch(String),
    /// The result of such a call.
    Found(String),
    /// The reply pauses after the blocks before this.
    Pause,
    /// A summary of everything before it.
    Compaction(String),
    /// Any other block, as JSON.
    Block(Value),
}

impl Say {
    /// Returns thinking with this text.
    #[must_use]
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking(text.into())
    }

    /// Returns a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a call of a tool.
    #[must_use]
    pub fn call(id: impl Into<String>, name: impl Into<String>, input: impl Into<Value>) -> Self {
        Self::Call { id: id.into(), name: name.into(), input: input.into() }
    }

    /// Returns the blocks. Thinking has no signature yet.
    pub(super) fn blocks(&self) -> Vec<Value> {
        match self {
            Self::Thinking(thinking) => vec![json!({"type": "thinking", "thinking": thinking})],
            Self::Redacted => vec![json!({"type": "redacted_thinking"})],
            Self::Text(text) => vec![json!({"type": "text", "text": text})],
            Self::Call { id, name, input } => {
                vec![json!({"type": "tool_use", "id": id, "name": name, "input": input})]
            }
            Self::Search(id) => vec![search(id), found(id)],
            Self::OpenSearch(id) => vec![search(id)],
            Self::Found(id) => vec![found(id)],
            Self::Pause => Vec::new(),
            Self::Compaction(text) => vec![json!({"type": "compaction", "content": text})],
            Self::Block(block) => vec![block.clone()],
        }
    }
}

fn search(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}})
}

fn found(id: &str) -> Value {
    let page = json!({"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "e"});
    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [page]})
}
