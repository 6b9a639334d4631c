//! Large bodies do not hold the runtime.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::{Request, Response};
use tokio::task::yield_now;
use tower_chat_history::{
    Unsaved,
    adapt::{AdaptRequest, OpenedRequest},
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
};

use super::support::{History, JSON, WHOLE, answer, ask, id};

/// Returns the processor time that this thread has used, as Linux counts it. A thread that waits for its turn on a busy
/// machine uses none. On other systems, it is zero.
fn thread_time() -> Duration {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(times.split_whitespace().next().map_or(0, |on| on.parse().unwrap()))
}

/// Counts how often another task of this thread runs. The task returns the longest time for which this thread has
/// worked on something else.
fn ticks() -> (Arc<AtomicUsize>, tokio::task::JoinHandle<Duration>) {
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ticks);
    let ticker = tokio::spawn(async move {
        let (mut longest, mut last) = (Duration::ZERO, thread_time());
        while Arc::strong_count(&counted) > 1 {
            counted.fetch_add(1, Relaxed);
            yield_now().await;
            let now = thread_time();
            longest = longest.max(now.saturating_sub(last));
            last = now;
        }
        longest
    });
    (ticks, ticker)
}

#[tokio::test]
async fn other_tasks_run_while_a_body_with_a_million_messages_is_opened() {
    for (path, list) in [("/v1/chat/completions", "messages"), ("/v1/messages", "messages"), ("/v1/responses", "input")]
    {
        let messages = vec![r#"{"role":"user","content":"x"}"#; 1_000_000].join(",");
        let body = format!(r#"{{"model":"m","max_tokens":9,"{list}":[{messages}]}}"#);
        let request = Request::post(path).header(CONVERSATION_ID, id().as_str());
        let request = request.body(HistoryBody::new(body)).unwrap();
        let (ticks, ticker) = ticks();
        let begun = Instant::now();
        let opened = HttpHistory::new().open(request).await.unwrap();
        let (took, ran) = (begun.elapsed(), ticks.load(Relaxed));
        drop(ticks);
        let longest = ticker.await.unwrap();
        assert!(matches!(opened, OpenedRequest::Turn(..)));
        assert!(ran > 0, "{path}: no other task ran in {took:?}");
        assert!(longest < took / 4, "{path}: another task waited {longest:?} of {took:?}");
    }
}

#[tokio::test]
async fn other_tasks_run_while_a_call_with_a_million_messages_is_made() {
    let messages = vec![r#"{"role":"user","content":"x"}"#; 1_000_000].join(",");
    let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
    let history = History::new();
    let (ticks, ticker) = ticks();
    let begun = Instant::now();
    let (sent, response) = history.call(ask(body), answer(JSON, WHOLE)).await;
    let took = begun.elapsed();
    drop(ticks);
    let longest = ticker.await.unwrap();
    assert!(sent.is_some(), "the model is called");
    assert!(response.unwrap_err().is::<Unsaved<Response<HistoryBody>>>(), "the exchange is too large for this store");
    assert!(longest < took / 3, "another task waited {longest:?} of {took:?}");
}
