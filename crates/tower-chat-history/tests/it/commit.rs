//! The commit protocol of unary calls: the time of the save, and the effects of failures.

use std::{sync::Arc, time::Duration};

use tokio_test::{assert_pending, assert_ready_ok, task};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ExchangeId, HistoryError, HistoryOptions, HistoryStore as _, HistoryStoreExt as _,
    InConversation, MemoryStore, Message, Policies, SaveError, StoreError, Unsaved,
    error::InputError,
    policy::{OnConflict, OnLoadFailure, OnSaveFailure},
    report::{HistoryStatus, NotStored, TurnOutcome},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use crate::support::{Plain, Reports, Request, ask, fault_store, id, log, texts, unary};

/// Calls a model that always answers "a".
async fn ask_once(store: &FaultStore<MemoryStore>, options: HistoryOptions, text: &str) -> Result<Message, BoxError> {
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    ChatHistoryLayer::with_options(store.clone(), Plain, options).layer(llm).oneshot(ask(text)).await
}

#[tokio::test]
async fn a_caller_that_leaves_during_the_load_stores_nothing() {
    let store = fault_store();
    let (mut chat, _llm) = unary(store.clone(), HistoryOptions::new());
    let held = store.hold(Op::Load);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert_pending!(call.poll());
    drop(call);
    held.release();
    assert!(log(&store).await.is_empty());
    assert_eq!(store.calls(Op::Append), 0);
}

#[tokio::test]
async fn a_caller_that_leaves_during_the_model_call_stores_nothing() {
    let store = fault_store();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert_pending!(call.poll());
    let (_, answer) = llm.next_request().await.unwrap();
    drop(call);
    answer.send_response(Message::assistant("too late"));
    tokio::task::yield_now().await;
    assert_eq!(store.calls(Op::Append), 0);
}

/// Invariant 6: the reply has been paid for, so the save continues without its caller, and the next turn sees
/// it.
#[tokio::test]
async fn the_exchange_is_stored_if_the_caller_leaves_during_the_save() {
    let store = fault_store();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());
    let held = store.hold(Op::Append);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u0")));
    assert_pending!(call.poll());
    llm.next_request().await.unwrap().1.send_response(Message::assistant("a0"));
    assert_pending!(call.poll());
    let engine = chat.get_ref().engine().clone();
    assert_eq!(engine.pending_saves(), 1);
    drop(call);

    assert_ready_ok!(chat.poll_ready());
    let mut next = task::spawn(chat.call(ask("u1")));
    assert_pending!(next.poll());
    assert_eq!(store.calls(Op::Load), 1, "the next turn waits for the save");
    held.release();
    // First the spawned save, then the load, then the model.
    let (request, _answer) = tokio::select! {
        request = llm.next_request() => request.unwrap(),
        _ = &mut next => unreachable!("the model has not answered"),
    };
    assert_eq!(texts(&request), ["u0", "a0", "u1"]);
    assert_eq!(engine.pending_saves(), 0);
}

#[tokio::test]
async fn a_failed_save_carries_the_response() {
    let store = fault_store();
    store.fail(Op::Append, 1, Fault::Backend);
    let error = ask_once(&store, HistoryOptions::new(), "u").await.unwrap_err();
    let failed = error.downcast::<Unsaved<Message>>().unwrap();
    assert!(matches!(failed.reason(), SaveError::Store(StoreError::Backend { .. })));
    assert_eq!(failed.into_response(), Message::assistant("a"));
}

#[tokio::test]
async fn a_failed_save_is_only_reported_with_the_report_policy() {
    let (store, reports) = (fault_store(), Reports::default());
    store.fail(Op::Append, 1, Fault::Backend);
    let options =
        HistoryOptions::new().policies(Policies::new().on_save_failure(OnSaveFailure::Report)).on_turn(reports.hook());
    assert_eq!(ask_once(&store, options, "u").await.unwrap(), Message::assistant("a"));
    assert!(reports.all()[0].save_error().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_transient_save_failure_is_retried_with_the_same_id() {
    let store = fault_store();
    store.lose_answers(Op::Append, 2);
    ask_once(&store, HistoryOptions::new(), "u").await.unwrap();
    assert_eq!(store.calls(Op::Append), 3);
    assert_eq!(log(&store).await, ["u", "a"], "stored once, although answers were lost");

    store.fail(Op::Append, 3, Fault::Unavailable);
    let error = ask_once(&store, HistoryOptions::new(), "u").await.unwrap_err();
    assert!(error.is::<Unsaved<Message>>());
    assert_eq!(store.calls(Op::Append), 6, "attempts are limited");
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_times_out() {
    let store = fault_store();
    store.delay(Op::Load, Duration::from_secs(11));
    let error = ask_once(&store, HistoryOptions::new(), "u").await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::LoadTimeout(after)) if after.as_secs() == 10));

    store.mend();
    store.delay(Op::Append, Duration::from_secs(11));
    let error = ask_once(&store, HistoryOptions::new(), "u").await.unwrap_err();
    let failed = error.downcast::<Unsaved<Message>>().unwrap();
    assert!(matches!(failed.reason(), SaveError::Timeout(_)));
}

#[tokio::test]
async fn a_failed_load_fails_the_call_or_leaves_out_the_history_by_policy() {
    let (store, reports) = (fault_store(), Reports::default());
    store.fail(Op::Load, 2, Fault::Unavailable);
    let error = ask_once(&store, HistoryOptions::new(), "u").await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Load(StoreError::Unavailable { .. }))));
    assert!(log(&store).await.is_empty());

    let options = HistoryOptions::new()
        .policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory))
        .on_turn(reports.hook());
    ask_once(&store, options, "u").await.unwrap();
    assert_eq!(reports.all()[0].history, HistoryStatus::Unavailable);
    assert_eq!(log(&store).await, ["u", "a"], "the exchange is stored because the store works again");
}

/// Runs one call. Its model answers after `in_between` has completed.
async fn interleaved_call(
    store: &FaultStore<MemoryStore>,
    options: HistoryOptions,
    in_between: impl AsyncFnOnce(),
) -> Result<Message, BoxError> {
    let (mut chat, mut llm) = unary(store.clone(), options);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("slow")));
    assert_pending!(call.poll());
    let (_, answer) = llm.next_request().await.unwrap();
    in_between().await;
    answer.send_response(Message::assistant("late"));
    call.await
}

#[tokio::test]
async fn an_exchange_is_appended_after_one_stored_in_between() {
    let store = fault_store();
    for before in [&["fast", "a"] as &[&str], &["fast", "a", "slow", "late", "fast", "a"]] {
        interleaved_call(&store, HistoryOptions::new(), async || {
            ask_once(&store, HistoryOptions::new(), "fast").await.unwrap();
        })
        .await
        .unwrap();
        assert_eq!(log(&store).await, [before, &["slow", "late"]].concat());
    }
}

#[tokio::test]
async fn another_exchange_in_between_is_a_conflict_under_reject() {
    let store = fault_store();
    let reject = || HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject));
    // On a first turn, and on a later one.
    for _ in 0..2 {
        let in_between = async || drop(ask_once(&store, HistoryOptions::new(), "fast").await.unwrap());
        let error = interleaved_call(&store, reject(), in_between).await.unwrap_err();
        let failed = error.downcast::<Unsaved<Message>>().unwrap();
        assert!(matches!(failed.reason(), SaveError::Store(StoreError::Conflict { .. })));
        assert_eq!(failed.into_response(), Message::assistant("late"));
    }
    assert_eq!(log(&store).await, ["fast", "a", "fast", "a"]);
}

#[tokio::test]
async fn a_conversation_deleted_during_a_call_stays_deleted() {
    let store = fault_store();
    ask_once(&store, HistoryOptions::new(), "u").await.unwrap();
    let error =
        interleaved_call(&store, HistoryOptions::new(), async || store.delete(&id()).await.unwrap()).await.unwrap_err();
    let failed = error.downcast::<Unsaved<Message>>().unwrap();
    assert!(matches!(failed.reason(), SaveError::Store(StoreError::Gone)));
    assert!(log(&store).await.is_empty());
}

#[tokio::test]
async fn a_repeated_exchange_id_is_answered_from_the_log() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let exchange = ExchangeId::new("e-1").unwrap();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new().on_turn(reports.hook()));
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u").exchange(exchange.clone())));
    assert_pending!(call.poll());
    assert_ready_ok!(chat.poll_ready());
    let mut twin = task::spawn(chat.call(ask("u").exchange(exchange.clone())));
    assert_pending!(twin.poll());
    llm.next_request().await.unwrap().1.send_response(Message::assistant("first"));
    llm.next_request().await.unwrap().1.send_response(Message::assistant("second"));
    assert_eq!(call.await.unwrap(), Message::assistant("first"));
    assert_eq!(twin.await.unwrap(), Message::assistant("second"), "both calls were running, so each gets its reply");
    assert!(matches!(reports.all()[1].outcome, TurnOutcome::Duplicate { .. }));
    assert_eq!(log(&store).await, ["u", "first"]);

    assert_ready_ok!(chat.poll_ready());
    let error = chat.call(ask("u").exchange(exchange)).await.unwrap_err();
    let Some(HistoryError::AlreadyRecorded(recorded)) = error.downcast_ref() else { panic!("{error}") };
    assert_eq!(texts(&recorded.exchange.messages), ["u", "first"]);
}

#[tokio::test]
async fn a_call_can_store_nothing_or_another_input() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let layer = ChatHistoryLayer::with_options(store.clone(), Plain, HistoryOptions::new().on_turn(reports.hook()));
    let prompts = Arc::new(std::sync::Mutex::new(vec![]));
    let seen = Arc::clone(&prompts);
    let mut chat = layer.layer(service_fn(move |request: Request| {
        seen.lock().unwrap().push(texts(&request));
        async { Ok::<_, BoxError>(Message::assistant("a")) }
    }));
    chat.call(ask("the short question").store_instead([Message::user("short")])).await.unwrap();
    chat.call(ask("forget this").dont_store()).await.unwrap();
    chat.call(ask("u")).await.unwrap();
    assert_eq!(
        *prompts.lock().unwrap(),
        [vec!["the short question"], vec!["short", "a", "forget this"], vec!["short", "a", "u"]]
    );
    assert_eq!(log(&store).await, ["short", "a", "u", "a"]);
    assert!(matches!(reports.all()[1].outcome, TurnOutcome::NotStored(NotStored::Asked)));
}

#[tokio::test]
async fn the_report_reaches_the_caller() {
    let store = MemoryStore::new();
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let mut chat = ChatHistoryLayer::new(store, Plain).layer(llm);
    chat.call(ask("u0")).await.unwrap();
    let (call, report) = ask("u1").with_report();
    chat.call(call).await.unwrap();
    let report = report.await.unwrap();
    assert_eq!((report.history, report.messages_loaded, report.messages_sent), (HistoryStatus::Loaded, 2, 3));
    assert!(report.revision().is_some() && !report.is_moved() && report.save_error().is_none());

    let (call, report) = ask("").with_report();
    drop(chat.call(call));
    assert!(report.await.is_none(), "without a turn there is no report");
}

#[tokio::test]
async fn a_panicking_model_leaves_the_conversation_as_it_was() {
    let store = MemoryStore::new();
    let llm = service_fn(|request: Request| async move {
        assert!(request[0].text() != "boom", "the model panics");
        Ok::<_, BoxError>(Message::assistant("a"))
    });
    let queued = HistoryOptions::new().policies(
        Policies::new().on_conflict(OnConflict::Serialize(tower_chat_history::policy::QueueLimits::default())),
    );
    let mut chat = ChatHistoryLayer::with_options(store.clone(), Plain, queued).layer(llm);
    assert!(tokio::spawn(chat.call(ask("boom"))).await.unwrap_err().is_panic());
    chat.call(ask("u")).await.unwrap();
    assert_eq!(log(&store).await, ["u", "a"]);
}

#[tokio::test]
async fn a_panicking_hook_changes_nothing() {
    let store = MemoryStore::new();
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let options = HistoryOptions::new().on_turn(|_| panic!("the hook panics"));
    let mut chat = ChatHistoryLayer::with_options(store.clone(), Plain, options).layer(llm);
    for _ in 0..2 {
        chat.call(ask("u")).await.unwrap();
    }
    assert_eq!(log(&store).await, ["u", "a", "u", "a"]);
}

#[tokio::test]
async fn the_hook_is_called_for_every_turn_that_began() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let llm = service_fn(|_: Request| async { Err::<Message, BoxError>("down".into()) });
    let options = HistoryOptions::new().on_turn(reports.hook());
    let mut chat = ChatHistoryLayer::with_options(store, Plain, options).layer(llm);
    let (call, report) = ask("u").with_report();
    chat.call(call).await.unwrap_err();
    assert!(report.await.is_none(), "the caller gets the error");
    assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::CallFailed)));
}

/// The caller's own retry, outside of the layer: the attempts share an exchange id and a report handle.
#[tokio::test]
async fn a_call_can_be_cloned_and_retried() {
    let store = MemoryStore::new();
    let failures = Arc::new(std::sync::atomic::AtomicUsize::new(1));
    let llm = service_fn(move |_: Request| {
        let fails = failures.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1;
        async move { if fails { Err::<Message, BoxError>("down".into()) } else { Ok(Message::assistant("a")) } }
    });
    let mut chat = ChatHistoryLayer::new(store.clone(), Plain).layer(llm);
    let (call, report) = ask("u").exchange(ExchangeId::new("e-1").unwrap()).with_report();
    chat.call(call.clone()).await.unwrap_err();
    chat.call(call).await.unwrap();
    assert!(report.await.unwrap().revision().is_some());
    assert_eq!(log(&store).await, ["u", "a"]);
}

/// The only case in which a deletion does not refuse a call in flight: there was no incarnation yet.
#[tokio::test]
async fn a_conversation_deleted_during_its_first_call_stays_deleted() {
    let store = fault_store();
    let deleted = async || store.delete(&id()).await.unwrap();
    let error = interleaved_call(&store, HistoryOptions::new(), deleted).await.unwrap_err();
    let failed = error.downcast::<Unsaved<Message>>().unwrap();
    assert!(matches!(failed.reason(), SaveError::Store(StoreError::Gone)));
    assert!(log(&store).await.is_empty());
}

#[tokio::test]
async fn stored_instead_messages_answer_calls_exactly_if_the_input_does() {
    let store = MemoryStore::new();
    let calls =
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":""}}]}"#;
    let conversation = id();
    store.conversation(&conversation).import([Message::user("u"), Message::from_json(calls).unwrap()]).await.unwrap();
    let mut chat = ChatHistoryLayer::new(store.clone(), Plain)
        .layer(service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) }));
    let error = chat.call(ask("u").store_instead([Message::tool("x", "r")])).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Input(InputError::InsteadDiffers))));
    let result = InConversation::new(id(), vec![Message::tool("x", "a long result")]);
    chat.call(result.store_instead([Message::tool("x", "short")])).await.unwrap();
    assert!(log(&store).await.contains(&"short".to_owned()));
}
