use tower_chat_history_core::HistoryStore;
use tower_layer::Layer;

use super::ChatHistory;
use crate::{engine::Engine, options::HistoryOptions};

/// Gives every call its conversation's history, and saves the exchange. See the [module docs](crate::middleware).
///
/// Services made by one layer, and by its clones, share the store, the options and the saves that are in flight.
#[derive(Clone, Debug)]
pub struct ChatHistoryLayer<A> {
    engine: Engine,
    adapter: A,
}

impl<A> ChatHistoryLayer<A> {
    /// Remembers in that store what the adapter finds in requests and responses, with the
    /// [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore, adapter: A) -> Self {
        Self::with_options(store, adapter, HistoryOptions::new())
    }

    /// Remembers in that store what the adapter finds in requests and responses.
    pub fn with_options(store: impl HistoryStore, adapter: A, options: HistoryOptions) -> Self {
        Self::from_engine(Engine::with_options(store, options), adapter)
    }

    /// A layer over an engine that may be shared with other layers and with code that uses it directly, or that keeps no more
    /// than the end of each conversation ([`Engine::with_retention`]).
    pub const fn from_engine(engine: Engine, adapter: A) -> Self {
        Self { engine, adapter }
    }

    /// The engine: drain it before the runtime shuts down.
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
