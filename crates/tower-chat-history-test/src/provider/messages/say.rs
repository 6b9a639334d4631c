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
    /// A call of the tool `look`, with this id.
    Call(String),
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
    /// Returns the blocks. Thinking has no signature yet.
    pub(super) fn blocks(&self) -> Vec<Value> {
        match self {
            Self::Thinking(thinking) => vec![json!({"type": "thinking", "thinking": thinking})],
            Self::Redacted => vec![json!({"type": "redacted_thinking"})],
            Self::Text(text) => vec![json!({"type": "text", "text": text})],
            Self::Call(id) => vec![json!({"type": "tool_use", "id": id, "name": "look", "input": {}})],
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
