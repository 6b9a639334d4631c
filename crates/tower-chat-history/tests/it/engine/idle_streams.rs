//! Streams that stop yielding items.

use std::{pin::Pin, time::Duration};

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::time::{Instant, sleep};
use tower_chat_history::{
    BoxError, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Policies, TurnInput,
    engine::RecordedStream,
    error::StreamStalled,
    policy::OnInterruption,
    report::{NotStored, TurnOutcome},
};

use super::{
    conversation,
    support::{Piece, PieceFold, Reports},
};

const IDLE: Duration = Duration::from_secs(30);

type Item = Result<Piece, BoxError>;

fn options(reports: &Reports, policy: OnInterruption) -> HistoryOptions {
    let policies = Policies::new().on_interruption(policy);
    HistoryOptions::new().policies(policies).stream_idle_timeout(IDLE).on_turn(reports.hook())
}

async fn begin(
    store: &MemoryStore,
    options: HistoryOptions,
    upstream: impl Stream<Item = Item> + Send + 'static,
) -> RecordedStream<Piece, BoxError> {
    let question = tower_chat_history::Message::user("u");
    let input = TurnInput::new(conversation("c"), [question]);
    let turn = Engine::with_options(store.clone(), options).begin(input).await.unwrap();
    turn.record_stream(upstream, PieceFold::default(), BoxError::from)
}

/// Returns a stream of these pieces, each after this time, that then never ends.
fn pieces(pieces: &'static [Piece], every: Duration) -> Pin<Box<dyn Stream<Item = Item> + Send>> {
    let timed = stream::iter(pieces).then(move |piece| async move {
        sleep(every).await;
        Ok(*piece)
    });
    timed.chain(stream::pending()).boxed()
}

async fn stored(store: &MemoryStore) -> usize {
    store.conversation(&conversation("c")).exchanges().await.unwrap().len()
}

const HALF: &[Piece] = &[Piece::Text("a"), Piece::Text("b")];

#[tokio::test(start_paused = true)]
async fn a_stream_that_stalls_ends_with_an_error_and_is_reported() {
    for policy in [OnInterruption::Discard, OnInterruption::Detach] {
        let (store, reports) = (MemoryStore::new(), Reports::default());
        let mut stream = begin(&store, options(&reports, policy), pieces(HALF, IDLE / 2)).await;
        let begun = Instant::now();
        assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Text("a"));
        assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Text("b"));
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&StreamStalled { after: IDLE }));
        assert_eq!(begun.elapsed().as_secs(), 2 * IDLE.as_secs(), "measured from the last item");
        assert!(stream.is_stalled());
        assert!(stream.next().await.is_none());
        assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::Stalled)));
        assert_eq!(stored(&store).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stalls_before_its_first_item_ends_too() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let items: Vec<Item> =
        begin(&store, options(&reports, OnInterruption::default()), pieces(&[], IDLE)).await.collect().await;
    assert!(items.len() == 1 && items[0].is_err());
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_stalled_stream_is_kept_with_keep_text() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let options = options(&reports, OnInterruption::KeepText);
    let items: Vec<Item> = begin(&store, options, pieces(HALF, Duration::ZERO)).await.collect().await;
    assert!(items.len() == 3 && items[2].is_err(), "the caller still gets the error");
    assert_eq!(reports.all()[0].outcome.kind(), "stored_incomplete");
}

#[tokio::test(start_paused = true)]
async fn a_complete_stream_that_stalls_ends_without_an_error_and_is_stored() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let all = pieces(&[Piece::Text("a"), Piece::Finish], Duration::ZERO);
    let items: Vec<Item> = begin(&store, options(&reports, OnInterruption::default()), all).await.collect().await;
    assert!(items.len() == 2 && items.iter().all(Result::is_ok));
    assert_eq!((reports.all()[0].outcome.kind(), stored(&store).await), ("stored", 1));
}

#[tokio::test(start_paused = true)]
async fn time_without_a_reader_does_not_count() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let all = pieces(&[Piece::Text("a"), Piece::Text("b"), Piece::Finish], Duration::from_secs(1));
    let mut stream = begin(&store, options(&reports, OnInterruption::default()), all.take(3)).await;
    while let Some(item) = stream.next().await {
        item.unwrap();
        sleep(3 * IDLE).await;
    }
    assert_eq!(reports.all()[0].outcome.kind(), "stored");
}

/// The stream is slow, but it yields items.
#[tokio::test(start_paused = true)]
async fn a_slow_stream_does_not_stall() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let all = pieces(&[Piece::Text("a"), Piece::Text("b"), Piece::Finish], IDLE - Duration::from_secs(1));
    let items: Vec<Item> =
        begin(&store, options(&reports, OnInterruption::default()), all.take(3)).await.collect().await;
    assert!(items.iter().all(Result::is_ok));
    assert_eq!(reports.all()[0].outcome.kind(), "stored");
}

#[tokio::test(start_paused = true)]
async fn without_the_option_a_silent_stream_does_not_end() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let options = HistoryOptions::new().on_turn(reports.hook());
    let mut stream = begin(&store, options, pieces(HALF, Duration::ZERO)).await;
    let waited = tokio::time::timeout(Duration::from_secs(100_000), stream.by_ref().skip(2).next()).await;
    assert!(waited.is_err() && reports.all().is_empty());
}

/// The engine itself reads a detached stream. A hanging upstream does not keep that stream open forever.
#[tokio::test(start_paused = true)]
async fn a_detached_stream_that_stalls_ends_too() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let options = options(&reports, OnInterruption::Detach);
    drop(begin(&store, options, pieces(HALF, Duration::ZERO)).await);
    sleep(2 * IDLE).await;
    assert!(matches!(reports.all()[0].outcome, TurnOutcome::NotStored(NotStored::Stalled)));
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_reader_does_not_end_the_stream() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let mut stream = begin(
        &store,
        options(&reports, OnInterruption::default()),
        pieces(&[Piece::Text("a"), Piece::Finish], IDLE / 2),
    )
    .await;
    // The reader polls once, does other things for a long time, and comes back.
    assert!(stream.next().now_or_never().is_none());
    sleep(10 * IDLE).await;
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Text("a"));
    assert!(stream.next().now_or_never().is_none(), "the next piece has not arrived yet");
    sleep(IDLE / 4).await;
    assert_eq!(stream.next().await.unwrap().unwrap(), Piece::Finish);
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_restarts_after_a_pause_of_the_reader() {
    let (store, reports) = (MemoryStore::new(), Reports::default());
    let mut stream = begin(&store, options(&reports, OnInterruption::default()), pieces(&[], IDLE)).await;
    assert!(stream.next().now_or_never().is_none());
    sleep(10 * IDLE).await;
    let back = Instant::now();
    assert!(stream.next().await.unwrap().is_err());
    assert!(back.elapsed() >= IDLE / 2, "{:?}", back.elapsed());
}
