//! Helpers that the behaviors share.

use std::{pin::pin, sync::Arc, task::Poll};

pub(super) use futures_util::future::{join, join_all};
pub(super) use tower_chat_history_core::{
    Append, Appended, Bound, CallId, Citation, Closes, Compact, CompactOutcome, Compaction, CompactionVersion,
    Conversation, ConversationId, Cursor, Cut, Cuts, Derived, Dialect, Digest, Epoch, Exchange, ExchangeId, Expect,
    Fork, ForkTo, Forked, HistoryStore, HistoryStoreExt, ImportError, Incarnation, Index, KnownState, Labels,
    LabelsOutcome, LabelsVersion, Listed, Load, LoadLimit, Loaded, Message, MessageError, Metadata, Origin, Page,
    PageBack, Part, Positions, Prefix, Profile, PromptDigests, Provenance, Prune, PruneTo, Pruned, Recalled, Recorded,
    Removed, Revision, Role, Seq, Space, StoreError, Timestamp, TokenCounts, ToolCall, Truncate, Truncated, Usage,
    Window,
};

pub(super) use super::{Fixture, Handle, owned::*};

/// The version of a compaction that replaces none.
pub(super) const NONE: CompactionVersion = CompactionVersion::NONE;

/// More than any log has.
pub(super) const MANY: usize = usize::MAX;

/// The expectations of first turns.
pub(super) const FIRST_TURN: [Expect; 2] = [Expect::Absent, Expect::AnyOrCreate];

/// Changes some fields of a value. The structs of the core crate may get more fields, so other crates cannot use Rust's
/// struct update syntax for them.
macro_rules! with {
    ($base:expr, $($field:ident: $value:expr),+ $(,)?) => {{
        let mut changed = $base;
        $(changed.$field = $value;)+
        changed
    }};
}

pub(super) use with;

/// A conversation that no other behavior uses, seen through one handle.
pub(super) struct Chat {
    pub(super) store: Handle,
    pub(super) id: ConversationId,
}

impl Chat {
    /// Chooses a conversation that does not exist yet.
    pub(super) async fn new(fixture: &dyn Fixture) -> Self {
        Self { store: fixture.open().await, id: unused_id() }
    }

    /// Does the same in a store that must be durable.
    pub(super) async fn durable(fixture: &dyn Fixture) -> Self {
        let chat = Self::new(fixture).await;
        assert!(chat.store.is_durable, "the store is not durable: list it after `without: [Durable]`");
        chat
    }

    /// Does the same in a store that must keep exchanges that a wrapper has encrypted.
    pub(super) async fn sealed(fixture: &dyn Fixture) -> Self {
        let chat = Self::new(fixture).await;
        assert!(!chat.store.refuses_sealed, "the store refuses encrypted exchanges: list it after `without: [Sealed]`");
        chat
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

    /// Drops the handle, and opens the storage again.
    pub(super) async fn after_restart(self, fixture: &dyn Fixture) -> Self {
        let Self { store, id } = self;
        drop(store);
        Self { store: fixture.open().await, id }
    }

    /// Returns another conversation in the same store.
    pub(super) fn other(&self) -> Self {
        self.with_id(unused_id())
    }

    pub(super) fn with_id(&self, id: ConversationId) -> Self {
        Self { store: self.store.clone(), id }
    }

    pub(super) fn conversation(&self) -> Conversation<'_, dyn HistoryStore> {
        self.store.history().conversation(&self.id)
    }
}

/// Appends.
impl Chat {
    pub(super) async fn submit(&self, append: Append) -> Result<Appended, StoreError> {
        self.store.history().append(&self.id, append).await
    }

    pub(super) async fn append(&self, expect: Expect, exchange: Exchange) -> Result<Appended, StoreError> {
        self.submit(Append::new(expect, exchange)).await
    }

    /// Appends an exchange whose call began at this epoch.
    pub(super) async fn append_since(
        &self,
        epoch: Epoch,
        expect: Expect,
        exchange: Exchange,
    ) -> Result<Appended, StoreError> {
        self.submit(Append::new(expect, exchange).since(Some(epoch))).await
    }

    /// Appends an exchange, which must be stored, and returns it as the log must have it.
    pub(super) async fn add(&self, exchange: Exchange) -> Recorded {
        let appended = self.append(Expect::AnyOrCreate, exchange.clone()).await.unwrap();
        assert!(!appended.duplicate, "the log does not have this exchange id");
        Recorded::new(appended.seq, exchange)
    }

    pub(super) async fn add_all(&self, exchanges: impl IntoIterator<Item = Exchange, IntoIter: Send>) -> Vec<Recorded> {
        let mut added = Vec::new();
        for exchange in exchanges {
            added.push(self.add(exchange).await);
        }
        added
    }

    /// Appends this many exchanges of two messages.
    pub(super) async fn add_turns(&self, count: usize) -> Vec<Recorded> {
        self.add_all((0..count).map(|turn| turn_of(&format!("turn {turn}")))).await
    }

    /// Appends a turn of several exchanges: a call, and this many continuations.
    pub(super) async fn add_call(&self, continuations: usize) -> Vec<Recorded> {
        let mut turn = vec![self.add(call_of("what is it?")).await];
        for _ in 0..continuations {
            turn.push(self.add(result_for(turn[0].seq)).await);
        }
        turn
    }

    /// Appends the exchange again. It must be recognized, whatever the append expects.
    pub(super) async fn assert_repeat(&self, expect: Expect, recorded: &Recorded) {
        let appended = self.submit(Append::new(expect, Arc::clone(&recorded.exchange))).await.unwrap();
        assert_eq!(appended, Appended::duplicate(self.revision().await, recorded.seq), "{expect:?}");
    }
}

/// Loads and reads.
impl Chat {
    pub(super) async fn load(&self, load: Load) -> Loaded {
        self.store.history().load(&self.id, load).await.unwrap()
    }

    /// Loads a window, which must end with the log.
    pub(super) async fn window(&self, load: Load) -> Window {
        let window = window(self.load(load).await);
        let next = window.exchanges.last().map_or(Seq::FIRST, |last| last.seq.next());
        assert_eq!(window.revision.next(), next, "the window ends with the log");
        window
    }

    /// Loads without a condition.
    pub(super) async fn now(&self) -> Window {
        self.window(Load::new()).await
    }

    /// Loads the conversation, which must be absent, and returns the epoch.
    pub(super) async fn epoch(&self) -> Epoch {
        match self.load(Load::new()).await {
            Loaded::Absent(epoch) => epoch,
            other => panic!("the conversation is absent: {other:?}"),
        }
    }

    pub(super) async fn revision(&self) -> Revision {
        self.now().await.revision
    }

    pub(super) async fn incarnation(&self) -> Incarnation {
        self.revision().await.incarnation()
    }

    pub(super) async fn read(&self, from: u64, limit: usize) -> Page {
        self.store.history().read(&self.id, Seq::new(from), limit).await.unwrap()
    }

    /// Reads the whole log, page by page. It must have no gap, and end where the revision of its last page says.
    pub(super) async fn log(&self) -> Vec<Recorded> {
        let mut log: Vec<Recorded> = Vec::new();
        let mut next = Seq::FIRST;
        loop {
            let page = self.read(next.get(), 100).await;
            assert!(!page.more || !page.exchanges.is_empty(), "a page is not empty if there are more");
            next = next.max(page.revision.map_or(Seq::FIRST, |revision| revision.first()));
            for recorded in page.exchanges {
                assert_eq!(recorded.seq, next, "the log has no gap");
                next = next.next();
                log.push(recorded);
            }
            if !page.more {
                assert_eq!(page.revision.map_or(next, |revision| revision.next()), next, "the whole log is read");
                return log;
            }
        }
    }

    /// Asserts that reads and loads return this log. It has no compaction.
    pub(super) async fn assert_log(&self, log: &[Recorded]) {
        assert_eq!(self.log().await, log);
        let window = self.window(limit(MANY, MANY)).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (log, false));
    }

    /// Asserts the same through two handles, and that each exchange is found by its id.
    pub(super) async fn assert_log_everywhere(&self, fixture: &dyn Fixture, log: &[Recorded]) {
        for chat in [self, &self.reopened(fixture).await] {
            chat.assert_log(log).await;
            for recorded in log {
                chat.assert_recorded(recorded).await;
            }
        }
    }

    /// Asserts that the exchange is found by its id.
    pub(super) async fn assert_recorded(&self, recorded: &Recorded) {
        let load = Load::new().exchange(recorded.exchange.id.clone());
        assert_eq!(self.load(load).await, Loaded::AlreadyRecorded(recorded.clone()));
    }

    /// Asserts that nothing changed since this window was loaded.
    pub(super) async fn assert_unchanged(&self, known: &Window) {
        assert_eq!(self.load(Load::new().known(known.known())).await, Loaded::Unchanged);
    }

    /// Asserts that nothing of the conversation exists.
    pub(super) async fn assert_absent(&self) {
        self.epoch().await;
        assert_eq!(self.read(0, 100).await, Page::absent());
    }
}

/// Compactions.
impl Chat {
    /// Appends an exchange, and a compaction with it.
    pub(super) async fn append_with(
        &self,
        exchange: Exchange,
        replaces: CompactionVersion,
        contents: Compact,
    ) -> Result<Appended, StoreError> {
        self.submit(Append::new(Expect::AnyOrCreate, exchange).compact(compact(replaces, contents))).await
    }

    pub(super) async fn compact_in(
        &self,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.store.history().compact(&self.id, incarnation, compact).await
    }

    pub(super) async fn compact_as(
        &self,
        profile: &Profile,
        replaces: CompactionVersion,
        contents: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let compact = with!(contents, profile: profile.clone(), replaces: replaces);
        self.compact_in(self.incarnation().await, compact).await
    }

    /// Stores a compaction of the default profile.
    pub(super) async fn compact(
        &self,
        replaces: CompactionVersion,
        contents: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.compact_as(&Profile::default(), replaces, contents).await
    }

    /// Stores a compaction, which must be stored, and returns it as it must be loaded.
    pub(super) async fn cut(&self, replaces: CompactionVersion, contents: Compact) -> Compaction {
        let outcome = self.compact(replaces, contents.clone()).await.unwrap();
        contents.stored_as(stored(Some(outcome)))
    }

    pub(super) async fn compaction(&self) -> Option<Compaction> {
        self.compaction_of(&Profile::default()).await
    }

    pub(super) async fn compaction_of(&self, profile: &Profile) -> Option<Compaction> {
        self.window(Load::new().profile(profile.clone())).await.compaction
    }
}

/// Removals.
impl Chat {
    pub(super) async fn delete(&self) {
        self.store.history().delete(&self.id).await.unwrap();
    }

    pub(super) async fn truncate(&self, expect: Revision, from: u64) -> Result<Truncated, StoreError> {
        self.store.truncating().truncate(&self.id, expect, Seq::new(from), None).await
    }

    /// Truncates the current log, which must succeed, and carries this compaction over.
    pub(super) async fn shorten_with(&self, len: u64, keep: Compact) {
        let revision = self.revision().await;
        self.store.truncating().truncate(&self.id, revision, Seq::new(len), Some(keep)).await.unwrap();
    }

    /// Truncates the current log, which must succeed, and returns the revision of the remaining log.
    pub(super) async fn shorten_to(&self, len: u64) -> Option<Revision> {
        self.truncate(self.revision().await, len).await.unwrap().revision
    }

    pub(super) async fn prune_in(&self, incarnation: Incarnation, keep: PruneTo) -> Result<Pruned, StoreError> {
        self.store.pruning().prune(&self.id, incarnation, keep, Derived::Keep).await
    }

    /// Prunes the current log, which must succeed.
    pub(super) async fn prune(&self, keep: PruneTo) -> Pruned {
        self.prune_in(self.incarnation().await, keep).await.unwrap()
    }

    /// Does the same and erases derived data.
    pub(super) async fn forget(&self, keep: PruneTo) -> Pruned {
        let incarnation = self.incarnation().await;
        self.store.pruning().prune(&self.id, incarnation, keep, Derived::Erase).await.unwrap()
    }
}

/// Forks.
impl Chat {
    pub(super) async fn fork_in(&self, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        self.store.forking().fork(&self.id, incarnation, to).await
    }

    /// Forks the current log.
    pub(super) async fn fork_to(&self, to: ForkTo) -> Result<Forked, StoreError> {
        self.fork_in(self.incarnation().await, to).await
    }

    /// Copies the exchanges before this position, of which there is one, into a new conversation.
    pub(super) async fn fork(&self, before: u64) -> Self {
        let copy = self.other();
        let forked = self.fork_to(ForkTo::new(copy.id.clone(), Seq::new(before))).await.unwrap();
        assert_eq!(forked, Forked::new(Some(copy.revision().await)));
        copy
    }
}

/// Returns an id that no other behavior uses.
pub(super) fn unused_id() -> ConversationId {
    ConversationId::new(["conformance", ExchangeId::generate().as_str()]).unwrap()
}

/// Returns the id with these parts after those of another one.
pub(super) fn below(base: &ConversationId, parts: &[&str]) -> ConversationId {
    let base: Vec<_> = base.parts().collect();
    ConversationId::new(base.iter().map(AsRef::as_ref).chain(parts.iter().copied())).unwrap()
}

/// Returns an exchange with a new id.
pub(super) fn exchange_of(messages: impl IntoIterator<Item = Message>) -> Exchange {
    Exchange::new(ExchangeId::generate(), messages)
}

/// Returns an exchange of a question and an answer.
pub(super) fn turn_of(text: &str) -> Exchange {
    exchange_of([Message::user(text), Message::assistant(format!("re: {text}"))])
}

/// Returns a turn of this time, in milliseconds.
pub(super) fn turn_at(millis: u64) -> Exchange {
    with!(turn_of(&format!("at {millis}")), at: Timestamp::from_unix_millis(millis))
}

/// Returns a large turn. Six of them are larger than a page of a store that pages by size.
pub(super) fn large(n: usize) -> Exchange {
    turn_of(&format!("{n} {}", "x".repeat(600_000)))
}

/// Returns a turn whose question has a photo of this many bytes in base64.
pub(super) fn photo_of(bytes: usize) -> Exchange {
    let data = "iVBO/+w=".repeat(bytes.div_ceil(8));
    let url = format!("data:image/png;base64,{}", &data[..bytes]);
    let question = format!(r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}"#);
    exchange_of([message(&question), Message::assistant("A ship.")])
}

/// Returns a turn that ends with a call, to be continued.
pub(super) fn call_of(text: &str) -> Exchange {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call-1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    exchange_of([Message::user(text), message(call)])
}

/// Returns the continuation of the turn whose call is at this position.
pub(super) fn result_for(seq: Seq) -> Exchange {
    exchange_of([Message::tool("call-1", "42"), Message::assistant("It is 42.")]).continuing(seq)
}

pub(super) fn message(json: &str) -> Message {
    Message::from_json(json).unwrap()
}

/// Returns the bytes of message JSON in a log.
pub(super) fn bytes_of(log: &[Recorded]) -> u64 {
    log.iter().map(|recorded| recorded.exchange.bytes() as u64).sum()
}

/// Returns how many of these bytes are media.
pub(super) fn media_of(log: &[Recorded]) -> usize {
    log.iter().map(|recorded| recorded.exchange.media_bytes()).sum()
}

/// Returns the same exchange, changed.
pub(super) fn changed(recorded: &Recorded, change: impl FnOnce(&mut Exchange)) -> Recorded {
    let mut exchange = (*recorded.exchange).clone();
    change(&mut exchange);
    Recorded::new(recorded.seq, exchange)
}

/// Returns the compaction, to replace this version.
pub(super) fn compact(replaces: CompactionVersion, contents: Compact) -> Compact {
    with!(contents, replaces: replaces)
}

/// Returns a compaction of the default profile whose window starts at this position, without derived text.
pub(super) fn window_from(seq: u64) -> Compact {
    let state = format!("window from {seq}").into_bytes();
    Compact::new(Profile::default(), NONE, Seq::new(seq), state.into(), None)
}

/// Returns a compaction with this text in place of the exchanges before the window.
pub(super) fn summary_to(seq: u64, text: &str) -> Compact {
    with!(window_from(seq), derived: Some(text.as_bytes().into()))
}

pub(super) fn profile(name: &str) -> Profile {
    Profile::new(name).unwrap()
}

pub(super) fn limit(messages: usize, bytes: usize) -> Load {
    Load::new().limit(LoadLimit::new(messages, bytes).unwrap())
}

/// Returns a load with these limits of bytes without media, and of media.
pub(super) fn limit_of_bytes(text: usize, media: usize) -> Load {
    Load::new().limit(LoadLimit::new(MANY, text).unwrap().with_media_bytes(media))
}

#[track_caller]
pub(super) fn window(loaded: Loaded) -> Window {
    match loaded {
        Loaded::Window(window) => window,
        other => panic!("a window is loaded: {other:?}"),
    }
}

/// Returns the version under which a compaction was stored.
#[track_caller]
pub(super) fn stored(outcome: Option<CompactOutcome>) -> CompactionVersion {
    match outcome {
        Some(CompactOutcome::Stored(version)) => version,
        other => panic!("the compaction is stored: {other:?}"),
    }
}

#[track_caller]
#[allow(clippy::needless_pass_by_value)] // It is the end of the result.
pub(super) fn assert_gone<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Gone)), "the call is refused with `Gone`: {result:?}");
}

/// Asserts a conflict that names the log's revision, or none if the store does not know it.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // It is the end of the result.
pub(super) fn assert_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>, at: Revision) {
    match result {
        Err(StoreError::Conflict { current }) if current.is_none_or(|current| current == at) => {}
        other => panic!("the call conflicts with {at}: {other:?}"),
    }
}

/// Asserts that a continuation is refused, because a log of this length never had the position.
#[track_caller]
#[allow(clippy::needless_pass_by_value)] // It is the end of the result.
pub(super) fn assert_unknown(result: Result<Appended, StoreError>, position: u64, log: u64) {
    match result {
        Err(StoreError::ContinuesUnknown { continues, len }) if continues.get() == position && len == log => {}
        other => panic!("a log of {log} has no position {position} to continue: {other:?}"),
    }
}

/// The number of times that a behavior tries a first turn that must not be refused.
///
/// Another behavior that uses the same storage records an erasure of all conversations, so one of the attempts may be
/// refused.
const ATTEMPTS: usize = 20;

/// Repeats a part of a behavior that must succeed, unless an erasure of all conversations was recorded in the meantime.
/// The part returns `None` if a first turn was refused with `Gone`.
pub(super) async fn must_land<T, F: Future<Output = Option<T>> + Send>(mut part: impl FnMut() -> F + Send) -> T {
    for _ in 0..ATTEMPTS {
        if let Some(done) = part().await {
            return done;
        }
    }
    panic!("the first turn is stored, because its conversation was not erased");
}

/// Returns `None` if an append or a fork was refused with `Gone`, for [`must_land`].
#[track_caller]
pub(super) fn landed<T>(result: Result<T, StoreError>) -> Option<T> {
    match result {
        Err(StoreError::Gone) => None,
        result => Some(result.unwrap()),
    }
}

/// Lets other tasks run first, this many times, also with a store whose calls never wait.
pub(super) async fn pause(times: usize) {
    for _ in 0..times {
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

/// Pseudorandom numbers that are the same in each run (xorshift).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed * 0x9e37_79b9)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
