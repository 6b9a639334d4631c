//! One conversation with the model.

use std::{
    io::{Write as _, stdout},
    sync::Arc,
};

use async_openai::{
    Client,
    config::Config,
    traits::RequestOptionsBuilder as _,
    types::chat::{
        ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
        CreateChatCompletionRequest,
    },
};
use examples::Provider;
use futures_util::StreamExt as _;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryStoreExt as _, InConversation,
    engine::InputMode,
    report::{NotStored, Outcome},
    store::Attach,
};
use tower_chat_history_openai::{
    ChatStreamService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory},
};

use super::{memory::Memory, notes::Notes};

const INSTRUCTIONS: &str = "You are a friendly assistant. Answer in a sentence or two.";

/// The integration of the history layer with async-openai.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Integration {
    /// A layer around a service that takes async-openai's request type
    Typed,
    /// A layer inside the async-openai client
    Client,
}

pub(crate) struct Session {
    chat: Chat,
    engine: Engine,
    notes: Notes,
    store: Arc<dyn Attach>,
    id: ConversationId,
    model: String,
}

enum Chat {
    Typed(ChatHistory<ChatStreamService<Arc<dyn Config>>, OpenAi>),
    Client(Client<Arc<dyn Config>>),
}

/// The end of an answer.
pub(crate) enum Answer {
    /// The answer is complete and stored.
    Complete,
    /// The answer was shown but not stored, for this reason.
    NotSaved(String),
}

impl Session {
    pub(crate) fn new(
        integration: Integration,
        store: Arc<dyn Attach>,
        provider: &Provider,
        id: ConversationId,
        memory: Memory,
    ) -> Self {
        let notes = Notes::default();
        let engine = Engine::with_options(Arc::clone(&store), memory.options(&notes));
        let chat = match integration {
            Integration::Typed => {
                let layer = ChatHistoryLayer::from_engine(engine.clone(), OpenAi::new());
                Chat::Typed(layer.layer(ChatStreamService::new(provider.client())))
            }
            Integration::Client => {
                let history = OpenAiHistory::from_engine(engine.clone()).input_mode(InputMode::New);
                Chat::Client(history.client(Arc::clone(&provider.config)))
            }
        };
        Self { chat, engine, notes, store, id, model: provider.model.clone() }
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Prints the notes since the last call.
    pub(crate) fn print_notes(&self) {
        for line in self.notes.take_lines() {
            eprintln!("[{line}]");
        }
    }

    /// Sends one line and prints the reply as it arrives. The request contains no history: the layer adds it.
    pub(crate) async fn ask(&mut self, text: &str) -> Result<Answer, BoxError> {
        // Print the note about a summary that was made after the previous reply.
        self.print_notes();
        let system = ChatCompletionRequestSystemMessage { content: INSTRUCTIONS.into(), name: None };
        let user = ChatCompletionRequestUserMessage { content: text.into(), name: None };
        let messages: Vec<ChatCompletionRequestMessage> = vec![system.into(), user.into()];
        let request = CreateChatCompletionRequest {
            model: self.model.clone(),
            messages,
            ..CreateChatCompletionRequest::default()
        };
        let mut stream = match &mut self.chat {
            Chat::Typed(chat) => chat.ready().await?.call(InConversation::new(self.id.clone(), request)).await?,
            Chat::Client(client) => {
                client.chat().header(CONVERSATION_ID, self.id.as_str())?.create_stream(request).await?
            }
        };
        while let Some(chunk) = stream.next().await {
            for choice in chunk?.choices {
                print!("{}", choice.delta.content.or(choice.delta.refusal).unwrap_or_default());
            }
            stdout().flush()?;
        }
        println!();

        self.print_notes();
        Ok(match self.notes.take_outcome() {
            Some(Outcome::NotStored(NotStored::Interrupted)) => {
                Answer::NotSaved("the reply ended early; not saved".into())
            }
            Some(Outcome::Failed(error)) => Answer::NotSaved(format!("not saved: {error}")),
            _ => Answer::Complete,
        })
    }

    /// Prints every message of the log as it was stored.
    pub(crate) async fn print_history(&self) -> Result<Answer, BoxError> {
        for message in self.store.conversation(&self.id).messages().await? {
            println!("{}: {}", message.role(), message.text());
        }
        Ok(Answer::Complete)
    }

    pub(crate) async fn delete(&self) -> Result<Answer, BoxError> {
        self.store.conversation(&self.id).clear().await?;
        println!("Conversation deleted.");
        Ok(Answer::Complete)
    }
}
