//! One conversation with the model.

use std::{
    io::{Write as _, stdout},
    sync::Arc,
};

use futures_util::StreamExt as _;
use tower_chat_history::{
    BoxError, ConversationId, Engine, HistoryStore, HistoryStoreExt as _,
    report::{NotStored, TurnOutcome},
};

use super::{
    memory::{Memory, Notes},
    via::{Chat, Model, Via},
};

pub(crate) struct Session {
    chat: Chat,
    model: Model,
    engine: Engine,
    notes: Notes,
    store: Arc<dyn HistoryStore>,
    id: ConversationId,
    /// The largest reply, for APIs that require a limit.
    max_tokens: u32,
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
        via: Via,
        store: Arc<dyn HistoryStore>,
        model: Model,
        id: ConversationId,
        memory: Memory,
    ) -> Result<Self, BoxError> {
        let notes = Notes::default();
        let max_tokens = memory.max_reply();
        let engine = Engine::with_options(Arc::clone(&store), memory.options(&notes));
        let chat = Chat::new(via, &model, engine.clone())?;
        Ok(Self { chat, model, engine, notes, store, id, max_tokens })
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Stops the mock model, if it is one.
    pub(crate) async fn shutdown(self) {
        self.model.shutdown().await;
    }

    /// Prints the notes since the last call.
    pub(crate) fn print_notes(&self) {
        for line in self.notes.take_lines() {
            eprintln!("[{line}]");
        }
    }

    /// Sends one line and prints the reply as it arrives.
    pub(crate) async fn ask(&mut self, text: &str) -> Result<Answer, BoxError> {
        // Print the note about a summary that was made after the previous reply.
        self.print_notes();

        let mut pieces = self.chat.ask(&self.model, &self.id, text, self.max_tokens).await?;
        while let Some(piece) = pieces.next().await {
            print!("{}", piece?);
            stdout().flush()?;
        }
        println!();

        self.print_notes();
        Ok(match self.notes.take_outcome() {
            Some(TurnOutcome::NotStored(NotStored::Interrupted)) => {
                Answer::NotSaved("the reply ended early; not saved".into())
            }
            Some(TurnOutcome::Failed(error)) => Answer::NotSaved(format!("not saved: {error}")),
            _ => Answer::Complete,
        })
    }

    /// Prints the text of every message of the log.
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
