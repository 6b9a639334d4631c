use tower_chat_history_core::HistoryStore;
use tower_layer::Layer;

use super::ChatHistory;
use crate::{engine::Engine, options::HistoryOptions};

/// A layer that adds the conversation's history to every call, and saves the exchange. See the [module
/// docs](crate::middleware).
///
/// All services of one layer and of its clones share the store, the options and the pending saves.
#[derive(Clone, Debug)]
pub struct ChatHistoryLayer<A> {
    engine: Engine,
    adapter: A,
}

impl<A> ChatHistoryLayer<A> {
    /// Creates a layer that stores conversations in `store`, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore, adapter: A) -> Self {
        Self::with_options(store, adapter, HistoryOptions::new())
    }

    /// Creates a layer that stores conversations in `store`, with these options.
    pub fn with_options(store: impl HistoryStore, adapter: A, options: HistoryOptions) -> Self {
        Self::from_engine(Engine::with_options(store, options), adapter)
    }

    /// Creates a layer that uses this engine. Use it to share an engine with other layers or with code that calls it
    /// directly, or for an engine that limits how much of each conversation stays stored
    /// ([`Engine::with_retention`]).
    pub const fn from_engine(engine: Engine, adapter: A) -> Self {
        Self { engine, adapter }
    }

    /// Returns the engine. [Drain](Engine::drain) it before the runtime shuts down.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl<S, A: Clone> Layer<S> for ChatHistoryLayer<A> {
    type Service = ChatHistory<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        ChatHistory::new(inner, self.engine.clone(), self.adapter.clone())
    }
}
