//! A mock model in memory: tower services with async-openai's types.

mod chat;
mod chat_stream;
mod decode;
mod future;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use async_openai::{error::OpenAIError, types::chat::CreateChatCompletionRequest};
use serde_json::Value;
use tower_chat_history_core::Message;

pub use self::{chat::MockChat, chat_stream::MockChatStream, future::ReplyFuture};
use crate::{
    lock::lock,
    provider::{ChatProvider, Prompt},
    replies::Replies,
    reply::{Reply, RequestParams},
};

/// A mock model in memory, for the bottom of a tower stack in place of a provider.
///
/// It provides two services for `CreateChatCompletionRequest`, with async-openai's own types: [`unary`](Self::unary)
/// returns whole responses, [`stream`](Self::stream) returns streams of chunks. Both share the script and the recorded
/// requests with this handle. Responses are decoded from the same JSON that [`MockServer`](crate::MockServer) would
/// send, with async-openai's types. JSON that async-openai's client cannot decode therefore causes the same error here.
/// There is no transport, so nothing is retried, and an aborted connection is an [`OpenAIError::StreamError`].
///
/// Prompts that break the chat rules are refused, see [`Replies`]. All requests are recorded, including refused ones.
///
/// ```
/// use async_openai::types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs};
/// use tower::ServiceExt;
/// use tower_chat_history_test::{MockLlm, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let llm = MockLlm::script([Reply::text("Hello!")]);
/// let request = CreateChatCompletionRequestArgs::default()
///     .model("mock")
///     .messages(vec![ChatCompletionRequestUserMessage::from("Hi!").into()])
///     .build()?;
/// let response = llm.unary().oneshot(request).await?;
/// assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
/// assert_eq!(llm.prompts()[0][0].text(), "Hi!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MockLlm {
    replies: Replies,
    requests: Arc<Mutex<Vec<CreateChatCompletionRequest>>>,
}

impl MockLlm {
    /// Creates a model with these replies: a list, or [`Replies`].
    #[must_use]
    pub fn new(replies: impl Into<Replies>) -> Self {
        Self { replies: replies.into(), requests: Arc::default() }
    }

    /// Creates a model that gives these replies in order, and then errors: see [`Replies::script`].
    #[must_use]
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Replies::script(replies))
    }

    /// Creates a model that computes its replies from the messages of each request: see [`Replies::rules`].
    #[must_use]
    pub fn rules(rule: impl Fn(&[Message]) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(Replies::rules(rule))
    }

    /// Sets the provider whose rules apply, see [`Replies::provider`]. It applies to this handle and to services
    /// created from it later. async-openai's types do not have the providers' fields, so the fields are missing in
    /// replies and in requests. Requests with results of calls are therefore refused, as by the provider.
    #[must_use]
    pub fn provider(mut self, provider: ChatProvider) -> Self {
        self.replies = self.replies.provider(provider);
        self
    }

    /// Sets whether prompts are checked against the rules. It applies to this handle and to services created
    /// from it later. The default is true.
    #[must_use]
    pub fn check_prompts(mut self, check: bool) -> Self {
        self.replies = self.replies.check_prompts(check);
        self
    }

    /// Returns the service with whole responses, like `client.chat().create(..)`.
    #[must_use]
    pub fn unary(&self) -> MockChat {
        MockChat::new(self.clone())
    }

    /// Returns the service with streams, like `client.chat().create_stream(..)`.
    #[must_use]
    pub fn stream(&self) -> MockChatStream {
        MockChatStream::new(self.clone())
    }

    /// Returns the source of the replies, to add replies or to count those left.
    #[must_use]
    pub fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Returns all requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<CreateChatCompletionRequest> {
        lock(&self.requests).clone()
    }

    /// Returns the messages of all requests so far.
    #[must_use]
    pub fn prompts(&self) -> Vec<Vec<Message>> {
        // If a request cannot be serialized, it was answered with an error. Its prompt is empty here.
        lock(&self.requests).iter().map(|request| prompt(request).unwrap_or_default()).collect()
    }

    /// Returns the messages of all requests so far, each prompt as a JSON array.
    #[must_use]
    pub fn prompts_json(&self) -> Vec<Value> {
        lock(&self.requests).iter().map(|request| serde_json::json!(request.messages)).collect()
    }

    /// Records a request and returns its reply.
    fn receive(
        &self,
        request: CreateChatCompletionRequest,
        stream: bool,
    ) -> Result<(Reply, RequestParams), OpenAIError> {
        let prompt = prompt(&request);
        let n = request.n.map_or(1, usize::from);
        let include_usage = request.stream_options.and_then(|options| options.include_usage).unwrap_or_default();
        let (model, stream_field) = (request.model.clone(), request.stream);
        let tools = request.tools.as_ref().map(|tools| serde_json::json!(tools).to_string());
        let number = {
            let mut requests = lock(&self.requests);
            requests.push(request);
            requests.len()
        };
        // The same checks as in async-openai's `create` and `create_stream`.
        match stream_field {
            Some(true) if !stream => {
                return Err(OpenAIError::InvalidArgument("When stream is true, use Chat::create_stream".into()));
            }
            Some(false) if stream => {
                return Err(OpenAIError::InvalidArgument("When stream is false, use Chat::create".into()));
            }
            _ => {}
        }
        let prompt = prompt?;
        let prompt_bytes = RequestParams::prompt_bytes(&prompt);
        // The types have no field that disables thinking.
        let (reply, making) = self.replies.next(&Prompt { messages: &prompt, tools: tools.as_deref(), thinks: true });
        Ok((reply, RequestParams { number, model, n, include_usage, prompt_bytes, making }))
    }
}

fn prompt(request: &CreateChatCompletionRequest) -> Result<Vec<Message>, OpenAIError> {
    let messages = request.messages.iter().map(Message::from_serialize).collect::<Result<_, _>>();
    messages.map_err(|error| OpenAIError::InvalidArgument(error.to_string()))
}

impl fmt::Debug for MockLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = lock(&self.requests).len();
        f.debug_struct("MockLlm").field("replies", &self.replies).field("requests", &requests).finish()
    }
}
