//! Summaries by a service with async-openai's types.

use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use tower_chat_history::{Message, Reply, refusal::Remedy, summary::ServiceSummarizer};
use tower_service::Service;

use crate::{adapter::PROVIDER, error_type, from_typed, to_typed::to_request_messages};

/// Creates a summarizer that calls a service with async-openai's types, such as a [`ChatService`](crate::ChatService).
///
/// Its requests set the model, the messages and `max_completion_tokens`, which is the summary's limit in tokens. A
/// reasoning model needs a larger limit, because its reasoning counts too. For such a model, use
/// [`ServiceSummarizer::new`], which builds the request with a closure.
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
/// let messages = vec![Message::user("I am Nemo.")];
/// let summary = summarizer.summarize(SummaryRequest::new(None, messages, 300)).await?;
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
    ServiceSummarizer::new(
        service,
        move |messages: Vec<Message>, max_tokens: u32| CreateChatCompletionRequest {
            model: model.clone(),
            messages: to_request_messages(&messages).messages,
            max_completion_tokens: Some(max_tokens),
            ..CreateChatCompletionRequest::default()
        },
        // If the response cannot be read, the reply is empty. The engine refuses an empty summary.
        |response: &CreateChatCompletionResponse| from_typed::reply(response).unwrap_or_default(),
    )
    .model(name)
    .provider(PROVIDER)
    .error_type(error_type::error_type)
    .is_too_long(|error| matches!(error_type::remedy_of(error), Some(Remedy::Shorten(_) | Remedy::FewerBytes)))
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
    async fn the_request_has_the_model_the_prompt_and_the_limit() {
        let llm = MockLlm::script([Reply::text("short"), Reply::text("cut").finish("length").model("small-1")]);
        // The name of the model may be borrowed: the summarizer copies it.
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
