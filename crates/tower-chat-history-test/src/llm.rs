//! A mock model in memory: tower services with async-openai's types.

use std::{
    fmt,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use async_openai::{
    error::{ApiErrorResponse, OpenAIError, StreamError, WrappedError},
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, ready},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower_chat_history_core::Message;
use tower_service::Service;

use crate::{
    provider::{ChatProvider, Prompt},
    replies::Replies,
    reply::{ApiFailure, Frame, NoReply, Reply, RequestParams, play},
    util::lock,
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
        MockChat { llm: self.clone() }
    }

    /// Returns the service with streams, like `client.chat().create_stream(..)`.
    #[must_use]
    pub fn stream(&self) -> MockChatStream {
        MockChatStream { llm: self.clone() }
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
        let model = request.model.clone();
        let stream_field = request.stream;
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
        let (reply, signer) = self.replies.next(&Prompt { messages: &prompt, tools: tools.as_deref(), thinks: true });
        Ok((reply, RequestParams { number, model, n, include_usage, prompt_bytes, signer }))
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

/// The service of a [`MockLlm`] that returns whole responses: see [`MockLlm::unary`].
#[derive(Clone, Debug)]
pub struct MockChat {
    llm: MockLlm,
}

impl Service<CreateChatCompletionRequest> for MockChat {
    type Response = CreateChatCompletionResponse;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<CreateChatCompletionResponse, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        // The request is received here and not in the future, so that replies of a script are used in the order of the
        // calls.
        let received = self.llm.receive(request, false);
        Box::pin(async move {
            let (reply, params) = received?;
            reply.wait().await;
            decode(reply.completion(&params).map_err(no_reply)?)
        })
    }
}

/// The service of a [`MockLlm`] that returns streams: see [`MockLlm::stream`].
///
/// As with async-openai, an error event becomes an item of the stream ([`OpenAIError::JSONDeserialize`]), and the
/// stream continues after it. If a stream ends early without an error, the only sign is the missing finish reason.
#[derive(Clone, Debug)]
pub struct MockChatStream {
    llm: MockLlm,
}

impl Service<CreateChatCompletionRequest> for MockChatStream {
    type Response = ChatCompletionResponseStream;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<ChatCompletionResponseStream, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        // The request is received here and not in the future, so that replies of a script are used in the order of the
        // calls.
        let received = self.llm.receive(request, true);
        Box::pin(async move {
            let (reply, params) = received?;
            reply.wait().await;
            let transcript = reply.transcript(&params).map_err(no_reply)?;
            let chunks = play(transcript).filter_map(|frame| {
                ready(match frame {
                    Frame::Data(json) => Some(decode(json)),
                    Frame::Done => None,
                    Frame::Aborted => Some(Err(aborted())),
                })
            });

            // Fused, because async-openai returns a channel, which can be polled after its end.
            Ok(chunks.fuse().boxed() as ChatCompletionResponseStream)
        })
    }
}

fn decode<T: DeserializeOwned>(json: String) -> Result<T, OpenAIError> {
    serde_json::from_str(&json).map_err(|error| OpenAIError::JSONDeserialize(error, json))
}

fn aborted() -> OpenAIError {
    let reason = "the mock aborted the connection".to_owned();
    OpenAIError::StreamError(Box::new(StreamError::EventStream(reason)))
}

/// Returns the error of a call without a reply.
///
/// # Panics
///
/// Panics if the test asked for a panic.
fn no_reply(reason: NoReply) -> OpenAIError {
    match reason {
        NoReply::Failure(failure) => api_error(&failure),
        NoReply::Aborted => aborted(),
        NoReply::Panic(message) => panic!("{message}"),
    }
}

fn api_error(failure: &ApiFailure) -> OpenAIError {
    let body = failure.to_json().to_string();
    let Ok(status_code) = failure.status().try_into() else {
        return OpenAIError::InvalidArgument(format!("{} is not an HTTP status", failure.status()));
    };

    let wrapped = match decode::<WrappedError>(body.clone()) {
        Ok(wrapped) => wrapped,
        Err(error) => return error,
    };

    let mut api_error = wrapped.error;
    if failure.status() >= 500 {
        // The client does not parse the body of a server error: the whole body is the message.
        api_error.message = body;
        api_error.r#type = None;
        api_error.param = None;
        api_error.code = None;
    }
    OpenAIError::ApiError(ApiErrorResponse { status_code, api_error })
}
