//! The span of a summary contains sizes and kinds, and no text. The test has its own process, because a
//! subscriber of one thread and calls on other threads would disturb each other.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

#[allow(dead_code)] // The tests of summaries need the rest of it.
#[path = "it/summaries/support.rs"]
mod support;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_chat_history::{
    Engine, MemoryStore,
    summary::{Summaries, SummarizeWhen},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use self::support::{Facts, Fault, options, turn};

const SECRET: &str = "fact-hush";

#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }
}

impl Subscriber for Logged {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_chat_history")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(span.metadata().name().into());
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_summary_has_a_span_with_its_cost_and_no_text() {
    let shown = Logged::default();
    let _listening = tracing::subscriber::set_default(shown.clone());
    let facts = Facts::new().failing(|call| if call == 0 { Fault::Error } else { Fault::None });
    for when in [SummarizeWhen::AfterReply { percent: 90 }, SummarizeWhen::BeforeCall] {
        let hook = shown.clone();
        let summaries = Summaries::new(facts.clone()).when(when);
        let summaries = summaries.on_summary(move |report| hook.0.lock().unwrap().push(format!("{report:?}")));
        let engine = Engine::with_options(MemoryStore::new(), options(summaries));
        for _ in 0..20 {
            let (_, report) = turn(&engine, SECRET).await;
            shown.0.lock().unwrap().push(format!("{report:?} {engine:?}"));
            engine.drain(Duration::from_secs(10)).await.unwrap();
            tokio::time::advance(Duration::from_secs(10)).await;
        }
    }
    let shown = shown.0.lock().unwrap();
    let has = |text: &str| shown.iter().any(|line| line == text);
    assert!(has("summarize") && has(r#"chat_history.summary.outcome="stored""#));
    assert!(has(r#"chat_history.summary.outcome="rejected""#) && has(r#"error.type="failed""#));
    assert!(has("chat_history.summary.calls=1"));
    let leaked = shown.iter().find(|line| line.contains(SECRET));
    assert!(leaked.is_none(), "{leaked:?}");
}
