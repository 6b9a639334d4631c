//! One choice of a reply.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::provider::{ProviderFields, Signer, Thought};

/// One choice of a reply, for replies with several choices (a request's `n`).
///
/// ```
/// use tower_chat_history_test::{Choice, Reply};
///
/// let two = Reply::choices([Choice::text("heads"), Choice::text("tails").finish("length")]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Option<String>,
    pub(super) fields: Map<String, Value>,
    pub(super) thoughts: Vec<Thought>,
    /// The provider's fields, after [`made_by`](Self::made_by).
    pub(super) made: Arc<ProviderFields>,
}

impl Choice {
    /// Creates a choice with this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Creates a refusal with this text.
    #[must_use]
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { refusal: Some(text.into()), ..Self::default() }
    }

    /// Creates a choice with tool calls.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = impl Into<Call>>) -> Self {
        Self::default().with_calls(calls)
    }

    /// Creates an empty choice: its content is null.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds tool calls.
    #[must_use]
    pub fn with_calls(mut self, calls: impl IntoIterator<Item = impl Into<Call>>) -> Self {
        self.calls.extend(calls.into_iter().map(Into::into));
        self
    }

    /// Sets the finish reason. The default is `tool_calls` with calls, and `stop` without.
    #[must_use]
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.finish = Some(reason.into());
        self
    }

    /// Adds a field to the message, such as a provider's `reasoning_content`. In a stream, it is in the first chunk.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Adds a piece of reasoning. The mock's [provider](crate::ChatProvider) determines the field and its signature.
    /// [`ChatProvider::OpenAi`](crate::ChatProvider::OpenAi) does not send it.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.thoughts.push(Thought::Text(text.into()));
        self
    }

    /// Adds a piece of reasoning that the provider encrypts. OpenRouter and LiteLLM send it without a text, DeepSeek
    /// with an empty one.
    #[must_use]
    pub fn redacted_thinking(mut self) -> Self {
        self.thoughts.push(Thought::Redacted);
        self
    }

    /// Adds the provider's fields. `chars` is the length of the text in a delta.
    pub(super) fn made_by(mut self, signer: &Signer, chars: usize) -> Self {
        self.made = Arc::new(signer.fields(&self.thoughts, &self.message(), chars));
        self
    }

    /// Returns the finish reason in a stream.
    pub(super) fn finish_reason_of_stream(&self) -> &str {
        if self.made.whole_calls && self.finish.is_none() { "stop" } else { self.finish_reason() }
    }

    pub(super) fn finish_reason(&self) -> &str {
        match &self.finish {
            Some(reason) => reason,
            None if self.calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    pub(super) fn message(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text, "refusal": self.refusal });
        if let Some(message) = message.as_object_mut() {
            if !self.calls.is_empty() {
                message.insert("tool_calls".into(), self.whole_calls().collect());
            }
            message.extend(self.made.fields.clone());
            message.extend(self.fields.clone());
        }
        message
    }

    /// Returns each call as a whole, with the provider's fields.
    pub(super) fn whole_calls(&self) -> impl Iterator<Item = Value> {
        self.calls.iter().enumerate().map(|(at, call)| self.with_fields(at, call.whole()))
    }

    /// Returns the JSON of a call with the provider's fields.
    pub(super) fn with_fields(&self, at: usize, mut call: Value) -> Value {
        if let (Some(call), Some(fields)) = (call.as_object_mut(), self.made.calls.get(at)) {
            call.extend(fields.clone());
        }
        call
    }

    /// Returns the bytes of text and calls, for the derived usage.
    pub(super) fn bytes(&self) -> usize {
        let text = [&self.text, &self.refusal].into_iter().flatten().map(String::len).sum::<usize>();
        text + self.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
    }
}

/// A tool call in a reply. A tuple such as `("call_1", "weather", "{}")` converts into a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) custom: bool,
}

impl Call {
    /// Creates a call of a function. The arguments can be any text, because models do not always write JSON.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), custom: false }
    }

    /// Creates a call of a custom tool, whose input is free text. async-openai 0.43 cannot decode such calls.
    #[must_use]
    pub fn custom(id: impl Into<String>, name: impl Into<String>, input: impl Into<String>) -> Self {
        Self { custom: true, ..Self::new(id, name, input) }
    }

    fn whole(&self) -> Value {
        self.head(&self.arguments)
    }

    fn head(&self, arguments: &str) -> Value {
        let Self { id, name, .. } = self;
        if self.custom {
            json!({ "id": id, "type": "custom", "custom": { "name": name, "input": arguments } })
        } else {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        }
    }

    /// Returns the first delta of this call, with everything except the arguments.
    pub(super) fn opening(&self, index: usize) -> Value {
        let mut head = self.head("");
        head["index"] = index.into();
        head
    }

    /// Returns a later delta of this call.
    pub(super) fn piece(&self, index: usize, arguments: &str) -> Value {
        if self.custom {
            json!({ "index": index, "custom": { "input": arguments } })
        } else {
            json!({ "index": index, "function": { "arguments": arguments } })
        }
    }
}

impl<I: Into<String>, N: Into<String>, A: Into<String>> From<(I, N, A)> for Call {
    fn from((id, name, arguments): (I, N, A)) -> Self {
        Self::new(id, name, arguments)
    }
}
