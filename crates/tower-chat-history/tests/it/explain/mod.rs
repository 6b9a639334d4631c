//! Explained prompts are those that were sent, or are not known.
//!
//! `PROPTEST_CASES=10000 cargo test --release -p tower-chat-history --test it explain:: -- --nocapture` tests 10,000
//! conversations, and prints what happened in them.

mod api;
mod case;
mod world;

use std::cell::RefCell;

use proptest::test_runner::{Config, TestRunner};
use tower_chat_history::{
    CallOptions, Engine, Exchange, ExchangeId, HistoryOptions, HistoryStore, MemoryStore, Message, Policies, Reply,
    TurnInput,
    engine::ToolResults,
    explain::{NotKnown, Row},
    policy::OnLoadFailure,
    store::{Append, Expect, Seq},
};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_test::{Fault, Op};

use self::{
    api::{Api, Says},
    case::{Case, any_case},
    world::{Figures, World},
};
use crate::support::{fault_store, id};

#[test]
fn every_prompt_is_explained_as_it_was_sent_or_is_not_known() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (figures, many) = (RefCell::new(Figures::new()), cases(300));
    let config = Config { cases: many, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_case(), |case: Case| {
        runtime().block_on(async {
            let mut world = World::new(&case);
            let outcome = world.run(&case).await;
            for (kind, number) in world.figures {
                *figures.borrow_mut().entry(kind).or_default() += number;
            }
            outcome
        })
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());

    let figures = figures.into_inner();
    println!("{many} conversations: {figures:#?}");
    let of = |kind: &str| figures.get(kind).copied().unwrap_or_default();
    // Every prompt is known of which nothing was overwritten, removed or never stored: the reasons were checked.
    let unknown: u64 = figures.iter().filter(|(kind, _)| kind.starts_with("unknown")).map(|(_, number)| number).sum();
    assert!(of("known") > 3 * unknown, "most prompts are known: {figures:#?}");
    if many >= 1_000 {
        let fates = ["Sent", "InPart", "Cleared"].map(|fate| format!("row {fate}"));
        let reasons = [
            "BeforeWindow",
            "Later",
            "Round",
            "Reasoning",
            "Recalled",
            "StoodFor",
            "OtherAttempt",
            "Blank",
            "NoOpenCall",
            "Unpaired",
        ];
        let reasons = reasons.map(|reason| format!("row LeftOut({reason})"));
        let missing: Vec<&String> = fates.iter().chain(&reasons).filter(|kind| of(kind) == 0).collect();
        assert!(missing.is_empty(), "{missing:?} did not happen: {figures:#?}");
    }
}

/// Asks a question, and stores a reply.
async fn ask(engine: &Engine, input: impl IntoIterator<Item = Message>, reply: Message) {
    let turn = engine.begin(TurnInput::new(id(), input)).await.unwrap();
    turn.commit(Reply::new(reply)).await.unwrap();
}

/// Returns the reason why the prompt of the exchange at this position is not known.
async fn not_known(engine: &Engine, seq: u64) -> NotKnown {
    engine.explain(&id(), Seq::new(seq)).await.unwrap().unwrap().prompt.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn rows_say_what_was_sent_and_why_the_rest_was_left_out() {
    let engine = Engine::new(MemoryStore::new());
    ask(&engine, [Message::user("secret question")], Message::assistant("")).await;
    let (calls, _) = Api::Chat.reply(Says::Calls(2), 0);
    ask(&engine, [Message::user("look")], calls[0].clone()).await;
    let results = ToolResults::new(id(), [Message::tool("c0", "secret result")]);
    engine.store_results(results).await.unwrap();
    ask(&engine, [Message::user("never mind")], Message::assistant("ok")).await;

    let explained = engine.explain(&id(), Seq::new(3)).await.unwrap().unwrap();
    let rows = explained.prompt.as_ref().unwrap();
    let shown = |row: &Row| format!("{:?} {:?}", row.subject, row.fate);
    assert_eq!(
        rows.iter().map(shown).collect::<Vec<_>>(),
        [
            "Logged { seq: Seq(0), index: 0, translated: false } Sent",
            "StoodIn { seq: Seq(0) } Sent",
            "Logged { seq: Seq(0), index: 1, translated: false } LeftOut(Blank)",
            "Logged { seq: Seq(1), index: 0, translated: false } Sent",
            "Logged { seq: Seq(1), index: 1, translated: false } Sent",
            "Logged { seq: Seq(2), index: 0, translated: false } Sent",
            "StoodIn { seq: Seq(1) } Sent",
            "StoodIn { seq: Seq(1) } Sent",
            "Input { index: 0 } Sent",
        ]
    );
    let first = rows[0].sent.as_ref().unwrap();
    assert_eq!((first.bytes(), first.tokens > 0), (r#"{"role":"user","content":"secret question"}"#.len(), true));
    assert_eq!(explained.sent().count(), 8);
    assert!(!format!("{explained:#?}").contains("secret"), "no text is in `Debug`");
}

#[tokio::test(start_paused = true)]
async fn what_was_never_stored_is_not_known() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    assert_eq!(engine.explain(&id(), Seq::FIRST).await.unwrap(), None, "no such conversation");
    let imported = Exchange::new(ExchangeId::generate(), [Message::user("u"), Message::assistant("a")]);
    store.append(&id(), Append::new(Expect::Absent, imported)).await.unwrap();
    assert_eq!(not_known(&engine, 0).await, NotKnown::NoProvenance);
    assert_eq!(engine.explain(&id(), Seq::new(1)).await.unwrap(), None, "no such exchange");

    let options = CallOptions::new().store_instead([Message::user("short")]);
    let turn = engine.begin(TurnInput::new(id(), [Message::user("long")]).options(options)).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    assert_eq!(not_known(&engine, 1).await, NotKnown::Differs);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_made_without_the_log_is_not_known() {
    let store = fault_store();
    store.fail(Op::Load, 1, Fault::Unavailable);
    let policies = Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory);
    let engine = Engine::with_options(store, HistoryOptions::new().policies(policies));
    ask(&engine, [Message::user("u")], Message::assistant("a")).await;
    assert_eq!(not_known(&engine, 0).await, NotKnown::NotLoaded);
}
