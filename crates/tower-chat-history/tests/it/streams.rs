//! Complete and interrupted streams.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower_chat_history::{
    HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore, Policies, StoreError,
    policy::OnInterruption,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::{FaultStore, Op};

use crate::support::{Piece, Pieces, Reports, ask, id, log, streaming};

type Item = Result<Piece, &'static str>;

const TEXT: Item = Ok(Piece::Text("a"));
const FINISH: Item = Ok(Piece::Finish);
const MODEL: Item = Ok(Piece::Model("m"));
const DONE: Item = Ok(Piece::Done);
const ERROR: Item = Err("cut");

/// Sends "u". The answer is these items, and then the end of the stream, or if `ends` is false, a stream that
/// never ends.
async fn read_stream(store: impl HistoryStore, options: HistoryOptions, items: &[Item], ends: bool) -> Pieces {
    let (mut chat, mut llm) = streaming(store, options);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert!(call.poll().is_pending());
    let rest = if ends { stream::empty().boxed() } else { stream::pending().boxed() };
    let pieces: Pieces = stream::iter(items.to_vec()).chain(rest).boxed();
    llm.next_request().await.unwrap().1.send_response(pieces);
    call.await.unwrap()
}

fn options_with(policy: OnInterruption, reports: &Reports) -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_interruption(policy)).on_turn(reports.hook())
}

#[tokio::test]
async fn items_pass_untouched_and_the_exchange_is_stored_at_the_end() {
    let store = MemoryStore::new();
    let items = [TEXT, TEXT, FINISH, MODEL, DONE];
    let stream = read_stream(store.clone(), HistoryOptions::new(), &items, true).await;
    assert_eq!(stream.collect::<Vec<_>>().await, items);
    assert_eq!(log(&store).await, ["u", "aa"]);
    let exchanges = store.conversation(&id()).exchanges().await.unwrap();
    assert_eq!(exchanges[0].exchange.model.as_deref(), Some("m"), "fields after the last choice are stored");
}

#[tokio::test]
async fn items_pass_without_delay() {
    let mut stream = read_stream(MemoryStore::new(), HistoryOptions::new(), &[TEXT, FINISH], false).await;
    assert_eq!(stream.next().now_or_never(), Some(Some(TEXT)));
    assert_eq!(stream.next().now_or_never(), Some(Some(FINISH)));
    assert_eq!(stream.next().now_or_never(), None);
}

#[tokio::test]
async fn the_last_item_and_the_end_are_held_until_the_exchange_is_stored() {
    for (items, before) in [(vec![TEXT, FINISH, DONE], 2), (vec![TEXT, FINISH], 2)] {
        let store = FaultStore::new(MemoryStore::new());
        let held = store.hold(Op::Append);
        let stream = read_stream(store.clone(), HistoryOptions::new(), &items, true).await;
        let mut stream = task::spawn(stream);
        for item in &items[..before] {
            assert_eq!(tokio_test::assert_ready!(stream.poll_next()), Some(*item));
        }
        assert_pending!(stream.poll_next());
        held.release();
        assert_eq!(stream.next().await, items.get(before).copied());
        assert_eq!(log(&store).await, ["u", "a"]);
        if items.len() > before {
            assert_eq!(stream.next().await, None);
        }
    }
}

/// Invariant 7: after the last finish reason, the exchange is stored, whatever the caller does.
#[tokio::test]
async fn a_stream_that_is_dropped_after_its_finish_is_stored() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = streaming(store.clone(), HistoryOptions::new());
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert!(call.poll().is_pending());
    llm.next_request().await.unwrap().1.send_response(stream::iter([TEXT, FINISH]).chain(stream::pending()).boxed());
    let mut stream = call.await.unwrap();
    stream.by_ref().take(2).for_each(|_| std::future::ready(())).await;
    drop(stream);
    chat.get_ref().engine().drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log(&store).await, ["u", "a"]);
}

#[tokio::test]
async fn an_interrupted_stream_is_discarded_by_default() {
    for (items, ends, read) in [
        (vec![TEXT], true, 2),
        (vec![TEXT], false, 1),
        (vec![], false, 0),
        (vec![TEXT, ERROR], true, 3),
        (vec![TEXT, ERROR, FINISH], true, 4),
    ] {
        let (store, reports) = (MemoryStore::new(), Reports::default());
        let stream = read_stream(store.clone(), options_with(OnInterruption::Discard, &reports), &items, ends).await;
        let seen: Vec<Item> = stream.take(read).collect().await;
        assert_eq!(seen, items[..read.min(items.len())], "items are passed on unchanged");
        assert!(log(&store).await.is_empty(), "{items:?}");
        assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::Interrupted)));
    }
}

#[tokio::test]
async fn the_text_of_an_interrupted_stream_is_kept_with_keep_text() {
    for (items, ends, read) in [(vec![TEXT], true, 2), (vec![TEXT], false, 1), (vec![TEXT, ERROR], true, 3)] {
        let (store, reports) = (MemoryStore::new(), Reports::default());
        let options = options_with(OnInterruption::KeepText, &reports);
        let stream = read_stream(store.clone(), options, &items, ends).await;
        drop(stream.take(read).collect::<Vec<_>>().await);
        while reports.all().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(log(&store).await, ["u", "a"]);
        assert!(store.conversation(&id()).exchanges().await.unwrap()[0].exchange.incomplete);
    }
}

#[tokio::test]
async fn an_interrupted_stream_without_text_is_not_stored() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    drop(read_stream(store.clone(), options_with(OnInterruption::KeepText, &reports), &[], false).await);
    assert!(log(&store).await.is_empty());
    assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::Interrupted)));
}

#[tokio::test]
async fn a_dropped_stream_is_read_to_its_end_with_detach() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let items = [TEXT, TEXT, FINISH, MODEL];
    let mut stream = read_stream(store.clone(), options_with(OnInterruption::Detach, &reports), &items, true).await;
    assert_eq!(stream.next().await, Some(TEXT));
    drop(stream);
    while reports.all().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(log(&store).await, ["u", "aa"]);
}

#[tokio::test]
async fn drain_waits_for_detached_streams() {
    let store = MemoryStore::new();
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
    let (mut chat, mut llm) = streaming(store.clone(), options);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert!(call.poll().is_pending());
    let (finish, finished) = futures_channel::oneshot::channel::<()>();
    let rest = stream::once(finished).map(|_| FINISH);
    llm.next_request().await.unwrap().1.send_response(stream::iter([TEXT]).chain(rest).boxed());
    drop(call.await.unwrap());
    let engine = chat.get_ref().engine().clone();
    let drained = tokio::spawn(async move { engine.drain(Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    assert!(!drained.is_finished());
    finish.send(()).unwrap();
    drained.await.unwrap().unwrap();
    assert_eq!(log(&store).await, ["u", "a"]);
}

/// A runtime that shuts down drops detached streams. These must not detach themselves again.
#[test]
fn a_detached_stream_ends_with_its_runtime() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = runtime.block_on(async { options_with(OnInterruption::Detach, &reports) });
    let stream = runtime.block_on(read_stream(store, options, &[TEXT], false));
    drop(stream);
    drop(runtime);
    assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::Interrupted)));
}

#[tokio::test]
async fn the_failed_save_of_a_stream_is_in_the_report() {
    let (store, reports) = (FaultStore::new(MemoryStore::new()), Reports::default());
    store.fail(Op::Append, 1, tower_chat_history_test::Fault::Gone);
    let options = HistoryOptions::new().on_turn(reports.hook());
    let stream = read_stream(store.clone(), options, &[TEXT, FINISH], true).await;
    assert_eq!(stream.collect::<Vec<_>>().await, [TEXT, FINISH], "the items were already delivered");
    let all = reports.all();
    let Some(tower_chat_history::SaveError::Store(StoreError::Gone)) = all[0].save_error() else { panic!() };
}
