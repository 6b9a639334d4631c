//! The telemetry of searches for messages to show again, and of preparations.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, over_every_store, user_call};
use tokio::sync::Semaphore;
use tower_chat_history::{
    HistoryOptions,
    recall::{PrepareRequest, Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    store::{Citation, Recalled, Seq},
};
use tower_chat_history_test::{Replies, Reply};

use crate::{
    chats::{ask, drain, long, small},
    content::{conversation, marked_call, question},
    paths::Paths,
    trace::{Trace, traced},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_search_has_a_span_with_its_outcome_and_no_text,
    a_failed_search_has_a_failed_span_and_its_turn_does_not_fail,
    a_preparation_has_a_span_and_its_turn_ends_before_it,
    a_failed_preparation_has_a_failed_span,
}

const SECRET: &str = "mark-recalled";

/// The answer to a search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Nothing,
    Shows(&'static str),
    Fails,
}

/// A search that gives these answers again and again.
pub(crate) struct CyclicRecall {
    answers: Vec<Found>,
    searches: AtomicUsize,
    /// Preparations wait for a permit, if there are permits.
    permits: Option<Arc<Semaphore>>,
    preparation_fails: bool,
}

impl CyclicRecall {
    pub(crate) fn new(answers: impl Into<Vec<Found>>) -> Self {
        Self { answers: answers.into(), searches: AtomicUsize::new(0), permits: None, preparation_fails: false }
    }
}

impl fmt::Debug for CyclicRecall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CyclicRecall").field("answers", &self.answers).finish_non_exhaustive()
    }
}

#[async_trait]
impl Recall for CyclicRecall {
    async fn recall(&self, _: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        match self.answers[self.searches.fetch_add(1, Relaxed) % self.answers.len()] {
            Found::Nothing => Ok(Recollection::nothing()),
            Found::Shows(text) => {
                let citations = vec![Citation::new(Seq::FIRST, 0..2), Citation::new(Seq::new(1), 0..1)];
                let mut shown = Recollection::shown(Recalled::new(text, citations));
                (shown.best_score, shown.conversations, shown.failed_conversations) = (Some(2.5), 7, 2);
                shown.is_incomplete = true;
                Ok(shown)
            }
            Found::Fails => Err(RecallError::search(SECRET)),
        }
    }

    async fn prepare(&self, _: PrepareRequest<'_>) -> Result<bool, RecallError> {
        if let Some(permits) = &self.permits {
            permits.acquire().await.map_err(RecallError::search)?.forget();
        }
        if self.preparation_fails { Err(RecallError::search(SECRET)) } else { Ok(false) }
    }
}

fn options(recall: CyclicRecall) -> HistoryOptions {
    small().recall(RecallOptions::new(recall).percent(20))
}

fn chat(storage: &Storage, recall: CyclicRecall) -> Chat {
    Chat::with_options(storage, Replies::rules(|_| Reply::text(long("answer"))), options(recall))
}

impl Paths<'_> {
    pub(crate) async fn messages_are_recalled(&self) {
        let mut recall = CyclicRecall::new([Found::Shows(SECRET), Found::Nothing, Found::Fails]);
        recall.preparation_fails = true;
        let chat = self.chat(Replies::rules(|_| Reply::text(long("mark-reply"))), options(recall));
        let id = conversation();
        for _ in 0..16 {
            assert!(self.call(&chat, marked_call(&id, &question(20))).await);
        }
    }
}

/// Makes turns until the trace of one has this span. The first turn with a search is also the first one that moved the
/// window.
async fn until(chat: &Chat, kind: CallKind, storage: &Storage, span: &str) -> Trace {
    let id = storage.conversation();
    for _ in 0..20 {
        let (answered, trace) = traced(ask(chat, kind, &id, &long("question"))).await;
        assert!(answered);
        if !trace.all(span).is_empty() {
            return trace;
        }
    }
    panic!("no {span} in 20 turns");
}

async fn a_search_has_a_span_with_its_outcome_and_no_text(storage: Storage) {
    for kind in BOTH_KINDS {
        let chat = chat(&storage, CyclicRecall::new([Found::Shows(SECRET), Found::Nothing]));
        let trace = until(&chat, kind, &storage, "recall").await;
        assert_eq!(trace.tree()[..4], ["chat_history", "  load", "  trim", "  recall"]);
        let recall = trace.one("recall");
        recall.assert_attributes([
            ("chat_history.recall.outcome", json!("shown")),
            ("chat_history.recall.exchanges", json!(2)),
            ("chat_history.recall.messages", json!(3)),
            ("chat_history.recall.conversations", json!(7)),
            ("chat_history.recall.failed_conversations", json!(2)),
            ("chat_history.recall.incomplete", json!(true)),
            ("chat_history.recall.score", json!(2.5)),
            ("error.type", Value::Null),
        ]);
        let number = |name: &str| recall[name].as_i64().unwrap();
        assert!(number("chat_history.tokens.recalled") > 0);
        assert!(number("chat_history.recall.allowance") >= number("chat_history.tokens.recalled"));
        assert!(!format!("{trace:?}").contains(SECRET));
    }
}

async fn a_failed_search_has_a_failed_span_and_its_turn_does_not_fail(storage: Storage) {
    let chat = chat(&storage, CyclicRecall::new([Found::Fails]));
    let trace = until(&chat, CallKind::Unary, &storage, "recall").await;
    assert!(trace.tree().contains(&"  recall !search".to_owned()));
    trace.one("recall").assert_attributes([
        ("chat_history.recall.outcome", json!("failed")),
        ("chat_history.recall.messages", json!(0)),
        ("chat_history.tokens.recalled", json!(0)),
        ("chat_history.recall.conversations", json!(0)),
        ("chat_history.recall.failed_conversations", Value::Null),
        ("chat_history.recall.incomplete", Value::Null),
        ("chat_history.recall.score", Value::Null),
    ]);
    assert!(!trace.turn().is_error);
    let turn_events = &trace.turn().events;
    assert!(turn_events.iter().any(|event| event.name.contains("without recalled messages")), "{turn_events:#?}");
    assert!(!format!("{trace:?}").contains(SECRET), "an error of the search may quote its input");
}

async fn a_preparation_has_a_span_and_its_turn_ends_before_it(storage: Storage) {
    let permits = Arc::new(Semaphore::new(0));
    let mut recall = CyclicRecall::new([Found::Nothing]);
    recall.permits = Some(Arc::clone(&permits));
    let chat = chat(&storage, recall);
    let id = storage.conversation();
    for _ in 0..20 {
        let (_, trace) = traced(async {
            let (call, report) = user_call(&id, &long("question")).with_report();
            chat.call(CallKind::Unary, call).await.unwrap();
            if report.await.unwrap().tokens.unwrap().compacted {
                // The turn has ended, and its preparation goes on.
                std::thread::sleep(std::time::Duration::from_millis(5));
                permits.add_permits(1);
            }
            drain(&chat).await;
        })
        .await;
        if let [prepare] = trace.all("prepare")[..] {
            assert!(prepare.end > trace.turn().end, "the turn ended when its exchange was stored");
            assert!(!prepare.is_error);
            return;
        }
    }
    panic!("no preparation in 20 turns");
}

async fn a_failed_preparation_has_a_failed_span(storage: Storage) {
    let mut recall = CyclicRecall::new([Found::Nothing]);
    recall.preparation_fails = true;
    let chat = chat(&storage, recall);
    let trace = until(&chat, CallKind::Unary, &storage, "prepare").await;
    assert!(trace.tree().contains(&"  prepare !search".to_owned()), "{:?}", trace.tree());
    assert!(!trace.turn().is_error);
    let events = &trace.one("prepare").events;
    assert!(events.iter().any(|event| event.name.contains("could not be prepared")), "{events:#?}");
    assert!(!format!("{trace:?}").contains(SECRET));
}
