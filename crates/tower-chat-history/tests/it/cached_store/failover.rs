//! A database server that failed over to a replica which lagged.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, Message, StoreError,
    store::{
        Added, Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Recorded, Revision, Seq,
        Window,
    },
};

use super::support::id;

/// A store that gives these answers to loads, one after the other. It remembers if each load allowed added exchanges.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<VecDeque<Loaded>>,
    allowed: Arc<Mutex<Vec<bool>>>,
}

#[async_trait]
impl HistoryStore for Scripted {
    fn system(&self) -> &'static str {
        "scripted"
    }

    async fn load(&self, _: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.allowed.lock().unwrap().push(load.or_added);
        Ok(self.answers.lock().unwrap().pop_front().unwrap())
    }

    async fn append(&self, _: &ConversationId, _: Append) -> Result<Appended, StoreError> {
        unreachable!("nothing is appended")
    }

    async fn compact(&self, _: &ConversationId, _: Incarnation, _: Compact) -> Result<CompactOutcome, StoreError> {
        unreachable!("nothing is compacted")
    }

    async fn read(&self, _: &ConversationId, _: Seq, _: usize) -> Result<Page, StoreError> {
        unreachable!("nothing is read")
    }

    async fn delete(&self, _: &ConversationId) -> Result<(), StoreError> {
        unreachable!("nothing is deleted")
    }
}

fn recorded(seq: u64, text: &str) -> Recorded {
    Recorded::new(Seq::new(seq), Exchange::new(ExchangeId::new(text).unwrap(), [Message::user(text)]))
}

fn bytes(log: &[Recorded]) -> u64 {
    log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum()
}

fn window(log: &[Recorded]) -> Window {
    let revision = Revision::new(Incarnation::from_bytes([7; 16]), log.len() as u64);
    Window::new(revision, None, log.to_vec(), false).log_bytes(bytes(log))
}

/// Returns the results of these loads through one cache, over a store that gives these answers. Returns also if each
/// load of the store allowed added exchanges.
async fn loads(loads: impl IntoIterator<Item = Load>, answers: Vec<Loaded>) -> (Vec<Loaded>, Vec<bool>) {
    let allowed = Arc::default();
    let store = CachedStore::new(Scripted { answers: Mutex::new(answers.into()), allowed: Arc::clone(&allowed) });
    let mut loaded = Vec::new();
    for load in loads {
        loaded.push(store.load(&id("a"), load).await.unwrap());
    }
    assert!(store.inner().answers.lock().unwrap().is_empty());
    let allowed = allowed.lock().unwrap().clone();
    (loaded, allowed)
}

fn added(log: &[Recorded], since: usize) -> Loaded {
    Loaded::Added(Added::new(window(log).revision, log[since..].to_vec(), bytes(log)))
}

/// Returns the window that a cache had before a failover, and the log after it. A turn that began before the failover
/// was stored after one that took the place of the lost exchange. The newest exchange of the window is therefore in the
/// log, but not the one before it.
fn failover() -> (Vec<Recorded>, Vec<Recorded>) {
    let cached = vec![recorded(0, "a"), recorded(1, "lost"), recorded(2, "c")];
    (cached, vec![recorded(0, "a"), recorded(1, "another"), recorded(2, "c"), recorded(3, "d")])
}

#[tokio::test]
async fn added_exchanges_extend_a_window_whose_exchanges_are_all_in_the_log() {
    let log = [recorded(0, "a"), recorded(1, "b"), recorded(2, "c")];
    let answers = vec![Loaded::Window(window(&log[..2])), added(&log, 2), Loaded::Unchanged];
    let (loaded, allowed) = loads([Load::new(), Load::new(), Load::new()], answers).await;
    assert_eq!(loaded, [window(&log[..2]), window(&log), window(&log)].map(Loaded::Window));
    assert_eq!(allowed, [false, true, true]);
}

#[tokio::test]
async fn a_window_with_a_lost_exchange_is_replaced_when_others_are_added() {
    let (cached, log) = failover();
    let answers =
        vec![Loaded::Window(window(&cached)), added(&log, 3), Loaded::Window(window(&log)), Loaded::Unchanged];
    let (loaded, allowed) = loads([Load::new(), Load::new(), Load::new()], answers).await;
    assert_eq!(loaded, [window(&cached), window(&log), window(&log)].map(Loaded::Window));
    assert_eq!(allowed, [false, true, false, true]);
}

#[tokio::test]
async fn a_caller_gets_the_window_after_a_failover_unless_it_has_that_one() {
    let (cached, log) = failover();
    for (known, expected) in [(&cached, Loaded::Window(window(&log))), (&log, Loaded::Unchanged)] {
        let answers = vec![Loaded::Window(window(&cached)), added(&log, 3), Loaded::Window(window(&log))];
        let (loaded, _) = loads([Load::new(), Load::new().known(window(known).known())], answers).await;
        assert_eq!(loaded[1], expected);
    }
}
