//! Tool results that are stored one by one.

use std::time::Duration;

use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextBudget, ContextOptions, Engine, ExchangeId, HistoryError, HistoryOptions,
    HistoryStoreExt as _, InConversation, MemoryStore, Message, Policies, Reply, StoreError, Turn, TurnInput,
    adapt::{Custom, Json},
    budget::ClearResults,
    engine::{StoredResults, ToolResults},
    error::{InputError, StoreResultsError},
    policy::{OnConflict, OnOpenTurn, QueueLimits},
    report::TurnOutcome,
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use crate::support::{calls, id, texts};

fn result(id: &str) -> Message {
    Message::tool(id, format!("r{id}"))
}

async fn begin(engine: &Engine, input: impl IntoIterator<Item = Message>) -> Turn {
    engine.begin(TurnInput::new(id(), input)).await.unwrap()
}

async fn refused(engine: &Engine, input: impl IntoIterator<Item = Message>) -> InputError {
    match engine.begin(TurnInput::new(id(), input)).await {
        Err(HistoryError::Input(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Stores a reply with these calls.
async fn reply_with_calls(engine: &Engine, ids: &[&str]) {
    begin(engine, [Message::user("u0")]).await.commit(Reply::new(calls(ids))).await.unwrap();
}

async fn store(engine: &Engine, ids: &[&str]) -> Result<StoredResults, StoreResultsError> {
    engine.store_results(ToolResults::new(id(), ids.iter().map(|id| result(id)))).await
}

/// Stores these results, and returns the calls that are still open.
async fn store_and_list_open_calls(engine: &Engine, ids: &[&str]) -> Vec<String> {
    store(engine, ids).await.unwrap().open.ids().map(|id| id.as_str().to_owned()).collect()
}

fn unexpected(error: StoreResultsError) -> InputError {
    match error {
        StoreResultsError::History(HistoryError::Input(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn not_open(position: usize, id: &str) -> InputError {
    InputError::UnexpectedResult { position, call_id: id.into() }
}

#[tokio::test]
async fn a_call_can_add_the_missing_results() {
    let memory = MemoryStore::new();
    let engine = Engine::new(memory.clone());
    reply_with_calls(&engine, &["x", "y", "z"]).await;
    assert_eq!(store_and_list_open_calls(&engine, &["y"]).await, ["x", "z"]);
    assert_eq!(refused(&engine, [result("x")]).await, InputError::Unanswered { call_ids: vec!["z".into()] });
    assert_eq!(refused(&engine, []).await, InputError::Empty);
    let turn = begin(&engine, [result("z"), result("x")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "ry", "rz", "rx"]);
    let report = turn.commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    assert!(matches!(report.outcome, TurnOutcome::Stored { moved: false, .. }));
    let log = memory.conversation(&id()).exchanges().await.unwrap();
    let continues: Vec<_> = log.iter().map(|recorded| recorded.exchange.continues.map(|seq| seq.get())).collect();
    assert_eq!(continues, [None, Some(0), Some(0)]);
    assert_eq!(texts(begin(&engine, [Message::user("u1")]).await.context()), ["u0", "", "ry", "rz", "rx", "a0", "u1"]);
}

#[tokio::test]
async fn after_all_results_are_stored_the_call_has_no_input() {
    let engine = Engine::new(MemoryStore::new());
    assert_eq!(refused(&engine, []).await, InputError::Empty, "there is no conversation");
    reply_with_calls(&engine, &["x", "y"]).await;
    assert_eq!(refused(&engine, []).await, InputError::Empty, "no call is answered");
    assert_eq!(store_and_list_open_calls(&engine, &["x"]).await, ["y"]);
    assert!(store_and_list_open_calls(&engine, &["y"]).await.is_empty());
    for _ in 0..2 {
        // After a reply that broke off, another reply is requested.
        let turn = begin(&engine, []).await;
        assert_eq!(texts(turn.context()), ["u0", "", "rx", "ry"]);
        let mut reply = Reply::new(Message::assistant("Let me"));
        reply.incomplete = true;
        turn.commit(reply).await.unwrap();
    }
    let report = begin(&engine, []).await.commit(Reply::new(calls(&["z"]))).await.unwrap();
    assert!(!report.is_moved());
    let turn = begin(&engine, [result("z")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "rx", "ry", "", "rz"]);
    turn.commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    assert_eq!(refused(&engine, []).await, InputError::Empty, "the model has answered");
}

#[tokio::test]
async fn results_without_an_open_call_are_not_stored() {
    let engine = Engine::new(MemoryStore::new());
    assert_eq!(unexpected(store(&engine, &["x"]).await.unwrap_err()), not_open(0, "x"), "there is no conversation");
    reply_with_calls(&engine, &["x", "y"]).await;
    store(&engine, &["x"]).await.unwrap();
    for (ids, error) in [
        (&["x"][..], not_open(0, "x")),
        (&["y", "y"], not_open(1, "y")),
        (&["y", "q"], not_open(1, "q")),
        (&[], InputError::Empty),
    ] {
        assert_eq!(unexpected(store(&engine, ids).await.unwrap_err()), error, "{ids:?}");
    }
    let other = ToolResults::new(id(), [result("y"), Message::user("and?")]);
    assert_eq!(unexpected(engine.store_results(other).await.unwrap_err()), InputError::NotAResult { position: 1 });
    assert!(store_and_list_open_calls(&engine, &["y"]).await.is_empty());
}

#[tokio::test]
async fn a_named_exchange_is_stored_once() {
    let memory = MemoryStore::new();
    let engine = Engine::new(memory.clone());
    reply_with_calls(&engine, &["x", "y"]).await;
    let named = || ToolResults::new(id(), [result("x")]).exchange(ExchangeId::new("approval-7").unwrap());
    let first = engine.store_results(named()).await.unwrap();
    let again = engine.store_results(named()).await.unwrap();
    assert!(!first.duplicate && again.duplicate);
    assert_eq!((again.seq, again.revision, &again.open), (first.seq, first.revision, &first.open));
    assert_eq!(memory.conversation(&id()).exchanges().await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_results_are_stored_once_per_call() {
    let faults = FaultStore::new(MemoryStore::new());
    reply_with_calls(&Engine::new(faults.clone()), &["x", "y"]).await;
    let together = async |ids: [&'static str; 2]| {
        // Both are checked before either is appended.
        let hold = faults.hold(Op::Append);
        let each = ids.map(|call| {
            let engine = Engine::new(faults.clone());
            tokio::spawn(async move { store(&engine, &[call]).await })
        });
        hold.reached(2).await;
        hold.release();
        let [one, two] = each;
        [one.await.unwrap(), two.await.unwrap()]
    };
    let outcomes = together(["x", "x"]).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let refused = outcomes.into_iter().find_map(Result::err).unwrap();
    assert_eq!(unexpected(refused), not_open(0, "x"));

    reply_with_calls(&Engine::new(faults.clone()), &["x", "y"]).await;
    let outcomes = together(["x", "y"]).await;
    let mut open: Vec<usize> = outcomes.into_iter().map(|outcome| outcome.unwrap().open.len()).collect();
    open.sort_unstable();
    assert_eq!(open, [0, 1], "the later result sees the earlier one");
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_answer_is_lost_is_repeated_and_stored_once() {
    let faults = FaultStore::new(MemoryStore::new());
    let engine = Engine::new(faults.clone());
    reply_with_calls(&engine, &["x", "y"]).await;
    faults.lose_answers(Op::Append, 1);
    let first = store(&engine, &["x"]).await.unwrap();
    assert!(!first.duplicate);
    faults.fail(Op::Append, 3, Fault::Unavailable);
    let Err(StoreResultsError::Save(_)) = store(&engine, &["y"]).await else { panic!("it was stored") };
    assert!(store_and_list_open_calls(&engine, &["y"]).await.is_empty());
    assert_eq!(faults.get_ref().conversation(&id()).exchanges().await.unwrap().len(), 3);
    faults.fail(Op::Load, 1, Fault::Unavailable);
    let Err(StoreResultsError::History(HistoryError::Load(StoreError::Unavailable { .. }))) =
        store(&engine, &["x"]).await
    else {
        panic!("it was loaded")
    };
    faults.delay(Op::Load, Duration::from_secs(3_600));
    let Err(StoreResultsError::History(HistoryError::LoadTimeout(after))) = store(&engine, &["x"]).await else {
        panic!("it was loaded")
    };
    assert_eq!(after.as_secs(), 10);
}

#[tokio::test]
async fn a_question_supersedes_only_the_calls_that_are_open() {
    let memory = MemoryStore::new();
    let engine = Engine::new(memory.clone());
    reply_with_calls(&engine, &["x", "y"]).await;
    store(&engine, &["x"]).await.unwrap();
    let reject =
        Engine::with_options(memory, HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject)));
    assert_eq!(refused(&reject, [Message::user("u1")]).await, InputError::TurnOpen { calls: 1 });
    let turn = begin(&engine, [Message::user("u1")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "rx", "[no result: this call was abandoned]", "[no reply]", "u1"]);
    let report = turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    assert_eq!(report.superseded_calls, 1);
    assert_eq!(unexpected(store(&engine, &["y"]).await.unwrap_err()), not_open(0, "y"), "the call was superseded");
}

#[tokio::test]
async fn a_question_sees_all_stored_results() {
    let engine = Engine::new(MemoryStore::new());
    reply_with_calls(&engine, &["x"]).await;
    store(&engine, &["x"]).await.unwrap();
    let turn = begin(&engine, [Message::user("u1")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "rx", "[no reply]", "u1"]);
    assert_eq!(turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap().superseded_calls, 0);
}

#[tokio::test]
async fn a_resent_list_contains_all_results() {
    let engine = Engine::new(MemoryStore::new());
    reply_with_calls(&engine, &["x", "y"]).await;
    store(&engine, &["x"]).await.unwrap();
    let transcript = [Message::user("u0"), calls(&["x", "y"])];
    let resent = |input: &[Message]| TurnInput::new(id(), input.to_vec()).transcript(transcript.clone());
    let turn = engine.begin(resent(&[result("y"), result("x")])).await.unwrap();
    assert_eq!(texts(turn.context()), ["u0", "", "ry", "rx"], "in the order of the list");
    turn.commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    let list = [&transcript[..], &[result("y"), result("x"), Message::assistant("a0")]].concat();
    let next = TurnInput::new(id(), [Message::user("u1")]).transcript(list.clone());
    let expected = [&list[..], &[Message::user("u1")]].concat();
    assert_eq!(engine.begin(next).await.unwrap().context(), expected);
}

#[tokio::test]
async fn a_stored_result_can_be_sent_again() {
    let memory = MemoryStore::new();
    let engine = Engine::new(memory.clone());
    reply_with_calls(&engine, &["x", "y"]).await;
    store(&engine, &["x"]).await.unwrap();
    memory.conversation(&id()).take_last().await.unwrap();
    assert_eq!(store_and_list_open_calls(&engine, &["x"]).await, ["y"]);
}

#[tokio::test]
async fn every_integration_accepts_no_messages_if_results_await_a_reply() {
    let memory = MemoryStore::new();
    let engine = Engine::new(memory.clone());
    let llm = service_fn(|request: Value| async move {
        let roles: Vec<&str> =
            request["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        Ok::<_, BoxError>(json!({"choices": [{"message": {"role": "assistant", "content": roles.join(" ")}}]}))
    });
    let mut chat = ChatHistoryLayer::from_engine(engine.clone(), Json::new()).layer(llm);
    reply_with_calls(&engine, &["x"]).await;
    let request = json!({"model": "m", "messages": [{"role": "system", "content": "S"}]});
    let call = InConversation::new(id(), request.clone());
    let error = chat.ready().await.unwrap().call(call).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Input(InputError::Empty))), "{error}");
    store(&engine, &["x"]).await.unwrap();
    let answer = chat.ready().await.unwrap().call(InConversation::new(id(), request)).await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "system user assistant tool");

    reply_with_calls(&engine, &["y"]).await;
    store(&engine, &["y"]).await.unwrap();
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|answer: &Message| answer.clone());
    let llm = service_fn(|messages: Vec<Message>| async move {
        Ok::<_, BoxError>(Message::assistant(messages.last().map(|last| last.text().into_owned()).unwrap_or_default()))
    });
    let mut chat = ChatHistoryLayer::from_engine(engine, adapter).layer(llm);
    assert_eq!(chat.ready().await.unwrap().call(InConversation::new(id(), vec![])).await.unwrap().text(), "ry");
}

#[tokio::test]
async fn a_round_that_is_partly_answered_is_one_unit_within_a_budget() {
    let options = HistoryOptions::new().context(
        ContextOptions::new()
            .budget(ContextBudget::tokens(120).reply_reserve(10))
            .clear_results(ClearResults::new().keep(0)),
    );
    let engine = Engine::with_options(MemoryStore::new(), options);
    for question in ["u1", "u2", "u3"] {
        let turn = begin(&engine, [Message::user(question.repeat(20))]).await;
        turn.commit(Reply::new(Message::assistant("a".repeat(40)))).await.unwrap();
    }
    reply_with_calls(&engine, &["x", "y"]).await;
    store(&engine, &["x"]).await.unwrap();
    let turn = begin(&engine, [result("y")]).await;
    let end = turn.context().len() - 3;
    assert_eq!(texts(&turn.context()[end..]), ["", "rx", "ry"], "the open round is neither cleared nor left out");
    assert!(turn.context().len() < 10, "older turns are left out");
}

#[tokio::test(start_paused = true)]
async fn results_wait_for_a_running_call_under_serialize() {
    let options =
        HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
    let engine = Engine::with_options(MemoryStore::new(), options);
    reply_with_calls(&engine, &["x"]).await;
    let turn = begin(&engine, [Message::user("never mind")]).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { store(&engine, &["x"]).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    assert_eq!(unexpected(waiting.await.unwrap().unwrap_err()), not_open(0, "x"), "the question has closed the call");
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_can_store_any_number_of_results() {
    let faults = FaultStore::new(MemoryStore::new());
    for op in [Op::Load, Op::Append] {
        faults.delay(op, Duration::from_millis(1));
    }
    let engine = Engine::new(faults);
    let ids: Vec<String> = (0..100).map(|number| format!("call-{number}")).collect();
    let call_ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let turn = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    turn.commit(Reply::new(calls(&call_ids))).await.unwrap();
    let results = ids.iter().map(|call| engine.store_results(ToolResults::new(id(), [Message::tool(call, "r")])));
    for result in futures_util::future::join_all(results).await {
        result.unwrap();
    }
    assert_eq!(engine.begin(TurnInput::new(id(), [])).await.unwrap().context().len(), 102);
}
