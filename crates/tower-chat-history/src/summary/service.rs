//! Summaries made by a tower service.

use std::{
    borrow::Cow,
    error::Error,
    fmt,
    future::poll_fn,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tower_chat_history_core::Message;
use tower_service::Service;

use super::{Summarizer, SummaryPrompt, SummaryRequest, SummaryResponse};
use crate::{
    call::Reply,
    completion,
    error::{BoxError, error_type},
};

/// Makes summaries with a tower service, usually a client of a smaller model with its own timeout, limits and
/// retries.
///
/// Two closures convert to and from the service's types. `request` makes a request from the messages of a prompt and
/// the largest allowed number of tokens of the answer. `reply` returns the reply in a response. [`json_summarizer`]
/// provides them for the chat-completions format, and `tower-chat-history-openai` for async-openai's types.
///
/// For each call, the service is cloned, and the clone is polled until it is ready, and called. The original is never
/// polled, so it holds no permit between calls. Errors of the service are returned unchanged.
///
/// A reasoning model needs additional tokens for its reasoning. For such a model, `request` must add them to the
/// number that it receives.
///
/// ```
/// use tower_chat_history::{BoxError, Message, Reply, summary::ServiceSummarizer};
///
/// # struct Ask { prompt: Vec<Message>, max_tokens: u32 }
/// # let service = tower::service_fn(|_: Ask| async { Ok::<_, std::io::Error>(String::new()) });
/// let summarizer = ServiceSummarizer::new(
///     service,
///     |prompt, max_tokens| Ask { prompt, max_tokens },
///     |answer: &String| Reply::new(Message::assistant(answer)),
/// );
/// # let _ = summarizer;
/// ```
pub struct ServiceSummarizer<S, M, R> {
    /// The mutex makes the struct `Sync` even if the service is not. It is locked only for cloning.
    service: Mutex<S>,
    request: M,
    reply: R,
    prompt: SummaryPrompt,
    model: Option<String>,
    provider: Option<&'static str>,
    error_type: ErrorType,
    is_too_long: fn(&(dyn Error + 'static)) -> bool,
}

/// Returns the name of an error for spans.
type ErrorType = fn(&(dyn Error + 'static)) -> Cow<'static, str>;

impl<S, M, R> ServiceSummarizer<S, M, R> {
    /// Creates a summarizer that calls this service, with the default [prompt](SummaryPrompt).
    pub fn new<Request>(service: S, request: M, reply: R) -> Self
    where
        S: Service<Request>,
        M: Fn(Vec<Message>, u32) -> Request,
        R: Fn(&S::Response) -> Reply,
    {
        Self {
            service: Mutex::new(service),
            request,
            reply,
            prompt: SummaryPrompt::default(),
            model: None,
            provider: None,
            error_type,
            is_too_long: |_| false,
        }
    }

    /// Sets the prompt. The default is [`SummaryPrompt::default`].
    #[must_use]
    pub fn prompt(mut self, prompt: SummaryPrompt) -> Self {
        self.prompt = prompt;
        self
    }

    /// Sets the name of the model in spans. It has no effect on requests: the closure `request` sets their model. The
    /// default is none.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the provider of the model in spans, by its OpenTelemetry name (`gen_ai.provider.name`). The default is
    /// none.
    #[must_use]
    pub const fn provider(mut self, name: &'static str) -> Self {
        self.provider = Some(name);
        self
    }

    /// Sets a function that returns the names of the service's errors in spans. The default is
    /// [`error::error_type`](crate::error::error_type).
    #[must_use]
    pub fn error_type(mut self, name: fn(&(dyn Error + 'static)) -> Cow<'static, str>) -> Self {
        self.error_type = name;
        self
    }

    /// Sets a function that recognizes the service's errors for prompts that are too long. See
    /// [`Summarizer::is_too_long`]. By default, no error is recognized.
    #[must_use]
    pub fn is_too_long(mut self, is_too_long: fn(&(dyn Error + 'static)) -> bool) -> Self {
        self.is_too_long = is_too_long;
        self
    }
}

/// Creates a summarizer for a service whose requests and responses are JSON values in the chat-completions format,
/// like the inner service of [`adapt::Json`](crate::adapt::Json).
///
/// The requests have the fields `model`, `messages` and `max_completion_tokens`. If the provider needs other fields,
/// use [`ServiceSummarizer::new`].
pub fn json_summarizer<S>(
    service: S,
    model: impl Into<String>,
) -> ServiceSummarizer<
    S,
    impl Fn(Vec<Message>, u32) -> Value + Send + Sync + 'static,
    impl Fn(&Value) -> Reply + Send + Sync + 'static,
>
where
    S: Service<Value, Response = Value>,
{
    let model: String = model.into();
    let name = model.clone();
    ServiceSummarizer::new(
        service,
        move |messages, max_tokens| json_request(&model, &messages, max_tokens),
        completion::reply_of_value,
    )
    .model(name)
}

fn json_request(model: &str, messages: &[Message], max_tokens: u32) -> Value {
    let mut list = Vec::with_capacity(messages.len());
    for message in messages {
        list.push(json!({"role": message.role().as_str(), "content": message.text()}));
    }
    json!({"model": model, "messages": list, "max_completion_tokens": max_tokens})
}

/// The error for an answer that the provider's content filter stopped. An answer that reached its token limit is not
/// an error: it is unfinished.
#[derive(Debug, thiserror::Error)]
#[error("the summary was stopped by the provider's content filter")]
struct ContentFilter;

#[async_trait]
impl<S, M, R, Request> Summarizer for ServiceSummarizer<S, M, R>
where
    S: Service<Request, Future: Send, Error: Into<BoxError>> + Clone + Send + 'static,
    M: Fn(Vec<Message>, u32) -> Request + Send + Sync + 'static,
    R: Fn(&S::Response) -> Reply + Send + Sync + 'static,
{
    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn provider(&self) -> Option<&'static str> {
        self.provider
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        (self.error_type)(error)
    }

    fn is_too_long(&self, error: &(dyn Error + 'static)) -> bool {
        (self.is_too_long)(error)
    }

    /// # Errors
    ///
    /// Returns the errors of the service, and an error if a content filter stopped the answer.
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        // The lock is held only for `clone`, which does not change the service. A poisoned lock is therefore safe to
        // use.
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
        let messages = self.prompt.messages(&request);
        let response = service.call((self.request)(messages, request.max_tokens)).await.map_err(Into::into)?;
        summarized((self.reply)(&response))
    }
}

fn summarized(reply: Reply) -> Result<SummaryResponse, BoxError> {
    let stopped = reply.finish_reason.as_deref();
    if stopped == Some("content_filter") {
        return Err(ContentFilter.into());
    }
    let mut summarized = SummaryResponse::new(reply.messages.iter().map(Message::text).collect::<String>());
    summarized.finished = stopped != Some("length") && !reply.incomplete;
    summarized.model = reply.model;
    summarized.usage = reply.usage;
    Ok(summarized)
}

impl<S, M, R> fmt::Debug for ServiceSummarizer<S, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceSummarizer").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_test::{assert_pending, assert_ready};
    use tower_chat_history_core::Usage;
    use tower_test::mock;

    use super::*;

    fn request() -> SummaryRequest {
        SummaryRequest::new(None, vec![Message::user("Hi")], 100)
    }

    fn response(text: &str, reason: &str) -> Value {
        json!({
            "model": "small-1",
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2},
        })
    }

    #[tokio::test]
    async fn the_service_is_not_called_before_it_is_ready() {
        let (service, mut handle) = mock::pair::<Value, Value>();
        let summarizer: Arc<dyn Summarizer> = Arc::new(json_summarizer(service, "small"));
        handle.allow(0);
        let mut summary = tokio_test::task::spawn(summarizer.summarize(request()));
        assert_pending!(summary.poll());
        assert_pending!(tokio_test::task::spawn(handle.next_request()).poll());
        handle.allow(1);
        assert!(summary.is_woken());
        assert_pending!(summary.poll());
        let (sent, respond) = handle.next_request().await.unwrap();
        assert_eq!((&sent["model"], &sent["max_completion_tokens"]), (&json!("small"), &json!(100)));
        let prompt = SummaryPrompt::default().messages(&request());
        for (sent, message) in sent["messages"].as_array().unwrap().iter().zip(&prompt) {
            assert_eq!(sent, &serde_json::to_value(message).unwrap());
        }
        respond.send_response(response("short", "stop"));
        let summary = assert_ready!(summary.poll()).unwrap();
        assert_eq!((&*summary.text, summary.finished, summary.model.as_deref()), ("short", true, Some("small-1")));
        assert_eq!(summary.usage, Some(Usage::new(7, 2)));
    }

    #[tokio::test]
    async fn errors_are_passed_on_unchanged() {
        let (service, mut handle) = mock::pair::<Value, Value>();
        let summarizer = json_summarizer(service, "small");
        let mut summary = tokio_test::task::spawn(summarizer.summarize(request()));
        assert_pending!(summary.poll());
        handle.next_request().await.unwrap().1.send_error(std::fmt::Error);
        assert!(assert_ready!(summary.poll()).unwrap_err().is::<std::fmt::Error>());
        handle.send_error(std::fmt::Error);
        let closed = summarizer.summarize(request()).await.unwrap_err();
        assert!(closed.to_string().contains("an error occurred"), "error of readiness: {closed}");
    }

    #[tokio::test]
    async fn summaries_are_made_concurrently() {
        let (service, mut handle) = mock::pair::<Value, Value>();
        let summarizer = json_summarizer(service, "small").prompt(SummaryPrompt::new("Distill."));
        let mut one = tokio_test::task::spawn(summarizer.summarize(request()));
        let mut other = tokio_test::task::spawn(summarizer.summarize(request()));
        assert_pending!(one.poll());
        assert_pending!(other.poll());
        let (sent, first) = handle.next_request().await.unwrap();
        let (_, second) = handle.next_request().await.unwrap();
        assert!(sent["messages"][0]["content"].as_str().unwrap().starts_with("Distill.\n"));
        second.send_response(response("2", "stop"));
        first.send_response(response("1", "length"));
        assert_eq!(assert_ready!(other.poll()).unwrap().text, "2");
        let one = assert_ready!(one.poll()).unwrap();
        assert_eq!((&*one.text, one.finished), ("1", false));
    }

    #[test]
    fn only_a_complete_answer_is_finished() {
        let of = |reason: Option<&str>| {
            let mut reply = Reply::new(Message::assistant("a"));
            reply.finish_reason = reason.map(str::to_owned);
            summarized(reply)
        };
        assert!(of(None).unwrap().finished);
        assert!(of(Some("stop")).unwrap().finished);
        assert!(!of(Some("length")).unwrap().finished);
        assert!(of(Some("content_filter")).is_err());
        assert_eq!(summarized(Reply::default()).unwrap().text, "", "no choice");
    }
}
