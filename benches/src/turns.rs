//! Kinds of turns over the memory store, each with a constant window.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use async_openai::types::chat::CreateChatCompletionRequest;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::runtime::Runtime;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, Engine, InConversation, MemoryStore, Message, Reply, TurnInput, store::Provenance,
};
use tower_chat_history_openai::OpenAi;

use crate::{
    FixedWindow, Llm,
    api::{APIS, Api, Layered, asked_in, layer, provenance},
    contest::Circle,
    llm, question, request, text, turn,
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
}

impl Turns {
    /// The names of all kinds.
    pub const KINDS: [&str; 7] = ["by-hand", "engine", "typed", "typed-unbudgeted", "chat", "messages", "responses"];

    /// Returns the kind with this name, with this number of conversations, and this number of messages in the window of
    /// each. Each turn is in the next conversation.
    ///
    /// A turn has already been made in each conversation. It counts the messages of the window, which later turns need
    /// not do, so it is not measured.
    pub fn of(kind: &str, runtime: &Runtime, window: usize, conversations: usize) -> Self {
        let mut turns = Self::new(kind, runtime, window, conversations);
        for _ in 0..conversations {
            turns.make_one(runtime, false);
        }
        turns
    }

    fn new(kind: &str, runtime: &Runtime, window: usize, conversations: usize) -> Self {
        let store = MemoryStore::new();
        let turns = window / 2;
        let kept = |turn: [Message; 2], provenance: Option<Box<Provenance>>| {
            let windows = (0..conversations).map(|number| {
                let (store, provenance) = (store.clone(), provenance.clone());
                runtime.block_on(FixedWindow::in_store(store, number, turns, turn.clone(), provenance, window))
            });
            Rotation::new(windows.collect())
        };
        match kind {
            "by-hand" => {
                let requests = (0..conversations).map(|_| {
                    let mut messages: Vec<Message> = (0..window / 2).flat_map(|_| turn(&text())).collect();
                    messages.push(Message::user(text()));
                    request(&messages)
                });
                Self::ByHand(llm(), Rotation::new(requests.collect()))
            }
            "engine" => {
                let kept = kept(turn(&text()), None);
                Self::Engine(Engine::new(store.clone()), kept)
            }
            "typed" | "typed-unbudgeted" => {
                let (kept, mut question) = (kept(turn(&text()), None), question());
                if kind == "typed-unbudgeted" {
                    // The context window of this model is unknown.
                    question.model = "unlimited".into();
                }
                Self::Typed(ChatHistoryLayer::new(store.clone(), OpenAi::new()).layer(llm()), question, kept)
            }
            kind => {
                let api = APIS.into_iter().find(|api| api.name == kind).unwrap();
                let kept = kept(api.turn(), runtime.block_on(provenance(api)));
                let body = Bytes::from(api.body(&api.turn()[..1]));
                Self::Http(api, layer(store.clone(), api), body, kept)
            }
        }
    }

    /// Makes this many turns, and returns their time. Calls `before_each` before each turn. After each turn, the window
    /// gets its size again. Neither counts.
    pub fn make(&mut self, runtime: &Runtime, turns: usize, before_each: impl Fn()) -> Duration {
        let make_one = |_| {
            before_each();
            self.make_one(runtime, true)
        };
        (0..turns).map(make_one).sum()
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
