//! Limits of calls and conversations.

mod conversations;
mod kept;
mod others;
mod service;

use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore, HistoryStoreExt, MemoryStore, Message, Reply,
    TurnInput,
    limits::{LimitExceeded, LimitKind, LimitRules, Limits},
};

use crate::support::{calls, texts};

fn id(text: &str) -> ConversationId {
    text.parse().unwrap()
}

fn engine(limits: impl Into<LimitRules>) -> Engine {
    Engine::with_options(MemoryStore::new(), HistoryOptions::new().limits(limits))
}

/// Makes a call with this input, which gets this reply. Returns the messages that the model received.
async fn say(engine: &Engine, id: &str, input: Message, reply: Message) -> Result<Vec<Message>, LimitExceeded> {
    call(engine, TurnInput::new(self::id(id), [input]), reply).await
}

async fn call(engine: &Engine, input: TurnInput, reply: Message) -> Result<Vec<Message>, LimitExceeded> {
    match engine.begin(input).await {
        Ok(turn) => {
            let context = turn.context().to_vec();
            turn.commit(Reply::new(reply)).await.unwrap();
            Ok(context)
        }
        Err(HistoryError::Limit(exceeded)) => Err(exceeded),
        Err(error) => panic!("{error}"),
    }
}

/// Asks a question, which gets a short answer.
async fn ask(engine: &Engine, id: &str, text: &str) -> Result<Vec<Message>, LimitExceeded> {
    say(engine, id, Message::user(text), Message::assistant("a")).await
}

/// Returns the texts of the log.
async fn log(engine: &Engine, id: &str) -> Vec<String> {
    texts(&engine.store().conversation(&self::id(id)).messages().await.unwrap())
}
