//! The providers: their fields in replies, and their refusals.

mod claude;
mod deepseek;
mod edits;
mod fold;
mod gemini;
mod litellm;
mod openrouter;
mod rules;
#[cfg(feature = "openai")]
mod typed;

use serde_json::{Value, json};
use tower_chat_history_test::{ApiFailure, ChatProvider, MockServer, RefusalReason, Replies, Reply};

use crate::wire::exchange;

/// The path of chat completions.
const CHAT: &str = "POST /v1/chat/completions";

/// A conversation with a mock server. It sends the replies back as they came.
struct Chat {
    server: MockServer,
    /// The fields of the body other than the messages.
    fields: Value,
    messages: Vec<Value>,
}

impl Chat {
    async fn start(provider: ChatProvider, replies: impl IntoIterator<Item = Reply>) -> Self {
        let server = MockServer::start(Replies::script(replies).provider(provider)).await.unwrap();
        Self { server, fields: json!({ "model": "m" }), messages: Vec::new() }
    }

    /// Returns the body of a request with these messages.
    fn body(&self, messages: &[Value]) -> String {
        let mut body = self.fields.clone();
        body["messages"] = messages.into();
        body.to_string()
    }

    /// Sends a message and returns the reply. Both become a part of the conversation.
    async fn say(&mut self, message: Value) -> Value {
        self.messages.push(message);
        let reply = self.send(&self.messages).await.unwrap();
        self.messages.push(reply.clone());
        reply
    }

    /// Sends these messages. Returns the reply's message, or the status and body of an error.
    async fn send(&self, messages: &[Value]) -> Result<Value, (u16, Value)> {
        let (head, body) = exchange(&self.server, CHAT, &self.body(messages)).await;
        let mut body: Value = serde_json::from_str(&body).unwrap();
        match head.split(' ').nth(1).unwrap().parse().unwrap() {
            200 => Ok(body["choices"][0]["message"].take()),
            status => Err((status, body)),
        }
    }

    /// Sends these messages and returns the choices of the stream's events.
    async fn stream(&self, messages: &[Value]) -> Vec<Value> {
        let mut body: Value = serde_json::from_str(&self.body(messages)).unwrap();
        body["stream"] = true.into();
        let (head, events) = exchange(&self.server, CHAT, &body.to_string()).await;
        assert!(head.starts_with("http/1.1 200"), "{head} {events}");
        let data = events.lines().filter_map(|line| line.strip_prefix("data: {"));
        data.map(|event| serde_json::from_str::<Value>(&format!("{{{event}")).unwrap()["choices"][0].take()).collect()
    }
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn result(call: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": call, "content": "r" })
}

/// Returns an assistant message with calls that no mock made.
fn foreign(calls: &[&str]) -> Value {
    let function = json!({ "name": "look", "arguments": "{}" });
    let call = |id: &&str| json!({ "id": id, "type": "function", "function": function });
    json!({ "role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Value>() })
}

/// Checks messages without a server.
fn check(provider: ChatProvider, messages: &[Value]) -> Result<(), RefusalReason> {
    provider.check(&json!({ "messages": messages }).to_string()).map_err(|refusal| refusal.reason().clone())
}

/// Returns the error that a server with this provider sends for messages that [`ChatProvider::check`] refuses.
fn error(provider: ChatProvider, messages: &[Value]) -> (u16, Value) {
    let failure: ApiFailure = provider.check(&json!({ "messages": messages }).to_string()).unwrap_err().into();
    (failure.status(), failure.to_json())
}
