//! Stores that are filled to a size, and turns over them.
#![allow(clippy::future_not_send)] // Benches block on these futures.

mod base;
pub mod plot;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use futures_util::StreamExt as _;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    CachedStore, ChatHistory, ChatHistoryLayer, ContextOptions, Exchange, ExchangeId, HistoryOptions, HistoryStore,
    InConversation,
    store::{Append, Expect, LoadLimit},
};
use tower_chat_history_openai::OpenAi;

pub use self::base::{Base, STORES};
use crate::{Llm, WINDOW, contest::Circle, conversation, fill_all, llm, question, text, turn};

/// The forms of a turn: without and with a `CachedStore`.
pub const FORMS: [&str; 2] = ["plain", "cached"];

/// The number of conversations that cached turns use among many. Their windows are in the cache.
const ACTIVE: usize = 100;

/// The size of the cache in bytes, enough for all windows.
pub const CACHE_BYTES: usize = 1 << 30;

/// The order in which turns of one form use the conversations of a store.
#[derive(Debug)]
enum Order {
    /// As many turns as a log may grow by, in one conversation after the other.
    OneByOne { from: usize, copies: usize, turns_of_each: usize, turns: AtomicUsize },
    /// Every `step`th conversation, in an order that is not sequential.
    Spread { circle: Circle, step: usize },
}

impl Order {
    fn next(&self) -> usize {
        match self {
            Self::OneByOne { from, copies, turns_of_each, turns } => {
                from + turns.fetch_add(1, Relaxed) / turns_of_each % copies
            }
            Self::Spread { circle, step } => circle.next() * step,
        }
    }
}

/// The turns of one form over a store.
#[allow(missing_debug_implementations)]
pub struct Turns {
    chat: ChatHistory<Llm, OpenAi>,
    order: Order,
}

impl Turns {
    fn new(store: Arc<dyn HistoryStore>, form: &str, order: Order) -> Self {
        // With this limit, windows have 60 to 80 messages, because a compaction goes down to three quarters of it.
        let limit = LoadLimit::new(WINDOW * 4 / 3, 1 << 30).unwrap();
        let options = HistoryOptions::new().context(ContextOptions::new().load_limit(limit));
        let store: Arc<dyn HistoryStore> = match form {
            "cached" => Arc::new(CachedStore::with_limit(store, CACHE_BYTES)),
            _ => store,
        };
        Self { chat: ChatHistoryLayer::with_options(store, OpenAi::new(), options).layer(llm()), order }
    }

    /// Creates turns over the store as it is, in this many conversations.
    #[must_use]
    pub fn among(store: Arc<dyn HistoryStore>, conversations: usize) -> Self {
        Self::new(store, FORMS[0], Order::Spread { circle: Circle::new(0, conversations), step: 1 })
    }

    /// Makes a turn in the next conversation.
    pub async fn make(&self) {
        self.make_in(self.order.next()).await;
    }

    async fn make_in(&self, number: usize) {
        let call = InConversation::new(conversation(number), question());
        std::hint::black_box(self.chat.clone().oneshot(call).await.unwrap());
    }
}

/// Returns the turns of each form over a store with logs of this many messages. Each log grows by at most a fifth
/// within this number of turns, which both forms make, so there are several short logs. The forms share a long one.
pub async fn of_logs(base: &mut Base, messages: usize, turns: usize) -> [Turns; 2] {
    let turns_of_each = (messages / 10).max(1);
    let copies = turns.div_ceil(turns_of_each);
    let is_shared = FORMS.len() * turns <= turns_of_each;
    let from = |form: usize| if is_shared { 0 } else { form * copies };
    let store = base.filled(async |store| fill_logs(store, from(1) + copies, messages / 2).await).await;
    let of_form = |form: usize| {
        let order = Order::OneByOne { from: from(form), copies, turns_of_each, turns: AtomicUsize::new(0) };
        Turns::new(Arc::clone(&store), FORMS[form], order)
    };
    let forms = [of_form(0), of_form(1)];
    for (form, turns) in forms.iter().enumerate() {
        for copy in 0..copies {
            // The first turn costs more: it stores a compaction, and fills the cache.
            turns.make_in(from(form) + copy).await;
        }
    }
    forms
}

/// Returns the turns of each form over a store with this many conversations of one exchange each. Plain turns use all
/// of them, and cached turns use a hundred of them.
pub async fn of_conversations(base: &mut Base, conversations: usize) -> [Turns; 2] {
    let store = base.filled(async |store| fill_all(store, 0..conversations, 1).await).await;
    let plain = Order::Spread { circle: Circle::new(0, conversations), step: 1 };
    let step = conversations / ACTIVE;
    let cached = Turns::new(Arc::clone(&store), FORMS[1], Order::Spread { circle: Circle::new(0, ACTIVE), step });
    for active in 0..ACTIVE {
        cached.make_in(active * step).await;
    }
    [Turns::new(store, FORMS[0], plain), cached]
}

/// Returns the turns of each form over this many conversations with a full window. Each form has its own ones, and has
/// used each of them once.
pub async fn of_windows(base: &mut Base, conversations: usize) -> [Turns; 2] {
    let store = base.filled(async |store| fill_all(store, 0..2 * conversations, WINDOW / 2).await).await;
    let of_form = |number: usize| {
        let order = Order::Spread { circle: Circle::new(number * conversations, conversations), step: 1 };
        Turns::new(Arc::clone(&store), FORMS[number], order)
    };
    let forms = [of_form(0), of_form(1)];
    for turns in &forms {
        for _ in 0..conversations {
            turns.make().await;
        }
    }
    forms
}

/// Fills conversations with many exchanges each. The exchanges of one conversation are appended concurrently, too.
async fn fill_logs(store: &dyn HistoryStore, conversations: usize, exchanges: usize) {
    let turn = turn(&text());
    for number in 0..conversations {
        let id = &conversation(number);
        let append = async || {
            let exchange = Exchange::new(ExchangeId::generate(), turn.iter().cloned());
            store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
        };
        // Alone, because only one append can create the conversation.
        append().await;
        futures_util::stream::iter(1..exchanges).for_each_concurrent(64, |_| append()).await;
    }
}
