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
use tower_chat_history::{ChatHistory, ChatHistoryLayer, Engine, InConversation, Message, Reply, TurnInput};
use tower_chat_history_openai::OpenAi;

use crate::{
    FixedWindow, Llm,
    api::{APIS, Api, Layered, asked_in, layer, provenance},
    llm, question, request, text, turn,
};

/// One kind of turn.
#[allow(missing_debug_implementations)]
pub enum Turns {
    /// A caller that has the window in the client's types, and copies it for each call.
    ByHand(Llm, CreateChatCompletionRequest),
    /// The engine alone, without the client's types. Its calls name no model, so they have no budget.
    Engine(Engine, FixedWindow),
    /// The layer with the client's types.
    Typed(ChatHistory<Llm, OpenAi>, CreateChatCompletionRequest, FixedWindow),
    /// The layer over HTTP requests.
    Http(Api, Layered, Bytes, FixedWindow),
}

impl Turns {
    /// The names of all kinds.
    pub const KINDS: [&str; 7] = ["by-hand", "engine", "typed", "typed-unbudgeted", "chat", "messages", "responses"];

    /// Returns the kind with this name, with this number of messages in the window.
    pub fn of(kind: &str, runtime: &Runtime, window: usize) -> Self {
        let kept = |turn| runtime.block_on(FixedWindow::of_window(window, turn, None, window));
        match kind {
            "by-hand" => {
                let mut messages: Vec<Message> = (0..window / 2).flat_map(|_| turn(&text())).collect();
                messages.push(Message::user(text()));
                Self::ByHand(llm(), request(&messages))
            }
            "engine" => {
                let kept = kept(turn(&text()));
                Self::Engine(Engine::new(kept.store.clone()), kept)
            }
            "typed" | "typed-unbudgeted" => {
                let (kept, mut question) = (kept(turn(&text())), question());
                if kind == "typed-unbudgeted" {
                    // The context window of this model is unknown.
                    question.model = "unlimited".into();
                }
                Self::Typed(ChatHistoryLayer::new(kept.store.clone(), OpenAi::new()).layer(llm()), question, kept)
            }
            kind => {
                let api = APIS.into_iter().find(|api| api.name == kind).unwrap();
                let provenance = runtime.block_on(provenance(api));
                let kept = runtime.block_on(FixedWindow::of_window(window, api.turn(), provenance, window));
                let body = Bytes::from(api.body(&kept.turn()[..1]));
                Self::Http(api, layer(kept.store.clone(), api), body, kept)
            }
        }
    }

    /// Makes this many turns, and returns their time. Between two turns, the window gets its size again, which does not
    /// count.
    pub fn make(&mut self, runtime: &Runtime, turns: usize) -> Duration {
        (0..turns).map(|_| self.make_one(runtime)).sum()
    }

    fn make_one(&mut self, runtime: &Runtime) -> Duration {
        match self {
            Self::ByHand(llm, request) => {
                measured(runtime, async { llm.ready().await.unwrap().call(request.clone()).await.unwrap() })
            }
            Self::Engine(engine, kept) => {
                let [question, answer] = kept.turn();
                let time = measured(runtime, async {
                    let turn = engine.begin(TurnInput::new(kept.id.clone(), [question])).await.unwrap();
                    black_box(turn.context());
                    turn.commit(Reply::new(answer)).await.unwrap()
                });
                runtime.block_on(kept.restore());
                time
            }
            Self::Typed(chat, question, kept) => {
                let call = InConversation::new(kept.id.clone(), question.clone());
                let time = measured(runtime, async { chat.ready().await.unwrap().call(call).await.unwrap() });
                runtime.block_on(kept.restore());
                time
            }
            Self::Http(api, chat, body, kept) => {
                let request = asked_in(&kept.id, *api, body);
                let time = measured(runtime, async {
                    let response = chat.oneshot(request).await.unwrap();
                    response.into_body().collect().await.unwrap().to_bytes()
                });
                runtime.block_on(kept.restore());
                time
            }
        }
    }
}

/// Makes one turn, and returns its time. Profilers find the turns by the name of this function.
#[inline(never)]
fn measured<T>(runtime: &Runtime, turn: impl Future<Output = T>) -> Duration {
    let start = Instant::now();
    black_box(runtime.block_on(turn));
    start.elapsed()
}
