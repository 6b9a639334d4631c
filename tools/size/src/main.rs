//! A program that calls a model once for each argument, without history, or with it (feature `history`).
//!
//! The model is a stub. It writes each request as JSON and reads its response from JSON, as a client does, so both
//! programs contain that code.

use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use tower::{BoxError, ServiceExt as _, util::BoxCloneSyncService};

type Model = BoxCloneSyncService<CreateChatCompletionRequest, CreateChatCompletionResponse, BoxError>;

const RESPONSE: &str = r#"{
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4o",
    "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null,
        "message": {"role": "assistant", "content": "An answer."}}]
}"#;

fn model() -> Model {
    BoxCloneSyncService::new(tower::service_fn(async |request: CreateChatCompletionRequest| {
        println!("{}", serde_json::to_string(&request)?);
        Ok(serde_json::from_str(RESPONSE)?)
    }))
}

fn question(text: &str) -> Result<CreateChatCompletionRequest, BoxError> {
    let json = serde_json::json!({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]});
    Ok(serde_json::from_value(json)?)
}

#[cfg(not(feature = "history"))]
async fn chat(questions: impl Iterator<Item = String>) -> Result<(), BoxError> {
    let model = model();
    for text in questions {
        let answer = model.clone().oneshot(question(&text)?).await?;
        println!("{answer:?}");
    }
    Ok(())
}

#[cfg(feature = "history")]
async fn chat(questions: impl Iterator<Item = String>) -> Result<(), BoxError> {
    use tower::Layer as _;
    use tower_chat_history::{ChatHistoryLayer, ConversationId, InConversation, MemoryStore};
    use tower_chat_history_openai::OpenAi;

    let model = ChatHistoryLayer::new(MemoryStore::new(), OpenAi::new()).layer(model());
    let id = ConversationId::new(["user-42"])?;
    for text in questions {
        let answer = model.clone().oneshot(InConversation::new(id.clone(), question(&text)?)).await?;
        println!("{answer:?}");
    }
    Ok(())
}

fn main() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(chat(std::env::args().skip(1)))
}
