//! Open calls can be answered after any import, even if little of the log is loaded.

use proptest::prelude::*;
use tower_chat_history::{
    ContextOptions, Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Reply, TurnInput,
    budget::Watermarks,
    store::{LoadLimit, Seq},
    view::View,
};
use tower_chat_history_conformance::shorthand::cases;

use crate::support::{calls, id, texts};

fn engine(store: &MemoryStore) -> Engine {
    let options = HistoryOptions::new().context(
        ContextOptions::new().load_limit(LoadLimit::new(2, 1 << 20).unwrap()).watermarks(Watermarks::last_turns(1)),
    );
    Engine::with_options(store.clone(), options)
}

async fn complete_turn(engine: &Engine, input: Message, reply: Message) {
    let turn = engine.begin(TurnInput::new(id(), [input])).await.unwrap();
    turn.commit(Reply::new(reply)).await.unwrap();
}

#[tokio::test]
async fn imported_orphaned_results_and_blank_replies_open_no_turn() {
    let store = MemoryStore::new();
    let engine = engine(&store);
    complete_turn(&engine, Message::user("u0"), calls(&["x"])).await;
    let orphans = || [Message::tool("z", "late"), Message::assistant(""), Message::assistant("")];
    store.conversation(&id()).import(orphans()).await.unwrap();
    store.conversation(&id()).import(orphans()).await.unwrap();
    let log = store.conversation(&id()).exchanges().await.unwrap();
    assert!(log[1..].iter().all(|recorded| recorded.exchange.continues == Some(Seq::FIRST)), "{log:?}");
    let turn = engine.begin(TurnInput::new(id(), [Message::tool("x", "r")])).await.unwrap();
    assert_eq!(texts(turn.context()), ["u0", "", "r"]);
    let report = turn.commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    assert!(!report.is_moved());
}

#[tokio::test]
async fn results_imported_between_blank_replies_continue_the_turn() {
    let store = MemoryStore::new();
    let engine = engine(&store);
    complete_turn(&engine, Message::user("u0"), calls(&["x", "y"])).await;
    store.conversation(&id()).import([Message::assistant(""), Message::tool("y", "1")]).await.unwrap();
    let turn = engine.begin(TurnInput::new(id(), [Message::tool("x", "2")])).await.unwrap();
    assert_eq!(texts(turn.context()), ["u0", "", "1", "2"]);
}

fn any_imported() -> impl Strategy<Value = Message> {
    prop_oneof![
        1 => Just(Message::user("u")),
        1 => Just(Message::assistant("a")),
        3 => Just(Message::assistant("")),
        3 => prop::sample::select(vec!["x", "y", "z"]).prop_map(|id| Message::tool(id, "r")),
        2 => prop::sample::subsequence(vec!["x", "y"], 1..=2).prop_map(|ids| calls(&ids)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    /// After any import in any number of pieces, and after any truncation, the open calls of the whole log can
    /// be answered, and a call without input continues if only the reply is missing.
    #[test]
    fn open_calls_can_be_answered_after_any_import(
        pieces in prop::collection::vec((prop::collection::vec(any_imported(), 1..8), any::<bool>(), any::<bool>()), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            let engine = engine(&store);
            complete_turn(&engine, Message::user("u0"), Message::assistant("a0")).await;
            for (imported, taken, questioned) in pieces {
                store.conversation(&id()).import(imported).await.unwrap();
                if taken {
                    store.conversation(&id()).take_last().await.unwrap();
                }
                let mut view = View::default();
                for recorded in store.conversation(&id()).exchanges().await.unwrap() {
                    view.push_exchange(&recorded);
                }
                let results: Vec<Message> = view.open().ids().map(|id| Message::tool(id, "r")).collect();
                if !results.is_empty() || view.awaits_reply() {
                    let turn = engine.begin(TurnInput::new(id(), results)).await;
                    if let Err(error @ HistoryError::Input(_)) = turn {
                        panic!("{error}");
                    }
                }
                if questioned {
                    complete_turn(&engine, Message::user("u"), Message::assistant("a")).await;
                }
            }
        });
    }
}
