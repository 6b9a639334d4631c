//! Replies that arrive after another turn opened: their elements join the round that is then open.

use std::sync::Arc;

use test_providers::signing::{SigningDialect, SigningProvider};
use tower_chat_history::{
    ContextOptions, ConversationId, Engine, Exchange, ExchangeId, HistoryOptions, HistoryStore, MemoryStore, Message,
    TurnInput,
    dialect::{CallId, Digest, Space},
    store::{Append, CompactionVersion, Cut, Cuts, Expect, Profile, Seq},
};

fn element(json: &str) -> Message {
    Message::in_dialect(&SigningDialect, json).unwrap()
}

fn user(text: &str) -> Message {
    element(&format!(r#"{{"from":"user","text":"{text}"}}"#))
}

fn call(id: &str) -> Message {
    element(&format!(r#"{{"from":"model","call":{{"id":"{id}","kind":"f","name":"n","input":"i"}}}}"#))
}

fn text() -> Message {
    element(r#"{"from":"model","text":"t"}"#)
}

fn result(id: &str) -> Message {
    let id = CallId::new(Space::DEFAULT, id);
    element(&SigningDialect::results([(&id, "r")], None))
}

/// Sends this input after this log under each cut that leaves out rounds. No prompt may be refused.
async fn check_under_all_cuts(log: Vec<Exchange>, input: Message) {
    let store = Arc::new(MemoryStore::new());
    let (id, last) = (ConversationId::new(["late"]).unwrap(), log.len() as u64 - 1);
    let mut revision = None;
    for exchange in log {
        revision = Some(store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap().revision);
    }
    for rounds in 0..=last {
        let mut cut = Cut::window_from(Seq::FIRST);
        cut.rounds_start = Seq::new(rounds);
        let profile = Profile::new(format!("p{rounds}")).unwrap();
        let compact = Cuts::new(cut).compact(profile.clone(), CompactionVersion::NONE).unwrap();
        store.compact(&id, revision.unwrap().incarnation(), compact).await.unwrap();
        let options = HistoryOptions::new().context(ContextOptions::new().profile(profile));
        let engine = Engine::with_options(Arc::clone(&store), options);
        let turn = engine.begin(TurnInput::new(id.clone(), [input.clone()])).await.unwrap();
        let checked = SigningProvider::new("one").without_signatures().check(Digest::of(b""), turn.context());
        assert_eq!(checked, Ok(()), "without the rounds before exchange {rounds}");
    }
}

fn exchange(messages: [Message; 2]) -> Exchange {
    Exchange::new(ExchangeId::generate(), messages).with_reply_len(1)
}

#[tokio::test]
async fn late_calls_are_left_out_with_the_round_that_was_open() {
    let log = vec![
        exchange([user("q0"), call("a")]),
        exchange([user("q1"), call("b")]),
        exchange([result("a"), call("c")]).continuing(Seq::FIRST),
        exchange([user("q3"), text()]),
    ];
    check_under_all_cuts(log, user("q4")).await;
}

#[tokio::test]
async fn a_late_text_does_not_end_the_round_that_is_open() {
    let log = vec![
        exchange([user("q0"), call("a")]),
        exchange([user("q1"), call("b")]),
        exchange([result("a"), text()]).continuing(Seq::FIRST),
    ];
    check_under_all_cuts(log, result("b")).await;
}
