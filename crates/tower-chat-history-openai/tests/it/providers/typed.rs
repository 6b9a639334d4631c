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
use tower_chat_history::{Message, engine::ToolResults};
use tower_chat_history_openai::{CannotCarry, ChatService, OpenAi};

use super::*;

fn question() -> ChatCompletionRequestMessage {
    ChatCompletionRequestUserMessage::from("v").into()
}

fn typed_result() -> ChatCompletionRequestMessage {
    result_of("x")
}

fn result_of(call: &str) -> ChatCompletionRequestMessage {
    ChatCompletionRequestToolMessage { content: "r".into(), tool_call_id: call.into() }.into()
}

/// Returns a request with a head, so that its digest counts.
fn request(messages: impl IntoIterator<Item = ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    let head = ChatCompletionRequestSystemMessage::from("S").into();
    let messages = std::iter::once(head).chain(messages).collect();
    CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() }
}

impl Chat {
    fn config(&self) -> OpenAIConfig {
        OpenAIConfig::new().with_api_base(self.server.base_url()).with_api_key("test")
    }

    /// Sends messages through the typed integration.
    async fn say_typed(
        &self,
        adapter: OpenAi,
        messages: impl IntoIterator<Item = ChatCompletionRequestMessage>,
    ) -> Result<(), BoxError> {
        let model = ChatService::new(Client::with_config(self.config()));
        let layer = ChatHistoryLayer::from_engine(self.engine.clone(), adapter);
        layer.layer(model).oneshot(InConversation::new(id(), request(messages))).await?;
        Ok(())
    }

    /// Sends messages through a client with history.
    async fn say_in_client(&self, messages: impl IntoIterator<Item = ChatCompletionRequestMessage>) {
        let history = OpenAiHistory::from_engine(self.engine.clone()).input_mode(InputMode::New);
        let history = self.name.map_or(history.clone(), |name| history.provider(name));
        let client = history.client(self.config());
        client.chat().header(CONVERSATION_ID, id().as_str()).unwrap().create(request(messages)).await.unwrap();
    }

    /// Starts a conversation whose first reply has a call, and whose second reply is a text. The client integration
    /// made the first one, or both.
    async fn begun(provider: ChatProvider, name: Option<&'static str>, calls: usize, options: HistoryOptions) -> Self {
        let replies = [Reply::calls([("x", "f", "{}")]).thinking("look"), Reply::text("a"), Reply::text("b")];
        let chat = Self::start(provider, name, Replies::script(replies), options).await;
        for message in [question(), typed_result()].into_iter().take(calls) {
            chat.say_in_client([message]).await;
        }
        chat
    }
}

fn field_of(error: &BoxError) -> Option<(&str, &'static str)> {
    error.downcast_ref::<CannotCarry>().map(|error| (error.provider(), error.field()))
}

/// Returns how often the text of the newest request has this field.
fn sent_with(chat: &Chat, field: &str) -> usize {
    let prompts = chat.server.prompts_json();
    prompts.last().unwrap().to_string().matches(&format!("\"{field}\"")).count()
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
        let error = chat.say_typed(OpenAi::new().provider(name), [typed_result()]).await.unwrap_err();
        assert_eq!(field_of(&error), Some((name, field)));
        assert_eq!((chat.server.requests().len(), chat.log().await.len()), (1, 2), "{provider:?}: nothing was sent");
        // The integration that the error names continues the turn.
        chat.say_in_client([typed_result()]).await;
    }
}

#[tokio::test]
async fn the_recorded_provider_counts_if_the_call_names_none() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 1, HistoryOptions::new()).await;
        let error = chat.say_typed(OpenAi::new(), [typed_result()]).await.unwrap_err();
        assert_eq!(field_of(&error), Some((name, field)));
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
        let error = chat.say_typed(OpenAi::new(), [typed_result()]).await.unwrap_err();
        assert!(field_of(&error).is_none(), "{provider:?}: {error}");
        assert_eq!(chat.server.requests().len(), 2, "{provider:?}: the provider itself refuses");
        assert_eq!(*reports.lock().unwrap(), [0, 1]);
    }
}

#[tokio::test]
async fn the_next_question_is_accepted_where_only_the_current_turn_counts() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 2, HistoryOptions::new()).await;
        let said = chat.say_typed(OpenAi::new().provider(name), [question()]).await;
        if provider == ChatProvider::DeepSeek {
            assert_eq!(field_of(&said.unwrap_err()), Some((name, field)));
        } else {
            assert!(said.is_ok(), "{provider:?}: {said:?}");
        }
    }
}

#[tokio::test]
async fn a_call_without_input_fails_if_the_results_were_stored_before() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 1, HistoryOptions::new()).await;
        let stored = ToolResults::new(id(), [Message::tool("x", "r")]);
        assert!(chat.engine.store_results(stored).await.unwrap().open.is_empty());
        let error = chat.say_typed(OpenAi::new().provider(name), []).await.unwrap_err();
        assert_eq!(field_of(&error), Some((name, field)));
        assert_eq!(chat.server.requests().len(), 1, "{provider:?}: nothing was sent");
        // The integration that the error names continues the turn.
        chat.say_in_client([]).await;
    }
}

#[tokio::test]
async fn results_with_a_question_are_accepted_where_only_the_current_turn_counts() {
    for (provider, name, field) in FIELDS {
        let chat = Chat::begun(provider, Some(name), 1, HistoryOptions::new()).await;
        let said = chat.say_typed(OpenAi::new().provider(name), [typed_result(), question()]).await;
        if provider == ChatProvider::DeepSeek {
            assert_eq!(field_of(&said.unwrap_err()), Some((name, field)));
        } else {
            assert!(said.is_ok(), "{provider:?}: {said:?}");
            assert_eq!(sent_with(&chat, field), 0, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn thinking_of_an_earlier_round_may_be_missing() {
    for (provider, name, field) in [FIELDS[2], FIELDS[3]] {
        let replies = [Reply::calls([("x", "f", "{}")]).thinking("look"), Reply::calls([("y", "f", "{}")])];
        let replies = Replies::script(replies.into_iter().chain([Reply::text("a")]));
        let chat = Chat::start(provider, Some(name), replies, HistoryOptions::new()).await;
        chat.say_in_client([question()]).await;
        chat.say_in_client([typed_result()]).await;
        let said = chat.say_typed(OpenAi::new().provider(name), [result_of("y")]).await;
        assert!(said.is_ok(), "{provider:?}: {said:?}");
        assert_eq!(sent_with(&chat, field), 0, "{provider:?}");
    }
}

#[tokio::test]
async fn data_that_openai_or_xai_encrypted_behind_openrouter_may_be_missing() {
    for format in ["openai-responses-v1", "xai-responses-v1"] {
        let detail = json!({"type": "reasoning.encrypted", "data": "d", "id": "rs_1", "format": format, "index": 0});
        let reply = Reply::calls([("x", "f", "{}")]).field("reasoning_details", json!([detail]));
        let replies = Replies::script([reply, Reply::text("a")]);
        let chat = Chat::start(ChatProvider::OpenRouter, Some("openrouter"), replies, HistoryOptions::new()).await;
        chat.say_in_client([question()]).await;
        assert_eq!(chat.log().await[1]["reasoning_details"][0]["format"], format);
        let said = chat.say_typed(OpenAi::new().provider("openrouter"), [typed_result()]).await;
        assert!(said.is_ok(), "{format}: {said:?}");
        assert_eq!(sent_with(&chat, "reasoning_details"), 0, "{format}");
    }
}

#[tokio::test]
async fn replies_without_these_fields_are_carried() {
    let replies = [Reply::calls([("x", "f", "{}")]), Reply::text("a"), Reply::text("b")];
    for name in ["openai", "deepseek", "gcp.gemini", "openrouter", "litellm"] {
        let chat =
            Chat::start(ChatProvider::OpenAi, None, Replies::script(replies.clone()), HistoryOptions::new()).await;
        for message in [question(), typed_result(), question()] {
            chat.say_typed(OpenAi::new().provider(name), [message]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn reasoning_of_replies_without_tools_may_be_missing() {
    for (provider, name, _) in FIELDS {
        let replies = Replies::script([Reply::text("a").thinking("hm"), Reply::text("b"), Reply::text("c")]);
        let chat = Chat::start(provider, Some(name), replies, HistoryOptions::new()).await;
        chat.say_in_client([question()]).await;
        for _ in 0..2 {
            let said = chat.say_typed(OpenAi::new().provider(name), [question()]).await;
            assert!(said.is_ok(), "{provider:?}: {said:?}");
        }
    }
}

#[tokio::test]
async fn a_signature_in_the_id_of_a_call_is_carried() {
    let id = "call_1__thought__CtQBAR==";
    let replies = Replies::script([Reply::calls([(id, "f", "{}")]), Reply::text("a")]);
    let chat = Chat::start(ChatProvider::OpenAi, None, replies, HistoryOptions::new()).await;
    chat.say_typed(OpenAi::new().provider("litellm"), [question()]).await.unwrap();
    let result = ChatCompletionRequestToolMessage { content: "r".into(), tool_call_id: id.into() };
    chat.say_typed(OpenAi::new().provider("litellm"), [result.into()]).await.unwrap();
    assert_eq!(chat.server.prompts_json()[1][2]["tool_calls"][0]["id"], id);
}
