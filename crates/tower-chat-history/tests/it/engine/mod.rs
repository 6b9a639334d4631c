//! The engine around a turn: resources that waiting calls hold, work without a caller, and panics of user code.

mod detached;
mod idle_streams;
mod late_summary;
mod panics;
mod permits;
mod repeated_append;
mod rest_of_streams;
mod saves;
mod since_last;
use crate::support;

use std::time::Duration;

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStore, Message, Reply, TurnInput,
    TurnReport,
    store::{Load, Loaded, Window},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

/// A summarizer that answers "s" after this time.
#[derive(Clone, Debug, Default)]
struct FixedSummarizer(Duration);

#[async_trait]
impl Summarizer for FixedSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
        Ok(SummaryResponse::new("s"))
    }
}

/// Options that summarize after nearly every reply.
fn summarizing_options() -> HistoryOptions {
    let summaries = Summaries::new(FixedSummarizer::default()).max_tokens(20).least_room(1);
    HistoryOptions::new()
        .context(ContextBudget::tokens(400).reply_reserve(10))
        .summaries(summaries.when(SummarizeWhen::AfterReply { percent: 10 }))
}

fn conversation(name: &str) -> ConversationId {
    ConversationId::new(["engine", name]).unwrap()
}

/// Runs a turn of about 70 tokens.
async fn turn(engine: &Engine, name: &str) -> std::sync::Arc<TurnReport> {
    let question = Message::user(format!("u {}", "word ".repeat(30)));
    let turn = engine.begin(TurnInput::new(conversation(name), [question])).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a".repeat(100)))).await.unwrap()
}

async fn window(store: &dyn HistoryStore, name: &str) -> Window {
    let Loaded::Window(window) = store.load(&conversation(name), Load::new()).await.unwrap() else { panic!("absent") };
    window
}
