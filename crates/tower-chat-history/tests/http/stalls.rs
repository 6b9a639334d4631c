//! Bodies of responses that do not end.

use std::{convert::Infallible, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::{Instant, timeout};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryOptions, MemoryStore, Policies, Reply, TurnInput,
    dialect::OpenAiResponses,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
    policy::{OnConflict, QueueLimits},
    report::TurnOutcome,
    store::{Message, Origin},
};

use super::support::{ASK, EVENTS, History, JSON, answer, answer_with, ask, events, id};

const IDLE: Duration = Duration::from_secs(30);

fn data(bytes: impl Into<Bytes>) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(bytes.into()))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_after_its_last_event_is_ended() {
    for more in [None, Some(": bye\n\n")] {
        let text = events(&["a0"]);
        let connection = Arc::new(());
        let held = Arc::clone(&connection);
        let begin = stream::iter([data(text.clone())]).chain(stream::iter(more.map(data)));
        let rest = stream::poll_fn(move |_| {
            let _held = &held;
            Poll::Pending
        });
        let history = History::of(HttpHistory::new(), HistoryOptions::new().stream_idle_timeout(IDLE));
        let (_, response) = history.call(ask(ASK), answer_with(EVENTS, StreamBody::new(begin.chain(rest)))).await;
        let begun = Instant::now();
        let body = response.unwrap().into_body().collect();
        let body = timeout(IDLE * 100, body).await.expect("the idle timeout ends it").unwrap().to_bytes();
        assert_eq!(body, format!("{text}{}", more.unwrap_or_default()), "the caller gets every byte");
        assert_eq!(begun.elapsed().as_secs(), IDLE.as_secs());
        assert_eq!(Arc::strong_count(&connection), 1, "the connection is released");
        assert!(matches!(history.outcome(), TurnOutcome::Stored { incomplete: false, .. }));
        assert_eq!(history.log().await.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_event_comes_before_the_wait() {
    let text = events(&["a0"]);
    let begin = stream::iter([data(text.clone())]);
    let history = History::of(HttpHistory::new(), HistoryOptions::new().stream_idle_timeout(IDLE));
    let body = StreamBody::new(begin.chain(stream::pending()));
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
    let (mut body, begun) = (response.unwrap().into_body(), Instant::now());
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(history.log().await.len(), 2, "the exchange is stored by then");
    // The next call of the conversation does not wait for the end of the body.
    let (sent, _) = history.ok(r#"{"messages":[{"role":"user","content":"u1"}]}"#, answer(EVENTS, text)).await;
    assert!(sent.body.contains(r#"{"role":"assistant","content":"a0"}"#));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn after_an_error_behind_the_last_event_the_body_goes_on_as_the_provider_sends_it() {
    let begin = stream::iter([data(events(&["a0"])), Err("reset".into()), data("x")]);
    let history = History::new();
    let (_, response) = history.call(ask(ASK), answer_with(EVENTS, StreamBody::new(begin))).await;
    let mut body = response.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "reset");
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "x");
    assert!(body.frame().await.is_none());
}

/// A turn whose reply is bound to its origin, so that a call after it can be repaired.
async fn with_bound_reply(engine: &Engine) {
    let item = |json: &str| Message::in_dialect(&OpenAiResponses, json).unwrap();
    let question = item(r#"{"role":"user","content":"u"}"#);
    let turn = engine.begin(TurnInput::new(id(), [question]).dialect(&OpenAiResponses)).await.unwrap();
    let sealed = item(r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}"#);
    let said = item(r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}"#);
    turn.commit(Reply::of([sealed, said])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_stalls_is_passed_on_and_its_conversation_goes_on() {
    const REFUSED: &str = r#"{"error":{"code":"invalid_encrypted_content""#;
    let short = Duration::from_secs(3);
    for (idle, seconds) in [(None, 10), (Some(IDLE), 10), (Some(short), 3)] {
        let queue = OnConflict::Serialize(QueueLimits::new(4, Duration::from_secs(3_600)));
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(queue)).stream_idle_timeout(idle);
        let engine = Engine::with_options(MemoryStore::new(), options.origin(Origin::unknown().provider("openai")));
        with_bound_reply(&engine).await;
        let layer = ChatHistoryLayer::from_engine(engine, HttpHistory::new());
        let request = || {
            let body = r#"{"model":"m","input":[{"role":"user","content":"v"}]}"#;
            let request = Request::post("/v1/responses").header(CONVERSATION_ID, id().as_str());
            request.body(HistoryBody::new(body.to_owned())).unwrap()
        };
        let stalls = service_fn(|_: Request<HistoryBody>| async {
            let (first, second) = REFUSED.split_at(10);
            let body = StreamBody::new(stream::iter([data(first), data(second)]).chain(stream::pending()));
            let mut response = Response::new(HistoryBody::new(body));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            Ok::<_, Infallible>(response)
        });
        let begun = Instant::now();
        let response = layer.layer(stalls).oneshot(request()).await.unwrap();
        assert_eq!((response.status().as_u16(), begun.elapsed().as_secs()), (400, seconds));
        let mut body = response.into_body();
        let read = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(read, REFUSED, "every byte that was read is passed on");
        assert!(timeout(IDLE, body.frame()).await.is_err(), "the rest comes as the provider sends it");

        let answers = service_fn(|_: Request<HistoryBody>| async {
            let text = r#"{"status":"completed","output":[]}"#;
            Ok::<_, Infallible>(answer(JSON, text))
        });
        let begun = Instant::now();
        layer.layer(answers).oneshot(request()).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "the next call does not wait for the body");
    }
}
