//! The engine around a turn: resources that waiting calls hold, runtimes that drive its work, and panics of
//! user code.

mod dead_runtime;
mod detached;
mod idle_runtime;
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
    summary::{Summaries, SummarizeWhen, Summarized, Summarizer, SummaryRequest},
};

/// A summarizer that answers "s" after this time.
#[derive(Clone, Debug, Default)]
struct FixedSummarizer(Duration);

#[async_trait]
impl Summarizer for FixedSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<Summarized, BoxError> {
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
        Ok(Summarized::new("s"))
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

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Drives a future on this thread, outside of any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
