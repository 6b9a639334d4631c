//! Adds history to existing client code with two changed lines: `cargo run -p examples --bin client`.
//!
//! The program has its own list of messages and sends the whole list with every call, as async-openai's own examples
//! do. Two lines differ from the code without history: the line that creates the client, and the line that makes the
//! call and names its conversation. Run the program twice: the second run starts with an empty list, and the model
//! still knows the messages of the first run.

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

/// Ask a few questions through a client that remembers.
#[derive(Parser)]
struct Args {
    /// Questions to ask, one after another
    #[arg(default_values_t = ["my name is Nemo".to_owned(), "what is my name?".to_owned()])]
    questions: Vec<String>,
    /// URL of the store: memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port
    #[arg(long, default_value = "sqlite:client.db")]
    store: StoreUrl,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let provider = Provider::from_env(None, Replies::rules(rules::remembering())).await?;
    eprintln!("{}", provider.about);

    // Before: Client::with_config(config)
    let client = OpenAiHistory::new(args.store.open().await?).client(Arc::clone(&provider.config));
    let id = ConversationId::new(["client", "demo"])?;

    let mut messages: Vec<ChatCompletionRequestMessage> = Vec::new();
    for question in args.questions {
        messages.push(ChatCompletionRequestUserMessage { content: question.into(), name: None }.into());
        let request =
            CreateChatCompletionRequestArgs::default().model(&provider.model).messages(messages.clone()).build()?;

        // Before: client.chat().create(request)
        let response = client.chat().header(CONVERSATION_ID, id.as_str())?.create(request).await?;
        let answer = response.choices.into_iter().next().and_then(|choice| choice.message.content).unwrap_or_default();
        println!("{answer}");

        messages.push(ChatCompletionRequestAssistantMessage::from(answer.as_str()).into());
    }
    Ok(())
}
