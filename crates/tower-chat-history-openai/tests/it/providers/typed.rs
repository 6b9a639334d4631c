//! The typed integration, which carries only the fields that async-openai's types have.

use async_openai::{
    Client,
    config::OpenAIConfig,
    traits::RequestOptionsBuilder as _,
    types::chat::{
        ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestToolMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest,
    },
};
use tower_chat_history_openai::{CannotCarry, ChatService, OpenAi};

use super::*;

fn question() -> ChatCompletionRequestMessage {
    ChatCompletionRequestUserMessage::from("v").into()
}

fn typed_result() -> ChatCompletionRequestMessage {
    ChatCompletionRequestToolMessage { content: "r".into(), tool_call_id: "x".into() }.into()
}

/// Returns a request with a head, so that its digest counts.
fn request(message: ChatCompletionRequestMessage) -> CreateChatCompletionRequest {
    let messages = vec![ChatCompletionRequestSystemMessage::from("S").into(), message];
    CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() }
}

impl Chat {
    fn config(&self) -> OpenAIConfig {
        OpenAIConfig::new().with_api_base(self.server.base_url()).with_api_key("test")
    }

    /// Sends a message through the typed integration.
    async fn say_typed(&self, adapter: OpenAi, message: ChatCompletionRequestMessage) -> Result<(), BoxError> {
        let model = ChatService::new(Client::with_config(self.config()));
        let layer = ChatHistoryLayer::from_engine(self.engine.clone(), adapter);
        layer.layer(model).oneshot(InConversation::new(id(), request(message))).await?;
        Ok(())
    }

    /// Sends a message through a client with history.
    async fn say_in_client(&self, message: ChatCompletionRequestMessage) {
        let history = OpenAiHistory::from_engine(self.engine.clone()).input_mode(InputMode::New);
        let history = self.name.map_or(history.clone(), |name| history.provider(name));
        let client = history.client(self.config());
        client.chat().header(CONVERSATION_ID, id().as_str()).unwrap().create(request(message)).await.unwrap();
    }

    /// Starts a conversation whose first reply has a call, and whose second reply is a text. The client integration
    /// made the first one, or both.
    async fn begun(provider: ChatProvider, name: Option<&'static str>, calls: usize, options: HistoryOptions) -> Self {
        let replies = [Reply::calls([("x", "f", "{}")]).thinking("look"), Reply::text("a"), Reply::text("b")];
        let chat = Self::start(provider, name, Replies::script(replies), options).await;
        for message in [question(), typed_result()].into_iter().take(calls) {
            chat.say_in_client(message).await;
        }
        chat
    }
}

fn field_of(error: &BoxError) -> Option<(&str, &'static str)> {
    error.downcast_ref::<CannotCarry>().map(|error| (error.provider(), error.field()))
}

const FIELDS: [(ChatProvider, &str, &str); 4] = [
    (ChatProvider::DeepSeek, "deepseek", "reasoning_content"),
    (ChatProvider::Gemini, "gcp.gemini", "extra_content"),
    (ChatProvider::OpenRouter, "openrouter", "reasoning_details"),
    (ChatProvider::LiteLlm, "litellm", "thinking_blocks"),
];

#[tokio::test]
async fn results_fail_before_the_call_if_the_provider_is_known_to_refuse_them() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 1, HistoryOptions::new()).await;
        let error = chat.say_typed(OpenAi::new().provider(name), typed_result()).await.unwrap_err();
        assert_eq!(field_of(&error), Some((name, field)));
        assert_eq!((chat.server.requests().len(), chat.log().await.len()), (1, 2), "{provider:?}: nothing was sent");
        // The integration that the error names continues the turn.
        chat.say_in_client(typed_result()).await;
    }
}

#[tokio::test]
async fn the_recorded_provider_counts_if_the_call_names_none() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 1, HistoryOptions::new()).await;
        let error = chat.say_typed(OpenAi::new(), typed_result()).await.unwrap_err();
        if provider == ChatProvider::DeepSeek {
            // Its reasoning is bound to nothing, so no provider is recorded with it, and DeepSeek itself refuses.
            assert!(field_of(&error).is_none() && error.to_string().contains("reasoning_content"), "{error}");
        } else {
            assert_eq!(field_of(&error), Some((name, field)));
        }
    }
}

#[tokio::test]
async fn an_unknown_provider_gets_what_the_types_carry_and_the_report_says_so() {
    for (provider, ..) in FIELDS {
        let reports = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let options = HistoryOptions::new().on_turn({
            let reports = std::sync::Arc::clone(&reports);
            move |report| reports.lock().unwrap().push(report.downgraded)
        });
        let chat = Chat::begun(provider, None, 1, options).await;
        let error = chat.say_typed(OpenAi::new(), typed_result()).await.unwrap_err();
        assert!(field_of(&error).is_none(), "{provider:?}: {error}");
        assert_eq!(chat.server.requests().len(), 2, "{provider:?}: the provider itself refuses");
        assert_eq!(*reports.lock().unwrap(), [0, 1]);
    }
}

#[tokio::test]
async fn the_next_question_is_accepted_where_only_the_current_turn_counts() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 2, HistoryOptions::new()).await;
        let said = chat.say_typed(OpenAi::new().provider(name), question()).await;
        if provider == ChatProvider::DeepSeek {
            assert_eq!(field_of(&said.unwrap_err()), Some((name, field)));
        } else {
            assert!(said.is_ok(), "{provider:?}: {said:?}");
        }
    }
}

#[tokio::test]
async fn replies_without_these_fields_are_carried() {
    let replies = [Reply::calls([("x", "f", "{}")]), Reply::text("a"), Reply::text("b")];
    for name in ["openai", "deepseek", "gcp.gemini", "openrouter", "litellm"] {
        let chat =
            Chat::start(ChatProvider::OpenAi, None, Replies::script(replies.clone()), HistoryOptions::new()).await;
        for message in [question(), typed_result(), question()] {
            chat.say_typed(OpenAi::new().provider(name), message).await.unwrap();
        }
    }
}

#[tokio::test]
async fn reasoning_of_replies_without_tools_may_be_missing() {
    for (provider, name, _) in FIELDS {
        let replies = Replies::script([Reply::text("a").thinking("hm"), Reply::text("b"), Reply::text("c")]);
        let chat = Chat::start(provider, Some(name), replies, HistoryOptions::new()).await;
        chat.say_in_client(question()).await;
        for _ in 0..2 {
            let said = chat.say_typed(OpenAi::new().provider(name), question()).await;
            assert!(said.is_ok(), "{provider:?}: {said:?}");
        }
    }
}

#[tokio::test]
async fn a_signature_in_the_id_of_a_call_is_carried() {
    let id = "call_1__thought__CtQBAR==";
    let replies = Replies::script([Reply::calls([(id, "f", "{}")]), Reply::text("a")]);
    let chat = Chat::start(ChatProvider::OpenAi, None, replies, HistoryOptions::new()).await;
    chat.say_typed(OpenAi::new().provider("litellm"), question()).await.unwrap();
    let result = ChatCompletionRequestToolMessage { content: "r".into(), tool_call_id: id.into() };
    chat.say_typed(OpenAi::new().provider("litellm"), result.into()).await.unwrap();
    assert_eq!(chat.server.prompts_json()[1][2]["tool_calls"][0]["id"], id);
}
