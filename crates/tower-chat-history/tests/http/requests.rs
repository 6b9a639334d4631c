//! The requests that the inner service receives.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{poll, stream::poll_fn};
use http::{HeaderMap, Method, Request, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tower::{Layer as _, ServiceExt as _, limit::ConcurrencyLimit, service_fn};
use tower_chat_history::{
    BoxError, CallOptions, ExchangeId, HistoryOptions, HistoryStoreExt as _, MissingConversation,
    adapt::extract::FromExtensions,
    error::HeaderError,
    http::{
        CONVERSATION_ID, ChatWire, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, HistoryBody, HttpHistory, Routes,
        STATELESS,
    },
    in_conversation,
};

use super::support::{ASK, History, JSON, PATH, REPLY, WHOLE, answer, ask, frames, id, with_body};

const OURS: [&str; 5] = [CONVERSATION_ID, EXCHANGE_ID, STATELESS, DONT_STORE, FEW_SHOT_MESSAGES];
const STORED: &str = r#"{"content":"u0","role":"user","cache_control":{"ttl":1.50}}"#;
const AGAIN: &str = r#"{"n":1,"messages":[{"role":"user","content":"u1"}]}"#;

#[tokio::test]
async fn only_the_window_is_inserted() {
    let history = History::new();
    let (first, _) = history.ok(ASK, answer(JSON, WHOLE)).await;
    assert_eq!(first.body, ASK);
    let (second, _) = history.ok(AGAIN, answer(JSON, WHOLE)).await;
    assert_eq!(second.body, AGAIN.replace('[', &format!("[{STORED},{REPLY},")));
    for sent in [first, second] {
        assert_eq!((sent.header("x-other"), sent.header("accept-encoding")), (Some("kept"), Some("identity")));
        assert!(OURS.iter().all(|name| sent.header(name).is_none()));
        assert_eq!((sent.head.method, sent.head.uri.path()), (Method::POST, PATH));
    }
}

#[tokio::test]
async fn a_body_that_is_not_complete_yet_holds_no_permit_of_the_inner_service() {
    let history = History::new();
    let inner = service_fn(async |_: Request<HistoryBody>| Ok::<_, BoxError>(answer(JSON, WHOLE)));
    let service = history.layer().layer(ConcurrencyLimit::new(inner, 1));
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel::<Result<Frame<Bytes>, BoxError>>();
    let body = StreamBody::new(poll_fn(move |context| receive.poll_recv(context)));
    let mut slow = pin!(service.clone().oneshot(with_body(body)));
    assert!(poll!(slow.as_mut()).is_pending());
    assert_eq!(service.clone().oneshot(ask(ASK)).await.unwrap().status(), 201);
    send.send(Ok(Frame::data(ASK.into()))).unwrap();
    drop(send);
    assert_eq!(slow.await.unwrap().status(), 201);
    assert_eq!(history.log().await.len(), 4);
}

#[tokio::test]
async fn the_resent_list_is_replaced_by_the_log() {
    let history = History::new();
    history.ok(ASK, answer(JSON, WHOLE)).await;
    let resent = r#"{"messages":[{"role":"user","content":"u0"},{"role":"assistant","content":"a0"},{"role":"user","content":"u1"}]}"#;
    let (sent, _) = history.ok(resent, answer(JSON, WHOLE)).await;
    assert_eq!(sent.body, format!(r#"{{"messages":[{STORED},{REPLY},{{"role":"user","content":"u1"}}]}}"#));
}

#[tokio::test]
async fn headers_of_the_body_fit_the_changed_body() {
    let names = ["content-digest", "repr-digest", "digest", "content-md5"];
    let with_headers = |body: &'static str| {
        let mut request = ask(body);
        request.headers_mut().insert("content-length", body.len().into());
        request.headers_mut().insert("accept-encoding", "gzip, br".parse().unwrap());
        for name in names {
            request.headers_mut().insert(name, "x".parse().unwrap());
        }
        request
    };
    let history = History::new();
    let (sent, _) = history.call(with_headers(ASK), answer(JSON, WHOLE)).await;
    let sent = sent.unwrap();
    assert_eq!(sent.header("content-length"), Some(ASK.len().to_string().as_str()));
    assert!(names.iter().all(|name| sent.header(name) == Some("x")), "the body has not changed");
    let (sent, _) = history.call(with_headers(AGAIN), answer(JSON, WHOLE)).await;
    let sent = sent.unwrap();
    assert_eq!(sent.header("content-length"), Some(sent.body.len().to_string().as_str()));
    assert_eq!(sent.header("accept-encoding"), Some("identity"));
    assert!(names.iter().all(|name| sent.header(name).is_none()));
}

#[tokio::test]
async fn trailers_of_a_read_body_are_sent_without_digests() {
    let history = History::new();
    for (text, digest) in [(ASK, Some("x")), (AGAIN, None)] {
        let trailers = HeaderMap::from_iter(
            [("digest", "x"), ("x-checksum", "7"), ("x-chat-history-conversation", "c")]
                .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))),
        );
        let (front, back) = text.split_at(11);
        let body = [front, back].map(|text| Frame::data(Bytes::from(text)));
        let body = frames(body.into_iter().chain([Frame::trailers(trailers)]).collect());
        let service = service_fn(move |request: Request<HistoryBody>| async move {
            let body = request.into_body().collect().await?;
            let trailers = body.trailers().unwrap();
            assert_eq!(trailers.get("x-checksum").unwrap(), "7");
            assert!(!trailers.contains_key(CONVERSATION_ID), "it is for the layer only");
            assert_eq!(trailers.get("digest").map(|value| value.to_str().unwrap()), digest);
            Ok::<_, BoxError>(answer(JSON, WHOLE))
        });
        history.layer().layer(service).oneshot(with_body(body)).await.unwrap();
    }
}

#[tokio::test]
async fn headers_set_the_options_of_a_call() {
    let history = History::new();
    let mut request = ask(r#"{"messages":[{"role":"user","content":"shot"},{"role":"user","content":"u0"}]}"#);
    for (name, value) in [(EXCHANGE_ID, "m-1"), (FEW_SHOT_MESSAGES, "1")] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    history.call(request, answer(JSON, WHOLE)).await.1.unwrap();
    assert_eq!(history.log().await, [r#"{"role":"user","content":"u0"}"#, REPLY]);
    let stored = history.store.conversation(&id()).exchanges().await.unwrap();
    assert_eq!(stored[0].exchange.id.as_str(), "m-1");

    let mut request = ask(AGAIN);
    request.headers_mut().insert(DONT_STORE, "true".parse().unwrap());
    let (sent, _) = history.call(request, answer(JSON, WHOLE)).await;
    assert!(sent.unwrap().body.contains("u0"));
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn a_call_without_a_conversation_fails_unless_the_task_has_one() {
    let history = History::new();
    let nameless = || Request::post(PATH).body(Full::<Bytes>::from(ASK)).unwrap();
    assert!(history.refused(nameless()).await.is::<MissingConversation>());
    let mut twice = ask(ASK);
    twice.headers_mut().append(CONVERSATION_ID, "b".parse().unwrap());
    assert!(matches!(history.refused(twice).await.downcast_ref(), Some(HeaderError::Repeated { .. })));
    in_conversation(id(), history.call(nameless(), answer(JSON, WHOLE))).await.1.unwrap();
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn an_added_route_has_history() {
    static CHAT: ChatWire = ChatWire::new();
    let matches = |_: &Method, uri: &Uri| uri.path().starts_with("/model/") && uri.path().ends_with("/invoke");
    let adapter = HttpHistory::new().routes(Routes::none().route(matches, &CHAT));
    let history = History::of(adapter, HistoryOptions::new());
    let mut request = ask(ASK);
    *request.uri_mut() = "/model/m-1/invoke".parse().unwrap();
    history.call(request, answer(JSON, WHOLE)).await.1.unwrap();
    assert_eq!(history.log().await.len(), 2);
    history.call(ask(ASK), answer(JSON, WHOLE)).await.1.unwrap();
    assert_eq!(history.log().await.len(), 2, "there is no default route");
}

#[tokio::test]
async fn another_extractor_finds_the_conversation() {
    let history = History::of(HttpHistory::new().extract_by(FromExtensions::new()), HistoryOptions::new());
    let (options, report) = CallOptions::new().exchange(ExchangeId::new("m-2").unwrap()).with_report();
    let request = Request::post(PATH).extension(id()).extension(options).header(CONVERSATION_ID, "other");
    let service = service_fn(|request: Request<HistoryBody>| async move {
        assert!(!request.headers().contains_key(CONVERSATION_ID));
        Ok::<_, BoxError>(answer(JSON, WHOLE))
    });
    history.layer().layer(service).oneshot(request.body(Full::<Bytes>::from(ASK)).unwrap()).await.unwrap();
    assert_eq!(report.await.unwrap().exchange.as_str(), "m-2");
    assert_eq!(history.log().await.len(), 2);
}
