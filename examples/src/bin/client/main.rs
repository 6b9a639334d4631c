//! Code that was written without history, and remembers with one line more: `cargo run -p examples --bin client`.
//!
//! It keeps its own list of messages and sends all of it with every call, as async-openai's own examples do. The only
//! differences are where the client comes from, and a header that names the conversation. Run it twice: the second run
//! starts with an empty list, and the model knows what the first one was told.

use std::sync::Arc;

use async_openai::{
    traits::RequestOptionsBuilder as _,
    types::chat::{
        ChatCompletionRequestAssistantMessage, ChatCompletionRequestMessage, ChatCompletionRequestUserMessage,
        CreateChatCompletionRequestArgs,
    },
};
use clap::Parser;
use examples::{Provider, StoreUrl};
use tower_chat_history::{BoxError, ConversationId};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
use tower_chat_history_test::{Replies, rules};

/// Asks a few questions through a client that remembers.
#[derive(Parser)]
struct Args {
    /// What to ask, one after the other.
    #[arg(default_values_t = ["my name is Nemo".to_owned(), "what is my name?".to_owned()])]
    questions: Vec<String>,
    /// Where history is kept: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:client.db")]
    store: StoreUrl,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let provider = Provider::from_env(None, Replies::rules(rules::remembering())).await?;
    eprintln!("{}", provider.about);

    // Was: Client::with_config(config)
    let client = OpenAiHistory::new(args.store.open().await?).client(Arc::clone(&provider.config));
    let id = ConversationId::new(["client", "demo"])?;

    let mut messages: Vec<ChatCompletionRequestMessage> = Vec::new();
    for question in args.questions {
        messages.push(ChatCompletionRequestUserMessage { content: question.into(), name: None }.into());
        let request =
            CreateChatCompletionRequestArgs::default().model(&provider.model).messages(messages.clone()).build()?;
        // Was: client.chat().create(request)
        let response = client.chat().header(CONVERSATION_ID, id.as_str())?.create(request).await?;
        let answer = response.choices.into_iter().next().and_then(|choice| choice.message.content).unwrap_or_default();
        println!("{answer}");
        messages.push(ChatCompletionRequestAssistantMessage::from(answer.as_str()).into());
    }
    Ok(())
}
