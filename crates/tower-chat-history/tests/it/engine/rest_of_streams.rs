//! Items after the last one that is recorded.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::time::Instant;
use tower_chat_history::{
    BoxError, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Policies, TurnInput,
    engine::RecordedStream, policy::OnInterruption,
};

use super::{
    conversation,
    support::{Piece, PieceFold},
};

type Item = Result<Piece, BoxError>;

const SAID: [Piece; 3] = [Piece::Text("a"), Piece::Finish, Piece::Done];

async fn recorded(
    engine: &Engine,
    upstream: impl Stream<Item = Item> + Send + 'static,
) -> RecordedStream<Piece, BoxError> {
    let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    turn.record_stream(upstream, PieceFold::default(), BoxError::from)
}

/// Returns what was said, and then these pieces.
fn said(rest: &'static [Piece]) -> impl Stream<Item = Item> + Send + 'static {
    stream::iter(SAID.iter().chain(rest).map(|piece| Ok(*piece)))
}

async fn reply(engine: &Engine) -> String {
    let log = engine.store().conversation(&conversation("c")).messages().await.unwrap();
    log[1].text().into_owned()
}

#[tokio::test]
async fn the_rest_is_passed_on_and_not_recorded() {
    const REST: &[Piece] = &[Piece::Text("b"), Piece::Done, Piece::Text("c")];
    for (has_rest, expected) in [(true, [&SAID[..], REST].concat()), (false, SAID.to_vec())] {
        let engine = Engine::new(MemoryStore::new());
        let stream = recorded(&engine, said(REST)).await;
        let stream = if has_rest { stream.with_rest() } else { stream };
        let items: Vec<Piece> = stream.map(Result::unwrap).collect().await;
        assert_eq!(items, expected);
        assert_eq!(reply(&engine).await, "a");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_has_no_rest() {
    let engine = Engine::new(MemoryStore::new());
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    let upstream = stream::poll_fn(move |_| {
        counted.fetch_add(1, Relaxed);
        std::task::Poll::Ready(None)
    });
    let mut stream = recorded(&engine, upstream).await.with_rest();
    for _ in 0..3 {
        assert!(stream.next().await.is_none());
    }
    assert_eq!(polls.load(Relaxed), 1, "it is not polled after its end");
}

#[tokio::test(start_paused = true)]
async fn a_rest_that_stalls_ends_without_an_error() {
    const IDLE: Duration = Duration::from_secs(30);
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().stream_idle_timeout(IDLE));
    let upstream = said(&[Piece::Text("b")]).chain(stream::pending());
    let mut stream = recorded(&engine, upstream).await.with_rest();
    let begun = Instant::now();
    let items: Vec<Piece> = stream.by_ref().map(Result::unwrap).collect().await;
    assert_eq!((items.len(), items[3], begun.elapsed()), (4, Piece::Text("b"), IDLE));
    assert!(stream.is_stalled() && stream.next().await.is_none());
    assert_eq!(reply(&engine).await, "a");
}

#[tokio::test]
async fn a_rest_that_panics_is_not_polled_again() {
    let engine = Engine::new(MemoryStore::new());
    let upstream = said(&[]).chain(stream::poll_fn(|_| panic!("the rest panics")));
    let mut stream = recorded(&engine, upstream).await.with_rest();
    for piece in SAID {
        assert_eq!(stream.next().await.unwrap().unwrap(), piece);
    }
    assert!(AssertUnwindSafe(stream.next()).catch_unwind().await.is_err(), "the panic reaches the caller");
    assert!(stream.next().await.is_none());
    assert_eq!(reply(&engine).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_detached_stream_ends_without_its_rest() {
    let policies = Policies::new().on_interruption(OnInterruption::Detach);
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().policies(policies));
    let upstream = said(&[]).chain(stream::pending());
    let mut stream = recorded(&engine, upstream).await.with_rest();
    assert_eq!(stream.next().await.unwrap().unwrap(), SAID[0]);
    drop(stream);
    let begun = Instant::now();
    engine.drain(Duration::from_secs(60)).await.unwrap();
    assert_eq!((begun.elapsed(), reply(&engine).await.as_str()), (Duration::ZERO, "a"));
}
