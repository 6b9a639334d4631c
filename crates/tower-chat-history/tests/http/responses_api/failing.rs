//! Requests that cannot have history, responses that are not stored, and errors as responses.

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower_chat_history::{
    HistoryOptions,
    http::{CONVERSATION_ID, CallError, HttpHistory, OnServerState, ResponsesWire, error_response},
    report::{NotStored, ResponseShape, TurnOutcome},
};

use super::{
    super::support::{EVENTS, History, JSON, answer, id, text},
    STREAM, USER, WHOLE, ask, ok,
};

const STATE: [(&str, &str); 3] = [
    ("previous_response_id", r#"{"input":"u0","previous_response_id":"resp_1"}"#),
    ("conversation", r#"{"conversation":"conv_1","input":"u0"}"#),
    ("conversation", r#"{"conversation":{"id":"conv_1"}}"#),
];

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_is_refused_by_default() {
    let history = History::new();
    for (field, body) in STATE {
        let error = history.refused(ask(body)).await;
        assert!(matches!(error.downcast_ref(), Some(CallError::ServerState { field: own }) if *own == field));
        let response = error_response(&*error, &ResponsesWire::new());
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let error: Value = serde_json::from_slice(response.body()).unwrap();
        let error = &error["error"];
        assert_eq!((&error["type"], &error["code"]), (&"invalid_request_error".into(), &"server_state".into()));
        assert!(error["param"].is_null() && error["message"].as_str().unwrap().contains(field), "{error}");
    }
    assert!(history.log().await.is_empty());
}

#[tokio::test]
async fn a_conversation_that_the_provider_keeps_may_pass_through() {
    let adapter = HttpHistory::new().on_server_state(OnServerState::PassThrough);
    let history = History::of(adapter, HistoryOptions::new());
    for (_, body) in STATE {
        for (kind, response) in [(JSON, WHOLE), (EVENTS, STREAM)] {
            let mut request = ask(body);
            request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
            let (sent, got) = history.call(request, answer(kind, response)).await;
            let sent = sent.unwrap();
            assert_eq!((sent.body.as_str(), text(got.unwrap()).await.as_str()), (body, response));
            assert_eq!((sent.header(CONVERSATION_ID), sent.header("accept-encoding")), (None, Some("gzip")));
        }
    }
    assert!(history.log().await.is_empty());
    ok(&history, r#"{"input":"u0","previous_response_id":null,"conversation":null}"#, JSON, WHOLE).await;
    assert_eq!(history.log().await.len(), 14);
}

#[tokio::test]
async fn a_body_without_one_input_is_refused() {
    let history = History::new();
    for (body, at) in [
        (&b""[..], (1, 0)),
        (b"secret", (1, 1)),
        (b"[]", (1, 0)),
        (b"{}", (1, 3)),
        (b"{\"prompt\":\n{\"id\":\"pmpt_1\"}}\n", (2, 17)),
        (br#"{"input":null}"#, (1, 15)),
        (b"{\n \"input\":7}", (2, 10)),
        (br#"{"input":"u0","input":"u1"}"#, (1, 23)),
        (br#"{"input":[],"in\u0070ut":[]}"#, (1, 26)),
        (br#"{"input":"u0"} x"#, (1, 16)),
        (b"{\"input\":\"\xff\"}", (1, 11)),
    ] {
        let error = history.refused(ask(body)).await;
        let found = match error.downcast_ref() {
            Some(CallError::Body { line, column }) => (*line, *column),
            _ => panic!("{error:?}"),
        };
        assert_eq!(found, at, "{}", String::from_utf8_lossy(body));
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    let error = history.refused(ask(format!(r#"{{"input":[{USER},{{"content":"secret"}}]}}"#))).await;
    assert!(matches!(error.downcast_ref(), Some(CallError::Message { position: 1, .. })), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[tokio::test]
async fn of_a_repeated_field_the_last_value_counts_and_names_may_be_escaped() {
    let history = History::new();
    let body = r#"{"conversation":"conv_1","in\u0070ut":"u0","conversation":null,"x":{"input":7},"x":1}"#;
    assert_eq!(ok(&history, body, JSON, WHOLE).await.0.body, body);
    assert_eq!(history.log().await.len(), 14);
}

#[tokio::test]
async fn a_response_without_a_reply_is_passed_on_and_not_stored() {
    let error = NotStored::UnreadableReply(ResponseShape::Error);
    for (body, expected) in [
        (r#"{"object":"response","status":"failed","error":{"code":"server_error"},"output":[]}"#, error),
        (r#"{"object":"response","status":"cancelled","output":[]}"#, error),
        (r#"{"error":{"message":"x"}}"#, error),
        (r#"{"object":"response","status":"queued","output":[]}"#, NotStored::NoReply),
        (r#"{"object":"response","status":"completed","output":[]}"#, NotStored::NoReply),
        (r#"{"output":[{"type":"message"}]}"#, NotStored::UnreadableReply(ResponseShape::NoMessage)),
        ("<html>", NotStored::UnreadableReply(ResponseShape::NotJson)),
    ] {
        let history = History::new();
        assert_eq!(ok(&history, r#"{"input":"u0"}"#, JSON, body).await.1, body);
        assert!(matches!(history.outcome(), TurnOutcome::NotStored(why) if why == expected), "{:?}", history.outcome());
        assert!(history.log().await.is_empty());
    }
}

#[tokio::test]
async fn an_incomplete_response_is_stored_with_its_reason() {
    let item = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"}"#;
    let response =
        format!(r#"{{"status":"incomplete","incomplete_details":{{"reason":"max_output_tokens"}},"output":[{item}]}}"#);
    let event = format!("data: {{\"type\":\"response.incomplete\",\"response\":{response}}}\n\n");
    for (kind, body) in [(JSON, response), (EVENTS, event)] {
        let history = History::new();
        assert_eq!(ok(&history, r#"{"input":"u0"}"#, kind, &body).await.1, body);
        assert_eq!(history.log().await, [USER, item]);
        let (sent, _) = ok(&history, r#"{"input":"u1"}"#, JSON, WHOLE).await;
        assert!(!sent.body.contains("rs_1"), "reasoning is not sent without the item after it: {}", sent.body);
    }
}

#[tokio::test]
async fn other_endpoints_of_responses_pass_through() {
    for path in ["/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/resp_1/cancel"] {
        let history = History::new();
        let request = Request::post(path).header(CONVERSATION_ID, id().as_str()).body("not JSON".to_owned()).unwrap();
        let (sent, response) = history.call(request, answer(JSON, WHOLE)).await;
        assert_eq!(sent.unwrap().body, "not JSON");
        assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), WHOLE);
        assert!(history.log().await.is_empty());
    }
}
