//! Helpers for the behaviors.

use std::{future::Future, pin::pin, sync::Arc, task::Poll};

use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, Cut, Exchange,
    ExchangeId, Expect, HistoryStore, Incarnation, Load, LoadLimit, Loaded, Message, Page, Profile, Recorded, Revision,
    Seq, StoreError, Summary, Window,
};

use super::Fixture;
pub(super) use super::{
    handles::{Editable, Prunable},
    owned::{COLLIDING, Owned, bytes_of, further, labels, landed, must_land, numbers_of},
    say::Must,
};
use crate::clause::{self, Clause};

/// The sentence to quote where neither a behavior nor its group names one.
#[allow(dead_code)] // Every group names one.
pub(super) const CLAUSE: Clause = clause::PROFILES;

/// A conversation that no other behavior uses, seen through one handle.
pub(super) struct Chat {
    pub(super) store: Arc<dyn HistoryStore>,
    pub(super) id: ConversationId,
}

impl Chat {
    /// Chooses a conversation that does not exist yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self { store: fixture.open().await, id: unused_id([]) }
    }

    /// Returns the same conversation through another handle.
    pub(super) async fn reopened(&self, fixture: &dyn Fixture) -> Self {
        Self { store: fixture.open().await, id: self.id.clone() }
    }

    /// Returns the same conversation through several handles.
    pub(super) async fn handles(&self, fixture: &dyn Fixture, count: usize) -> Vec<Self> {
        let mut handles = Vec::new();
        for _ in 0..count {
            handles.push(self.reopened(fixture).await);
        }
        handles
    }

    /// Returns another conversation in the same store.
    pub(super) fn other(&self) -> Self {
        self.with_id(unused_id([]))
    }

    pub(super) fn with_id(&self, id: ConversationId) -> Self {
        Self { store: Arc::clone(&self.store), id }
    }

    pub(super) async fn append(&self, expect: Expect, exchange: Exchange) -> Result<Appended, StoreError> {
        self.store.append(&self.id, Append::new(expect, exchange)).await
    }

    /// Appends an exchange, which must be stored, and returns it as the log must have it.
    pub(super) async fn add(&self, exchange: Exchange) -> Recorded {
        const CLAUSE: Clause = clause::ANY_OR_CREATE;
        let appended = self.append(Expect::AnyOrCreate, exchange.clone()).await;
        let appended = appended.must("the append expects nothing", &CLAUSE);
        assert!(!appended.duplicate, "{appended:?}, for an exchange id that the log does not have");
        Recorded::new(appended.seq, exchange)
    }

    /// Appends this many exchanges of two messages.
    pub(super) async fn add_turns(&self, count: usize) -> Vec<Recorded> {
        let mut added = Vec::new();
        for turn in 0..count {
            added.push(self.add(turn_of(&format!("turn {turn}"))).await);
        }
        added
    }

    /// Appends an exchange, and a compaction with it.
    pub(super) async fn append_with(
        &self,
        exchange: Exchange,
        replaces: CompactionVersion,
        cut: Cut,
    ) -> Result<Appended, StoreError> {
        let compact = Compact::new(Profile::default(), replaces, cut);
        self.store.append(&self.id, Append::new(Expect::AnyOrCreate, exchange).compact(compact)).await
    }

    /// Stores a compaction of the default profile.
    pub(super) async fn compact(&self, replaces: CompactionVersion, cut: Cut) -> Result<CompactOutcome, StoreError> {
        self.compact_as(&Profile::default(), replaces, cut).await
    }

    pub(super) async fn compact_as(
        &self,
        profile: &Profile,
        replaces: CompactionVersion,
        cut: Cut,
    ) -> Result<CompactOutcome, StoreError> {
        let compact = Compact::new(profile.clone(), replaces, cut);
        self.store.compact(&self.id, self.incarnation().await, compact).await
    }

    /// Stores a compaction, which must be stored, and returns it as it must be loaded.
    pub(super) async fn cut(&self, replaces: CompactionVersion, cut: Cut) -> Compaction {
        let outcome = self.compact(replaces, cut.clone()).await.must("the compaction is legal", &clause::COMPACT);
        Compaction::new(stored(Some(outcome)), cut)
    }

    pub(super) async fn load(&self, load: Load) -> Loaded {
        self.store.load(&self.id, load).await.must("the load is valid", &clause::LOAD)
    }

    /// Loads a window, which must end with the log.
    pub(super) async fn window(&self, load: Load) -> Window {
        const CLAUSE: Clause = clause::NEXT;
        let window = window(self.load(load).await);
        assert_eq!(window.revision.next(), next(&window.exchanges), "a load");
        window
    }

    pub(super) async fn revision(&self) -> Revision {
        self.window(Load::new()).await.revision
    }

    pub(super) async fn incarnation(&self) -> Incarnation {
        self.revision().await.incarnation()
    }

    pub(super) async fn compaction(&self, profile: &Profile) -> Option<Compaction> {
        self.window(Load::new().profile(profile.clone())).await.compaction
    }

    /// Reads the whole log, page by page. It must end where the revision of its last page says.
    pub(super) async fn log(&self) -> Vec<Recorded> {
        const CLAUSE: Clause = clause::GAP_FREE;
        let mut log: Vec<Recorded> = Vec::new();
        let mut next = Seq::FIRST;
        loop {
            let page = self.store.read(&self.id, next, 100).await.must("the log can be read", &clause::READ);
            assert!(!page.more || !page.exchanges.is_empty(), "an empty page that says that there are more");
            next = next.max(page.revision.map_or(Seq::FIRST, |revision| revision.first()));
            for recorded in page.exchanges {
                assert_eq!(recorded.seq, next, "the whole log is read");
                next = next.next();
                log.push(recorded);
            }
            if !page.more {
                if let Some(revision) = page.revision {
                    const CLAUSE: Clause = clause::NEXT;
                    assert_eq!(revision.next(), next, "the whole log is read");
                }
                return log;
            }
        }
    }

    pub(super) async fn delete(&self) {
        self.store.delete(&self.id).await.must("a conversation can be deleted", &clause::DELETED);
    }

    /// Asserts that nothing of the conversation exists.
    pub(super) async fn assert_absent(&self) {
        const CLAUSE: Clause = clause::ABSENT;
        assert_eq!(self.load(Load::new()).await.is_absent(), true);
        let page = self.store.read(&self.id, Seq::FIRST, 100).await.must("an absent log can be read", &clause::READ);
        assert_eq!(page, Page::absent());
    }
}

/// Returns an id with a random part before the given ones.
pub(super) fn unused_id<const N: usize>(parts: [&str; N]) -> ConversationId {
    let unused = ExchangeId::generate();
    let parts = ["conformance", unused.as_str()].into_iter().chain(parts);
    ConversationId::new(parts).expect("the parts are legal")
}

/// Returns an exchange of a question and an answer.
pub(super) fn turn_of(text: &str) -> Exchange {
    Exchange::new(ExchangeId::generate(), [Message::user(text), Message::assistant(format!("re: {text}"))])
}

/// Returns a turn that ends with a call, to be continued.
pub(super) fn call_of(text: &str) -> Exchange {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call-1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    Exchange::new(ExchangeId::generate(), [Message::user(text), message(call)])
}

/// Returns the continuation of the turn whose call is at this position.
pub(super) fn result_for(seq: Seq) -> Exchange {
    let messages = [Message::tool("call-1", "42"), Message::assistant("It is 42.")];
    Exchange::new(ExchangeId::generate(), messages).continuing(seq)
}

pub(super) fn message(json: &str) -> Message {
    Message::from_json(json).expect("the JSON is a message")
}

/// Returns a cut with a summary that covers everything before the window.
pub(super) fn summary_to(seq: u64, text: &str) -> Cut {
    with!(Cut::window_from(Seq::new(seq)), summary: Some(Summary::new(text, Seq::new(seq))))
}

pub(super) fn limit(messages: usize, bytes: usize) -> Load {
    Load::new().limit(LoadLimit::new(messages, bytes).expect("the limit lets something through"))
}

pub(super) fn profile(name: &str) -> Profile {
    Profile::new(name).expect("the name is legal")
}

/// Returns the position after the last of these exchanges.
fn next(exchanges: &[Recorded]) -> Seq {
    exchanges.last().map_or(Seq::FIRST, |last| last.seq.next())
}

#[track_caller]
pub(super) fn window(loaded: Loaded) -> Window {
    const CLAUSE: Clause = clause::LOAD;
    match loaded {
        Loaded::Window(window) => window,
        other => unexpected!("a window", other),
    }
}

/// Returns the version under which a compaction was stored.
#[track_caller]
pub(super) fn stored(outcome: Option<CompactOutcome>) -> CompactionVersion {
    const CLAUSE: Clause = clause::COMPACT;
    match outcome {
        Some(CompactOutcome::Stored(version)) => version,
        other => unexpected!("the compaction to be stored", other),
    }
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)] // It is the end of the result.
pub(super) fn assert_gone<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    const CLAUSE: Clause = clause::GONE;
    if !matches!(result, Err(StoreError::Gone)) {
        unexpected!("the refusal `Gone`", result);
    }
}

/// Asserts a conflict that names the log's revision, or none if the store does not know it.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // It is the end of the result.
pub(super) fn assert_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>, at: Revision) {
    const CLAUSE: Clause = clause::CONFLICT;
    match result {
        Err(StoreError::Conflict { current }) if current.is_none_or(|current| current == at) => {}
        other => unexpected!("the refusal `Conflict`, with the current revision {at} or with none", other),
    }
}

/// Lets other tasks run first, also with a store whose calls never wait.
pub(super) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future at most this many times and drops it, like a caller that gives up.
pub(super) async fn abandon<T>(future: impl Future<Output = T> + Send, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        // Return at once, even if the future has not been woken.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
