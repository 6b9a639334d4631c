//! Whole responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use tower_chat_history::{
    BoxError, HistoryOptions, MemoryStore, Policies, Unsaved,
    http::{HistoryBody, HttpHistory, Refusal},
    policy::OnSaveFailure,
    report::{NotStored, ResponseShape, TurnOutcome},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use super::support::{ASK, EVENTS, History, JSON, REPLY, WHOLE, answer, answer_with, ask, frames, text};

#[tokio::test]
async fn a_whole_response_is_passed_on_unchanged_and_stored_verbatim() {
    for kind in [JSON, "application/json; charset=utf-8", "application/vnd.x+json", "text/plain", ""] {
        let history = History::new();
        assert_eq!(history.ok(ASK, answer(kind, WHOLE)).await.1, WHOLE);
        assert_eq!(history.log().await[1], REPLY);
        assert!(matches!(history.outcome(), TurnOutcome::Stored { .. }));
    }
}

#[tokio::test]
async fn frames_of_a_whole_response_are_joined_and_trailers_follow() {
    let trailers = HeaderMap::from_iter([("x-checksum".parse().unwrap(), HeaderValue::from_static("7"))]);
    for kind in [JSON, "text/plain"] {
        let data = WHOLE.as_bytes().chunks(7).map(|piece| Frame::data(Bytes::copy_from_slice(piece)));
        let space = [Frame::data(Bytes::from(" \n")), Frame::data(Bytes::new())];
        let body = frames(space.into_iter().chain(data).chain([Frame::trailers(trailers.clone())]).collect());
        let history = History::new();
        let (_, response) = history.call(ask(ASK), answer_with(kind, body)).await;
        let body = response.unwrap().into_body();
        assert_eq!(body.size_hint().exact(), Some(WHOLE.len() as u64 + 2));
        let body = body.collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-checksum"], "7");
        assert_eq!(body.to_bytes(), format!(" \n{WHOLE}"));
        assert_eq!(history.log().await[1], REPLY);
    }
}

#[tokio::test]
async fn a_response_that_is_not_a_completion_is_passed_on_and_not_stored() {
    for body in ["<html>", "", "{", r#"{"id":"queued"}"#, r#"{"error":{"message":"x"}}"#] {
        for kind in [JSON, ""] {
            let history = History::new();
            assert_eq!(history.ok(ASK, answer(kind, body)).await.1, body);
            assert_eq!(history.log().await, [""; 0]);
            let outcome = history.outcome();
            assert!(matches!(outcome, TurnOutcome::NotStored(_)), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_neither_json_nor_events_is_passed_on_and_not_stored() {
    let (not_json, other) = (ResponseShape::NotJson, ResponseShape::ContentType);
    for (kind, body, shape) in [
        ("text/html", "<html>busy</html>", not_json),
        ("text/html; charset=utf-8", "", not_json),
        ("", "", not_json),
        ("", " \n", not_json),
        ("", "upstream: no", not_json),
        ("", "[1]", not_json),
        ("application/octet-stream", "\u{1}\u{2}", not_json),
        ("application/x-ndjson", WHOLE, other),
        ("application/vnd.amazon.eventstream", "\u{0}\u{1}", other),
        ("image/png", "\u{1}", other),
    ] {
        let history = History::new();
        assert_eq!(history.ok(ASK, answer(kind, body)).await.1, body);
        let expected = NotStored::UnreadableReply(shape);
        let outcome = history.outcome();
        assert!(matches!(&outcome, TurnOutcome::NotStored(why) if *why == expected), "{kind} {body:?}: {outcome:?}");
        assert_eq!(history.log().await, [""; 0]);
    }
}

#[tokio::test]
async fn an_encoded_response_is_passed_on_unchanged_and_not_stored() {
    const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03data: {\n\n\xff";
    for encoding in ["gzip", "br", "identity, zstd", "x-own"] {
        for kind in [JSON, EVENTS, "text/plain"] {
            let history = History::new();
            let mut response = answer(kind, GZIP);
            response.headers_mut().insert("content-encoding", encoding.parse().unwrap());
            let (_, response) = history.call(ask(ASK), response).await;
            let response = response.unwrap();
            assert_eq!(response.headers()["content-encoding"], encoding);
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), GZIP);
            let encoded = NotStored::UnreadableReply(ResponseShape::Encoded);
            assert!(matches!(history.outcome(), TurnOutcome::NotStored(why) if why == encoded));
            assert_eq!(history.log().await, [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_response_without_an_encoding_is_stored() {
    for encoding in ["identity", "IDENTITY", ""] {
        let history = History::new();
        let mut response = answer(JSON, WHOLE);
        response.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        history.ok(ASK, response).await;
        assert_eq!(history.log().await.len(), 2);
    }
}

#[tokio::test]
async fn an_error_status_is_the_result_of_a_failed_call() {
    let history = History::new();
    let mut response = answer(JSON, WHOLE);
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(history.ok(ASK, response).await.1, WHOLE);
    assert!(matches!(history.outcome(), TurnOutcome::NotStored(NotStored::CallFailed)));
    assert_eq!(history.log().await, [""; 0]);
}

#[tokio::test]
async fn a_body_that_breaks_off_fails_the_call_with_its_error() {
    for (kind, begin) in [(JSON, "{"), ("text/plain", " ")] {
        let items = [Ok(Frame::data(Bytes::from(begin))), Err("broken")];
        let history = History::new();
        let body = StreamBody::new(futures_util::stream::iter(items));
        let (_, response) = history.call(ask(ASK), answer_with(kind, body)).await;
        assert_eq!(response.unwrap_err().to_string(), "broken");
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(NotStored::CallFailed)));
        assert_eq!(history.log().await, [""; 0]);
    }
}

async fn not_saved(policy: OnSaveFailure) -> Result<String, BoxError> {
    let store = MemoryStore::new();
    let faulty = FaultStore::new(store.clone());
    faulty.fail(Op::Append, usize::MAX, Fault::Unavailable);
    let options = HistoryOptions::new().policies(Policies::new().on_save_failure(policy));
    let history = History::over(store, faulty, HttpHistory::new(), options);
    let (_, response) = history.call(ask(ASK), answer(JSON, WHOLE)).await;
    assert_eq!(history.log().await, [""; 0]);
    assert!(matches!(history.outcome(), TurnOutcome::Failed(_)));
    Ok(text(response?).await)
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_failed_save_contains_the_response() {
    let error = not_saved(OnSaveFailure::Fail).await.unwrap_err();
    let refusal = Refusal::of(&*error);
    assert_eq!((refusal.status, refusal.code), (StatusCode::INTERNAL_SERVER_ERROR, "not_saved"));
    let response = error.downcast::<Unsaved<Response<HistoryBody>>>().unwrap().into_response();
    assert_eq!((response.status().as_u16(), response.headers()["x-request-id"].as_bytes()), (201, &b"r1"[..]));
    assert_eq!(text(response).await, WHOLE);
    assert_eq!(not_saved(OnSaveFailure::Report).await.unwrap(), WHOLE);
}
