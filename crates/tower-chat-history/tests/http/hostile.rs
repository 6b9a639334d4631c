//! Bodies of hostile sizes and contents.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody};
use tower_chat_history::{
    BoxError, HistoryError, HistoryOptions, Policies,
    error::InputError,
    http::{CallError, HttpHistory, HttpLimits},
    policy::OnInterruption,
    report::{NotStored, ResponseShape, TurnOutcome},
};

use super::support::{ASK, EVENTS, History, JSON, REPLY, WHOLE, answer, answer_with, ask, events, with_body};

pub(crate) const MIB: usize = 1 << 20;

/// Returns 100 frames of 1 MiB between two other frames.
pub(crate) fn hostile(
    begin: impl Into<Bytes>,
    byte: u8,
    end: impl Into<Bytes>,
) -> impl Body<Data = Bytes, Error = BoxError> + Send + 'static {
    let large = std::iter::repeat_n(Bytes::from(vec![byte; MIB]), 100);
    let frames = std::iter::once(begin.into()).chain(large).chain([end.into()]);
    StreamBody::new(futures_util::stream::iter(frames.map(|bytes| Ok(Frame::data(bytes)))))
}

/// A body that says how large it is, and must not be read.
struct Announced(u64);

impl Body for Announced {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("the body is read")
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn a_request_of_100_mb_is_refused_before_store_and_model() {
    let history = History::new();
    let of_32_mib =
        |error: &BoxError| matches!(error.downcast_ref(), Some(CallError::TooLarge { limit }) if *limit == 32 * MIB);
    assert!(of_32_mib(&history.refused(with_body(hostile("{", b' ', "}"))).await));
    assert!(of_32_mib(&history.refused(with_body(Announced(100 << 20))).await));
}

#[tokio::test]
async fn a_request_may_be_as_large_as_the_limit() {
    let history = History::of(HttpHistory::new().limits(HttpLimits::new().request(ASK.len())), HistoryOptions::new());
    history.ok(ASK, answer(JSON, WHOLE)).await;
    let error = history.call(ask(format!("{ASK} ")), answer(JSON, WHOLE)).await.1.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(CallError::TooLarge { .. })));
}

#[tokio::test]
async fn a_whole_response_of_100_mb_is_passed_on_and_not_stored() {
    for kind in [JSON, ""] {
        let history = History::new();
        let (_, response) = history.call(ask(ASK), answer_with(kind, hostile(WHOLE, b' ', "\n"))).await;
        let too_large = NotStored::UnreadableReply(ResponseShape::TooLarge);
        assert!(
            matches!(history.outcome(), TurnOutcome::NotStored(why) if why == too_large),
            "{:?}",
            history.outcome()
        );
        let bytes = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len(), WHOLE.len() + 100 * MIB + 1);
        assert!(bytes.starts_with(WHOLE.as_bytes()) && bytes.ends_with(b" \n"));
        assert_eq!(history.log().await, [""; 0]);
    }
}

#[tokio::test]
async fn frames_of_one_byte_take_little_memory() {
    let bytes = |text: &str| {
        let frames = text.bytes().map(|byte| Ok::<_, BoxError>(Frame::data(Bytes::copy_from_slice(&[byte]))));
        StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()))
    };
    let history = History::new();
    let (sent, response) = history.call(with_body(bytes(ASK)), answer_with(JSON, bytes(WHOLE))).await;
    assert_eq!(sent.unwrap().body, ASK);
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), WHOLE, "they are one buffer");
    assert!(body.is_end_stream() && body.frame().await.is_none());
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn a_whole_response_may_be_as_large_as_the_limit() {
    let limits = HttpLimits::new().response(WHOLE.len());
    let history = History::of(HttpHistory::new().limits(limits), HistoryOptions::new());
    history.ok(ASK, answer(JSON, WHOLE)).await;
    assert_eq!(history.log().await.len(), 2);
    let (_, text) = history.ok(ASK, answer(JSON, format!("{WHOLE} "))).await;
    assert_eq!(text, format!("{WHOLE} "));
    assert_eq!(history.log().await.len(), 2);
}

#[tokio::test]
async fn an_event_and_a_line_of_100_mb_are_passed_on_and_interrupt_the_reply() {
    let stream = events(&["a", "b"]);
    let (first, _) = stream.split_once("data: {\"choices\":[{\"delta\":{\"content\":\"b\"").unwrap();
    for begin in ["data: ", "x", ": ", "data: x\ndata: "] {
        let (begin, end) = (format!("{first}{begin}"), format!("\n\n{stream}"));
        let policies = Policies::new().on_interruption(OnInterruption::KeepText);
        let history = History::of(HttpHistory::new(), HistoryOptions::new().policies(policies));
        let body = hostile(begin.clone(), b'x', end.clone());
        let (_, response) = history.call(ask(ASK), answer_with(EVENTS, body)).await;
        let bytes = response.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len(), begin.len() + 100 * MIB + end.len());
        assert!(bytes.starts_with(begin.as_bytes()) && bytes.ends_with(end.as_bytes()));
        let outcome = history.outcome();
        assert!(matches!(outcome, TurnOutcome::Stored { incomplete: true, .. }), "{outcome:?}");
        assert_eq!(history.log().await[1..], [r#"{"role":"assistant","content":"a"}"#], "the text before it");
    }
}

#[tokio::test]
async fn an_event_that_is_too_large_after_the_last_finish_reason_does_not_matter() {
    let stream = events(&["a0"]).replace("data: [DONE]\n\n", "data: ");
    let history = History::of(HttpHistory::new().limits(HttpLimits::new().event(500)), HistoryOptions::new());
    let text = format!("{stream}{}\n\ndata: [DONE]\n\n", "x".repeat(1_000));
    assert_eq!(history.ok(ASK, answer(EVENTS, text.clone())).await.1, text);
    assert_eq!(history.log().await[1], r#"{"role":"assistant","content":"a0"}"#);
}

#[tokio::test]
async fn a_request_with_an_encoding_is_refused() {
    let history = History::new();
    for (encoding, name) in [("gzip", "gzip"), ("ZSTD", "zstd"), ("identity, br", "br"), ("mine", "other")] {
        let mut request = ask(ASK);
        request.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        let error = history.refused(request).await;
        assert!(matches!(error.downcast_ref(), Some(CallError::Encoded { coding }) if *coding == name), "{error:?}");
    }
    let mut request = ask(ASK);
    request.headers_mut().insert("content-encoding", "identity".parse().unwrap());
    history.call(request, answer(JSON, WHOLE)).await.1.unwrap();
}

#[tokio::test]
async fn a_body_without_one_list_of_messages_is_refused() {
    let history = History::new();
    for (body, at) in [
        (&b""[..], (1, 0)),
        (b"secret", (1, 1)),
        (b"[]", (1, 0)),
        (b"{}", (1, 3)),
        (b"null", (1, 4)),
        (b"{\n \"messages\":null}", (2, 13)),
        (b"{\n \"messages\":\"secret\"}", (2, 13)),
        (b"{\n \"messages\":{\"role\":7}}", (2, 13)),
        (br#"{"messages":[]"#, (1, 14)),
        (br#"{"messages":[]} x"#, (1, 17)),
        (br#"{"messages":[],"messages":[]}"#, (1, 27)),
        (br#"{"messages":[],"mess\u0061ges":[]}"#, (1, 32)),
        (b"{\"messages\":[{\"role\":\"user\",\n\"content\":\"\xff\"}]}", (2, 12)),
    ] {
        let error = history.refused(ask(body)).await;
        let found = match error.downcast_ref() {
            Some(CallError::Body { line, column }) => (*line, *column),
            _ => panic!("{error:?}"),
        };
        assert_eq!(found, at, "{}", String::from_utf8_lossy(body));
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    for (body, at) in [(r#"{"messages":["secret"]}"#, 0), (r#"{"messages":[{"role":"user","content":"u"},7]}"#, 1)] {
        let error = history.refused(ask(body)).await;
        assert!(matches!(error.downcast_ref(), Some(CallError::Message { position, .. }) if *position == at));
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    let error = history.refused(ask(r#"{"messages":[]}"#)).await;
    assert!(matches!(error.downcast_ref(), Some(HistoryError::Input(InputError::Empty))), "{error:?}");
}

#[tokio::test]
async fn of_a_repeated_field_the_last_value_counts_and_names_may_be_escaped() {
    let history = History::new();
    let body = r#"{"n":2,"mess\u0061ges":[{"\u0072ole":"user","content":"u0"}],"n":1,"x":{"messages":7},"x":1}"#;
    let (sent, _) = history.ok(body, answer(JSON, WHOLE)).await;
    assert_eq!(sent.body, body);
    let stored = r#"{"\u0072ole":"user","content":"u0"}"#;
    assert_eq!(history.log().await, [stored, REPLY]);
    let (sent, _) = history.ok(body, answer(JSON, WHOLE)).await;
    assert_eq!(sent.body, body.replace(":[{", &format!(":[{stored},{REPLY},{{")));
}

#[tokio::test]
async fn a_response_that_is_not_utf_8_is_passed_on_and_not_stored() {
    let broken = [WHOLE.as_bytes(), b"\xff"].concat();
    let stream = [b"data: \xff\n\n", events(&["a0"]).as_bytes()].concat();
    for (kind, body) in [(JSON, broken), (EVENTS, stream)] {
        let history = History::new();
        let (_, response) = history.call(ask(ASK), answer(kind, body.clone())).await;
        assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), body);
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(_)));
        assert_eq!(history.log().await, [""; 0]);
    }
}
