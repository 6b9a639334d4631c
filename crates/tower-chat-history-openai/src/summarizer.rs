//! Summaries by a service of async-openai's types.

use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use tower_chat_history::{Message, Reply, summary::ServiceSummarizer};
use tower_service::Service;

use crate::{adapter::PROVIDER, error_type, from_typed, to_typed};

/// Makes summaries by a service of async-openai's types, such as a [`ChatService`](crate::ChatService) of a smaller model.
///
/// A request has the model, the messages and `max_completion_tokens`. A model that thinks needs more of them than the summary
/// may have: use [`ServiceSummarizer::new`] then, which takes the request from a closure.
///
/// ```
/// use tower_chat_history::{BoxError, Message, summary::{Summarizer, SummaryRequest}};
/// use tower_chat_history_openai::summarizer;
/// use tower_chat_history_test::{MockLlm, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let small = MockLlm::script([Reply::text("The user is Nemo.")]);
/// let summarizer = summarizer(small.unary(), "gpt-4.1-mini");
///
/// let summary = summarizer.summarize(SummaryRequest::new(None, vec![Message::user("I am Nemo.")], 300)).await?;
/// assert_eq!(summary.text, "The user is Nemo.");
/// # Ok(())
/// # }
/// ```
pub fn summarizer<S>(
    service: S,
    model: impl Into<String>,
) -> ServiceSummarizer<
    S,
    impl Fn(Vec<Message>, u32) -> CreateChatCompletionRequest + Send + Sync + 'static,
    impl Fn(&CreateChatCompletionResponse) -> Reply + Send + Sync + 'static,
>
where
    S: Service<CreateChatCompletionRequest, Response = CreateChatCompletionResponse>,
{
    let model: String = model.into();
    let name = model.clone();
    let request = move |messages: Vec<Message>, max_tokens: u32| CreateChatCompletionRequest {
        model: model.clone(),
        messages: messages.iter().filter_map(|message| to_typed::request_message(message).message).collect(),
        max_completion_tokens: Some(max_tokens),
        ..CreateChatCompletionRequest::default()
    };
    // A response that makes no message says nothing: the summary is then refused for that.
    ServiceSummarizer::new(service, request, |response: &CreateChatCompletionResponse| {
        from_typed::reply(response).unwrap_or_default()
    })
    .model(name)
    .provider(PROVIDER)
    .error_type(error_type::error_type)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tower_chat_history::{
        Role,
        summary::{Summarizer, SummaryRequest},
    };
    use tower_chat_history_test::{ApiFailure, MockLlm, Reply};

    use super::*;

    fn request() -> SummaryRequest {
        SummaryRequest::new(Some("Before.".to_owned()), vec![Message::user("Hi"), Message::assistant("Hello")], 250)
    }

    #[tokio::test]
    async fn a_summary_is_asked_for_with_its_limit() {
        let llm = MockLlm::script([Reply::text("short"), Reply::text("cut").finish("length").model("small-1")]);
        // A model's name may be borrowed: the summarizer keeps none of it.
        let name = String::from("small");
        let summarizer: Arc<dyn Summarizer> = Arc::new(summarizer(llm.unary(), name.as_str()));
        drop(name);
        let summary = summarizer.summarize(request()).await.unwrap();
        assert_eq!((&*summary.text, summary.finished, summary.model.as_deref()), ("short", true, Some("small")));
        assert!(summary.usage.is_some());
        let cut = summarizer.summarize(request()).await.unwrap();
        assert_eq!((&*cut.text, cut.finished, cut.model.as_deref()), ("cut", false, Some("small-1")));

        let prompt = &llm.prompts()[0];
        assert_eq!([prompt[0].role(), prompt[1].role()], [&Role::System, &Role::User]);
        assert!(prompt[1].text().contains("Before.") && prompt[1].text().contains("assistant: Hello"));
        assert_eq!(llm.requests()[0].max_completion_tokens, Some(250));
    }

    #[tokio::test]
    async fn errors_are_those_of_the_client() {
        let llm = MockLlm::script([Reply::error(ApiFailure::server_error()), Reply::no_choices()]);
        let summarizer = summarizer(llm.unary(), "small");
        let error = summarizer.summarize(request()).await.unwrap_err();
        assert!(error.is::<async_openai::error::OpenAIError>());
        assert_eq!(summarizer.summarize(request()).await.unwrap().text, "");
    }
}
