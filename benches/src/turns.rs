//! Kinds of turns over the memory store, each with a constant window, and turns over SQLite.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use async_openai::types::chat::CreateChatCompletionRequest;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, ConversationId, Engine, Exchange, ExchangeId, HistoryStore as _, InConversation,
    MemoryStore, Message, Reply, TurnInput,
    store::{Append, Cut, Cuts, Expect, Load, Loaded, Profile, Provenance, Seq},
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::SqliteStore;

use crate::{
    Llm, WINDOW,
    api::{APIS, Api, Layered, asked_in, layer, provenance},
    contest::Circle,
    conversation, fill_all, llm, question, request, text, turn,
};

/// One kind of turn.
#[allow(missing_debug_implementations, clippy::large_enum_variant)] // A bench has few values.
pub enum Turns {
    /// A caller that has the window in the client's types, and copies it for each call.
    ByHand(Llm, Rotation<CreateChatCompletionRequest>),
    /// The engine alone, without the client's types. Its calls name no model, so they have no budget.
    Engine(Engine, Rotation<FixedWindow>),
    /// The layer with the client's types.
    Typed(ChatHistory<Llm, OpenAi>, CreateChatCompletionRequest, Rotation<FixedWindow>),
    /// The layer over HTTP requests.
    Http(Api, Layered, Bytes, Rotation<FixedWindow>),
    /// The layer with the client's types over an SQLite file in this directory. Each turn adds to the window.
    Sqlite(ChatHistory<Llm, OpenAi>, CreateChatCompletionRequest, Rotation<ConversationId>, TempDir),
}

impl Turns {
    /// The names of all kinds over the memory store.
    pub const KINDS: [&str; 7] = ["by-hand", "engine", "typed", "typed-unbudgeted", "chat", "messages", "responses"];

    /// Returns the kind with this name (one of [`KINDS`](Self::KINDS), or `sqlite`), with this number of conversations,
    /// and this number of messages in the window of each. Each turn is in the next conversation.
    ///
    /// A turn has already been made in each conversation. It counts the messages of the window, which later turns need
    /// not do, so it is not measured.
    pub fn of(kind: &str, runtime: &Runtime, window: usize, conversations: usize) -> Self {
        let mut turns = match kind {
            "by-hand" => Self::by_hand(window, conversations),
            "sqlite" => Self::sqlite(runtime, window, conversations),
            _ => Self::in_memory(kind, runtime, window, conversations),
        };
        for _ in 0..conversations {
            turns.make_one(runtime, false);
        }
        turns
    }

    fn by_hand(window: usize, conversations: usize) -> Self {
        let mut messages: Vec<Message> = (0..window / 2).flat_map(|_| turn(&text())).collect();
        messages.push(Message::user(text()));
        let requests = (0..conversations).map(|_| request(&messages));
        Self::ByHand(llm(), Rotation::new(requests.collect()))
    }

    fn sqlite(runtime: &Runtime, window: usize, conversations: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = runtime.block_on(SqliteStore::open(directory.path().join("turns.db"))).unwrap();
        runtime.block_on(fill_all(&store, 0..conversations, window / 2));

        let chat = ChatHistoryLayer::new(store, OpenAi::new()).layer(llm());
        let ids = (0..conversations).map(conversation).collect();
        Self::Sqlite(chat, question(), Rotation::new(ids), directory)
    }

    fn in_memory(kind: &str, runtime: &Runtime, window: usize, conversations: usize) -> Self {
        let api = APIS.into_iter().find(|api| api.name == kind);
        let turn = api.map_or_else(|| turn(&text()), Api::turn);
        let provenance = api.and_then(|api| runtime.block_on(provenance(api)));

        let store = MemoryStore::new();
        let mut windows = Vec::new();
        for number in 0..conversations {
            let kept =
                FixedWindow::in_store(store.clone(), number, window / 2, turn.clone(), provenance.clone(), window);
            windows.push(runtime.block_on(kept));
        }
        let windows = Rotation::new(windows);

        if let Some(api) = api {
            let body = Bytes::from(api.body(&api.turn()[..1]));
            return Self::Http(api, layer(store, api), body, windows);
        }
        if kind == "engine" {
            return Self::Engine(Engine::new(store), windows);
        }
        let mut question = question();
        if kind == "typed-unbudgeted" {
            // The context window of this model is unknown.
            question.model = "unlimited".into();
        }
        Self::Typed(ChatHistoryLayer::new(store, OpenAi::new()).layer(llm()), question, windows)
    }

    /// Makes this many turns, and returns their time. Calls `before_each` before each turn. After each turn, the window
    /// gets its size again. Neither counts.
    pub fn make(&mut self, runtime: &Runtime, turns: usize, before_each: impl Fn()) -> Duration {
        let mut time = Duration::ZERO;
        for _ in 0..turns {
            before_each();
            time += self.make_one(runtime, true);
        }
        time
    }

    fn make_one(&mut self, runtime: &Runtime, is_measured: bool) -> Duration {
        match self {
            Self::ByHand(llm, requests) => {
                let request = requests.next();
                run(runtime, is_measured, async { llm.ready().await.unwrap().call(request.clone()).await.unwrap() })
            }
            Self::Engine(engine, kept) => {
                let kept = kept.next();
                let [question, answer] = kept.turn();
                let time = run(runtime, is_measured, async {
                    let turn = engine.begin(TurnInput::new(kept.id.clone(), [question])).await.unwrap();
                    black_box(turn.context());
                    turn.commit(Reply::new(answer)).await.unwrap()
                });
                runtime.block_on(kept.restore());
                time
            }
            Self::Typed(chat, question, kept) => {
                let kept = kept.next();
                let call = InConversation::new(kept.id.clone(), question.clone());
                let time = run(runtime, is_measured, async { chat.ready().await.unwrap().call(call).await.unwrap() });
                runtime.block_on(kept.restore());
                time
            }
            Self::Http(api, chat, body, kept) => {
                let kept = kept.next();
                let request = asked_in(&kept.id, *api, body);
                let time = run(runtime, is_measured, async {
                    let response = chat.oneshot(request).await.unwrap();
                    response.into_body().collect().await.unwrap().to_bytes()
                });
                runtime.block_on(kept.restore());
                time
            }
            Self::Sqlite(chat, question, ids, _) => {
                let call = InConversation::new(ids.next().clone(), question.clone());
                run(runtime, is_measured, async { chat.ready().await.unwrap().call(call).await.unwrap() })
            }
        }
    }
}

/// Conversations that take turns, in the order of a [`Circle`].
#[derive(Debug)]
pub struct Rotation<T> {
    all: Vec<T>,
    circle: Circle,
}

impl<T> Rotation<T> {
    fn new(all: Vec<T>) -> Self {
        Self { circle: Circle::new(0, all.len()), all }
    }

    fn next(&mut self) -> &mut T {
        &mut self.all[self.circle.next()]
    }
}

/// Makes one turn, and returns its time if it is measured.
fn run<T>(runtime: &Runtime, is_measured: bool, turn: impl Future<Output = T>) -> Duration {
    if is_measured {
        return measured(runtime, turn);
    }
    black_box(runtime.block_on(turn));
    Duration::ZERO
}

/// Makes one turn, and returns its time. Profilers find the turns by the name of this function.
#[inline(never)]
fn measured<T>(runtime: &Runtime, turn: impl Future<Output = T>) -> Duration {
    let start = Instant::now();
    black_box(runtime.block_on(turn));
    start.elapsed()
}

/// The number of turns before a conversation is recreated, however short it is. That work is not measured, but it takes
/// the other conversations out of the CPU's caches.
const MIN_GROWTH: usize = 64;

/// A conversation in memory with a constant window.
#[derive(Debug)]
pub struct FixedWindow {
    /// The store.
    pub store: MemoryStore,
    /// The conversation.
    pub id: ConversationId,
    turn: [Message; 2],
    /// The messages of the log, two for each turn. No two of them share memory, as in a log that was loaded.
    own: Vec<Message>,
    provenance: Option<Provenance>,
    turns: usize,
    more: usize,
    /// The number of messages of the window.
    window: usize,
}

impl FixedWindow {
    /// Creates a conversation that has this turn many times. Its window has [`WINDOW`] messages.
    pub async fn of_turn(turns: usize, turn: [Message; 2]) -> Self {
        Self::of_turn_made(turns, turn, None).await
    }

    /// Creates the same. Each exchange has this provenance.
    pub async fn of_turn_made(turns: usize, turn: [Message; 2], provenance: Option<Provenance>) -> Self {
        Self::in_store(MemoryStore::new(), 0, turns, turn, provenance, WINDOW).await
    }

    /// Creates the same in this store, as the [conversation](conversation()) with this number, and with this number of
    /// messages in the window.
    pub async fn in_store(
        store: MemoryStore,
        number: usize,
        turns: usize,
        turn: [Message; 2],
        provenance: Option<Provenance>,
        window: usize,
    ) -> Self {
        let own = (0..turns).flat_map(|_| turn.each_ref().map(copy)).collect();
        let kept = Self { store, id: conversation(number), own, turn, provenance, turns, more: 0, window };
        kept.begin().await;
        kept
    }

    /// Returns the turn.
    #[must_use]
    pub fn turn(&self) -> [Message; 2] {
        self.turn.clone()
    }

    async fn begin(&self) {
        self.store.delete(&self.id).await.unwrap();
        for own in self.own.chunks(2) {
            let mut exchange = Exchange::new(ExchangeId::generate(), own.iter().cloned());
            exchange.provenance.clone_from(&self.provenance);
            self.store.append(&self.id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
        }
        self.cut().await;
    }

    /// Stores a compaction that restores the size of the window.
    async fn cut(&self) {
        let start = self.turns + self.more - self.window / 2;
        let Loaded::Window(window) = self.store.load(&self.id, Load::new()).await.unwrap() else { return };

        let cut = Cut::window_from(Seq::new(start as u64));
        let compact = Cuts::new(cut).compact(Profile::default(), window.compaction_version()).unwrap();
        self.store.compact(&self.id, window.revision.incarnation(), compact).await.unwrap();
    }

    /// Restores the size of the window after a turn. Recreates the conversation after it has grown by a tenth, and by
    /// a minimum.
    pub async fn restore(&mut self) {
        self.more += 1;
        if self.more > MIN_GROWTH.max(self.turns / 10) {
            self.more = 0;
            self.begin().await;
        } else {
            self.cut().await;
        }
    }
}

/// Returns a message that shares no memory with this one.
fn copy(message: &Message) -> Message {
    Message::in_dialect(message.dialect().unwrap(), message.json().to_owned()).unwrap()
}
