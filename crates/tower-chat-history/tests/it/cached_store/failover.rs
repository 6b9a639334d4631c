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

/// Returns the second window of a cache that had the window of `cached`, if the log is now another one. Returns also if
/// each load allowed added exchanges.
async fn second_window(cached: &[Recorded], log: &[Recorded]) -> (Window, Vec<bool>) {
    let added = Added::new(window(log).revision, log[cached.len()..].to_vec(), bytes(log));
    let answers = [Loaded::Window(window(cached)), Loaded::Added(added), Loaded::Window(window(log))];
    let allowed = Arc::default();
    let store = CachedStore::new(Scripted { answers: Mutex::new(answers.into()), allowed: Arc::clone(&allowed) });
    let mut windows = Vec::new();
    for _ in 0..2 {
        let Loaded::Window(window) = store.load(&id("a"), Load::new()).await.unwrap() else { panic!("no window") };
        windows.push(window);
    }
    let allowed = allowed.lock().unwrap().clone();
    (windows.pop().unwrap(), allowed)
}

#[tokio::test]
async fn added_exchanges_extend_a_window_whose_exchanges_are_all_in_the_log() {
    let log = [recorded(0, "a"), recorded(1, "b"), recorded(2, "c")];
    assert_eq!(second_window(&log[..2], &log).await, (window(&log), vec![false, true]));
}

/// A turn that began before the failover was stored after one that took the place of the lost exchange. The newest
/// exchange of the window is therefore in the log, but not the one before it.
#[tokio::test]
async fn a_window_with_a_lost_exchange_is_loaded_again_when_others_are_added() {
    let cached = [recorded(0, "a"), recorded(1, "lost"), recorded(2, "c")];
    let log = [recorded(0, "a"), recorded(1, "another"), recorded(2, "c"), recorded(3, "d")];
    assert_eq!(second_window(&cached, &log).await, (window(&log), vec![false, true, false]));
}
