//! A model in memory: tower services over async-openai's types.

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
use crate::{Replies, Reply, lock, reply::Asked};

/// A model in memory, to stand under a tower stack in place of a provider.
///
/// It has two faces, both services of `CreateChatCompletionRequest` with async-openai's own types:
/// [`unary`](Self::unary) answers whole, [`stream`](Self::stream) in chunks. They share script and record with this handle
/// and with each other. What they answer is decoded from the same JSON that [`MockServer`](crate::MockServer) sends, by the
/// same rules as async-openai does: what that client cannot read is the same error here. There is no transport, so nothing
/// is retried; an aborted connection is an [`OpenAIError::StreamError`].
///
/// Prompts that break the chat rules are refused, see [`Replies`]. Every request is recorded, also those that are refused.
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
    /// A model that gives these replies: a list of them, or [`Replies`].
    #[must_use]
    pub fn new(replies: impl Into<Replies>) -> Self {
        Self { replies: replies.into(), requests: Arc::default() }
    }

    /// A model that gives these replies in order, and then errors: see [`Replies::script`].
    #[must_use]
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Replies::script(replies))
    }

    /// A model that computes its replies from the messages of each request: see [`Replies::rules`].
    #[must_use]
    pub fn rules(rule: impl Fn(&[Message]) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(Replies::rules(rule))
    }

    /// Sets whether prompts are checked against the chat rules, for this handle and what is made from it. The default is
    /// true.
    #[must_use]
    pub fn check_prompts(mut self, check: bool) -> Self {
        self.replies = self.replies.check_prompts(check);
        self
    }

    /// The service that answers whole, like `client.chat().create(..)`.
    #[must_use]
    pub fn unary(&self) -> MockChat {
        MockChat::new(self.clone())
    }

    /// The service that answers with a stream, like `client.chat().create_stream(..)`.
    #[must_use]
    pub fn stream(&self) -> MockChatStream {
        MockChatStream::new(self.clone())
    }

    /// Where the replies come from, to add some or to ask how many are left.
    #[must_use]
    pub fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<CreateChatCompletionRequest> {
        lock(&self.requests).clone()
    }

    /// The messages of every request so far.
    #[must_use]
    pub fn prompts(&self) -> Vec<Vec<Message>> {
        // A request that does not serialize was answered with an error, and has no prompt to show.
        lock(&self.requests).iter().map(|request| prompt(request).unwrap_or_default()).collect()
    }

    /// The messages of every request so far, each as a JSON array.
    #[must_use]
    pub fn prompts_json(&self) -> Vec<Value> {
        lock(&self.requests).iter().map(|request| serde_json::json!(request.messages)).collect()
    }

    /// Records a request and decides on its reply.
    fn receive(&self, request: CreateChatCompletionRequest, stream: bool) -> Result<(Reply, Asked), OpenAIError> {
        let prompt = prompt(&request);
        let n = request.n.map_or(1, usize::from);
        let include_usage = request.stream_options.and_then(|options| options.include_usage).unwrap_or_default();
        let (model, asked_to_stream) = (request.model.clone(), request.stream);
        let number = {
            let mut requests = lock(&self.requests);
            requests.push(request);
            requests.len()
        };
        // The same guards as those of async-openai's `create` and `create_stream`.
        match asked_to_stream {
            Some(true) if !stream => {
                return Err(OpenAIError::InvalidArgument("When stream is true, use Chat::create_stream".into()));
            }
            Some(false) if stream => {
                return Err(OpenAIError::InvalidArgument("When stream is false, use Chat::create".into()));
            }
            _ => {}
        }
        let prompt = prompt?;
        let prompt_bytes = Asked::prompt_bytes(&prompt);
        Ok((self.replies.next(&prompt), Asked { number, model, n, include_usage, prompt_bytes }))
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
