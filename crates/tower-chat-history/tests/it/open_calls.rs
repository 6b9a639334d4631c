//! The open tool calls of a conversation and the end of its log, read without the rest of the log.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use proptest::prelude::*;
use tower_chat_history::{
    ContextOptions, ConversationId, Engine, Exchange, ExchangeId, HistoryOptions, HistoryStore, HistoryStoreExt as _,
    MemoryStore, Message, Reply, StoreError, TurnInput,
    engine::ToolResults,
    store::{
        Append, Appended, Compact, CompactOutcome, Expect, Incarnation, Load, LoadLimit, Loaded, NewestRound, Page, Seq,
    },
    view::View,
};

fn id() -> ConversationId {
    ConversationId::new(["agent"]).unwrap()
}

/// Returns an assistant message with these calls, given by id and arguments.
fn calls(calls: &[(&str, &str)]) -> Message {
    let call = |(id, arguments): &(&str, &str)| serde_json::json!({"id": id, "type": "function", "function": {"name": format!("f_{id}"), "arguments": arguments}});
    let calls: Vec<_> = calls.iter().map(call).collect();
    Message::try_from(serde_json::json!({"role": "assistant", "content": null, "tool_calls": calls})).unwrap()
}

async fn append(store: &impl HistoryStore, messages: impl IntoIterator<Item = Message>, continues: Option<u64>) {
    let mut exchange = Exchange::new(ExchangeId::generate(), messages);
    exchange.continues = continues.map(Seq::new);
    store.append(&id(), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
}

/// Returns the id, name and arguments of each open call.
async fn open(store: &impl HistoryStore) -> Vec<(String, String, String)> {
    let calls = store.conversation(&id()).open_calls().await.unwrap();
    calls.iter().map(|call| (call.id().into(), call.name().into(), call.arguments().into())).collect()
}

fn expected(calls: &[(&str, &str)]) -> Vec<(String, String, String)> {
    calls.iter().map(|(id, arguments)| ((*id).into(), format!("f_{id}"), (*arguments).into())).collect()
}

#[tokio::test]
async fn the_calls_of_the_last_round_are_open_until_they_have_results() {
    let store = MemoryStore::new();
    assert_eq!(open(&store).await, []);
    append(&store, [Message::user("u"), Message::assistant("a")], None).await;
    assert_eq!(open(&store).await, []);
    append(&store, [Message::user("u"), calls(&[("x", "{}"), ("y", "1")])], None).await;
    assert_eq!(open(&store).await, expected(&[("x", "{}"), ("y", "1")]));
    append(&store, [Message::tool("y", "r"), Message::tool("x", "r"), calls(&[("z", "2")])], Some(1)).await;
    assert_eq!(open(&store).await, expected(&[("z", "2")]));
    append(&store, [Message::tool("z", "r"), Message::assistant("a")], Some(2)).await;
    assert_eq!(open(&store).await, []);
}

#[tokio::test]
async fn results_stored_one_by_one_leave_the_other_calls_open() {
    let store = MemoryStore::new();
    append(&store, [Message::user("u"), calls(&[("x", "0"), ("y", "1"), ("z", "2")])], None).await;
    append(&store, [Message::tool("y", "r")], Some(0)).await;
    assert_eq!(open(&store).await, expected(&[("x", "0"), ("z", "2")]));
    append(&store, [Message::tool("z", "r")], Some(0)).await;
    assert_eq!(open(&store).await, expected(&[("x", "0")]));
    append(&store, [Message::tool("x", "r")], Some(0)).await;
    assert_eq!(open(&store).await, []);
}

#[tokio::test]
async fn the_later_of_two_calls_with_one_id_stays_open() {
    let store = MemoryStore::new();
    append(&store, [Message::user("u"), calls(&[("x", "first"), ("y", "1"), ("x", "second")])], None).await;
    append(&store, [Message::tool("x", "r")], Some(0)).await;
    assert_eq!(open(&store).await, expected(&[("y", "1"), ("x", "second")]));
}

#[tokio::test]
async fn a_question_over_open_calls_abandons_them() {
    let store = MemoryStore::new();
    append(&store, [Message::user("u"), calls(&[("x", "0")])], None).await;
    append(&store, [Message::user("never mind"), Message::assistant("a")], None).await;
    append(&store, [Message::tool("x", "late"), Message::assistant("b")], Some(0)).await;
    assert_eq!(open(&store).await, []);
}

/// A store that counts the exchanges that are read.
#[derive(Clone, Debug, Default)]
struct Counting {
    store: MemoryStore,
    read: Arc<AtomicUsize>,
}

#[async_trait]
impl HistoryStore for Counting {
    fn system(&self) -> &'static str {
        self.store.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let loaded = self.store.load(id, load).await?;
        if let Loaded::Window(window) = &loaded {
            self.read.fetch_add(window.exchanges.len(), Relaxed);
        }
        Ok(loaded)
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.store.append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.store.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let page = self.store.read(id, from, limit).await?;
        self.read.fetch_add(page.exchanges.len(), Relaxed);
        Ok(page)
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.store.delete(id).await
    }
}

#[tokio::test]
async fn the_end_of_a_long_log_is_read_without_the_rest() {
    let store = Counting::default();
    for _ in 0..2_000 {
        append(&store, [Message::user("u"), Message::assistant("a")], None).await;
    }
    append(&store, [Message::user("u"), calls(&[("x", "0"), ("y", "1")])], None).await;
    append(&store, [Message::tool("x", "r")], Some(2_000)).await;
    let id = id();
    let conversation = store.conversation(&id);
    let read = || store.read.swap(0, Relaxed);
    assert_eq!((conversation.len().await.unwrap(), read()), (2_002, 0));
    assert_eq!((open(&store).await, read()), (expected(&[("y", "1")]), 2));
    assert_eq!((conversation.last(20).await.unwrap().len(), read()), (20, 20));
    let newest = conversation.read_back(None, 20).await.unwrap();
    assert_eq!(read(), 20);
    let earlier = conversation.read_back(newest.earlier, 20).await.unwrap();
    assert_eq!((earlier.exchanges.last().unwrap().seq, read()), (Seq::new(1_981), 20));
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = prop::sample::select(vec!["x", "y", "z"]);
    prop_oneof![
        Just(Message::user("u")),
        Just(Message::assistant("a")),
        Just(Message::assistant("")),
        prop::collection::vec(id.clone(), 1..4)
            .prop_map(|ids| calls(&ids.into_iter().map(|id| (id, "{}")).collect::<Vec<_>>())),
        id.clone().prop_map(|id| Message::tool(id, "r")),
        id.prop_map(|id| Message::tool(id, "r")),
    ]
}

proptest! {
    /// For any log, in any exchanges: the open calls are those of the view of the whole log.
    #[test]
    fn open_calls_are_those_of_the_view_of_the_whole_log(
        log in prop::collection::vec((prop::collection::vec(any_message(), 0..4), any::<bool>()), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = MemoryStore::new();
        for (at, (messages, opens)) in log.into_iter().enumerate() {
            let continues = (at as u64).checked_sub(1).filter(|_| !opens);
            runtime.block_on(append(&store, messages, continues));
        }
        let mut view = View::default();
        let (id, log) = (id(), store.clone());
        for recorded in runtime.block_on(log.conversation(&id).exchanges()).unwrap() {
            view.push_exchange(&recorded);
        }
        let open: Vec<String> = runtime.block_on(open(&store)).into_iter().map(|(id, ..)| id).collect();
        prop_assert_eq!(open, view.open().ids().map(|id| id.as_str()).collect::<Vec<_>>());
    }
}

/// An exchange of an edited log: it may continue any position, and its reply may have broken off.
#[derive(Clone, Debug)]
struct Edited {
    messages: Vec<Message>,
    continues: Option<u64>,
    incomplete: bool,
}

fn edited_log() -> impl Strategy<Value = Vec<Edited>> {
    let exchange = (prop::collection::vec(any_message(), 0..4), prop::option::of(0_u64..8), any::<bool>());
    let exchange = exchange.prop_map(|(messages, continues, incomplete)| Edited { messages, continues, incomplete });
    prop::collection::vec(exchange, 1..12)
}

async fn stored(log: &[Edited]) -> MemoryStore {
    let store = MemoryStore::new();
    for (at, Edited { messages, continues, incomplete }) in log.iter().enumerate() {
        let mut exchange = Exchange::new(ExchangeId::generate(), messages.clone());
        exchange.continues = continues.filter(|seq| *seq < at as u64).map(Seq::new);
        exchange.incomplete = *incomplete;
        store.append(&id(), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    store
}

/// Returns which exchange the next one continues if it answers these calls, according to each of the three
/// parts that decide this.
async fn continued(log: &[Edited], limit: usize, open: &[String]) -> [Option<Seq>; 3] {
    let options =
        || HistoryOptions::new().context(ContextOptions::new().load_limit(LoadLimit::new(limit, usize::MAX).unwrap()));
    let results = || open.iter().map(|id| Message::tool(id, "r"));
    let last = async |store: MemoryStore| store.conversation(&id()).last(1).await.unwrap()[0].exchange.continues;

    let store = stored(log).await;
    let engine = Engine::with_options(store.clone(), options());
    let begun = engine.begin(TurnInput::new(id(), results())).await.unwrap();
    begun.commit(Reply::new(Message::assistant("done"))).await.unwrap();
    let by_turn = last(store).await;

    let store = stored(log).await;
    let engine = Engine::with_options(store.clone(), options());
    engine.store_results(ToolResults::new(id(), results())).await.unwrap();
    let by_results = last(store).await;

    let store = stored(log).await;
    store.conversation(&id()).import(results().chain([Message::assistant("done")])).await.unwrap();
    [by_turn, by_results, last(store).await]
}

proptest! {
    /// For any edited log and any limit, these agree on the open calls: the report of open calls, the next
    /// turn, the storing of results, and an import.
    #[test]
    fn all_parts_agree_on_the_open_calls_of_an_edited_log(log in edited_log(), limit in 4_usize..40) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = stored(&log).await;
            let open: Vec<String> = open(&store).await.into_iter().map(|(id, ..)| id).collect();
            let exchanges = store.conversation(&id()).exchanges().await.unwrap();
            let newest = NewestRound::of(&exchanges);
            prop_assert_eq!(&open, &newest.open().ids().map(|id| id.as_str()).collect::<Vec<_>>());
            let mut view = View::default();
            exchanges.iter().for_each(|recorded| view.push_exchange(recorded));
            prop_assert_eq!(view.open(), newest.open());
            if open.is_empty() {
                let options = HistoryOptions::new().context(ContextOptions::new().load_limit(LoadLimit::new(limit, usize::MAX).unwrap()));
                let engine = Engine::with_options(store, options);
                for id in ["x", "y", "z"] {
                    let results = ToolResults::new(self::id(), [Message::tool(id, "r")]);
                    prop_assert!(engine.store_results(results).await.is_err());
                }
            } else {
                prop_assert!(newest.asked().is_some());
                prop_assert_eq!(continued(&log, limit, &open).await, [newest.asked(); 3]);
            }
            Ok(())
        })?;
    }
}
