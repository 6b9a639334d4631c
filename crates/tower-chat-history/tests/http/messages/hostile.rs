//! Bodies and responses that cannot be used.

use serde_json::json;
use tower_chat_history::{
    http::{CallError, MessagesWire, error_response},
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::messages::Say;

use super::Chat;

#[tokio::test]
async fn a_body_without_one_list_of_messages_is_refused() {
    let chat = Chat::new();
    for (body, at) in [
        ("", (1, 0)),
        ("secret", (1, 1)),
        ("[]", (1, 0)),
        ("{}", (1, 3)),
        ("null", (1, 4)),
        (r#"{"messages":"secret"}"#, (1, 13)),
        (r#"{"messages":null}"#, (1, 13)),
        (r#"{"messages":[]"#, (1, 14)),
        ("{\"messages\":[],\n \"mess\\u0061ges\":[]}", (2, 18)),
    ] {
        let error = chat.call(body.into(), 1.0).await.unwrap_err();
        let found = match error.downcast_ref() {
            Some(CallError::Body { line, column }) => (*line, *column),
            _ => panic!("{error:?}"),
        };
        assert_eq!(found, at, "{body}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    for (body, at) in [(r#"{"messages":["secret"]}"#, 0), (r#"{"messages":[{"role":"user","content":"u"},{}]}"#, 1)] {
        let error = chat.call(body.into(), 1.0).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(CallError::Message { position, .. }) if *position == at));
        assert!(!format!("{error} {error:?}").contains("secret"));
        let response = error_response(&*error, &MessagesWire::new());
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!((response.status().as_u16(), &body["type"]), (400, &json!("error")));
        assert_eq!(body["error"]["type"], "invalid_request_error");
    }
    assert!(chat.mock.requests().is_empty());
}

#[tokio::test]
async fn no_byte_changes_but_those_of_the_messages() {
    let chat = Chat::new();
    let body = r#"{ "model" : "claude","mess\u0061ges":[ {"\u0072ole":"user","content":[{"type":"search_result","x":1.50}]} ],
        "max_tokens":9 ,"metadata":{"messages":7}, "stop_sequences":["\ud83d\ude00"],"metadata":{} }"#;
    chat.mock.push(vec![Say::Text("a0".into())]);
    chat.call(body.into(), 1.0).await.unwrap();
    chat.mock.push(vec![Say::Text("a1".into())]);
    chat.call(body.into(), 1.0).await.unwrap();
    let requests = chat.mock.requests();
    assert_eq!(requests[0], body);
    let log = chat.log().await;
    let stored = r#"{"\u0072ole":"user","content":[{"type":"search_result","x":1.50}]}"#;
    assert_eq!(log[0].json(), stored);
    assert_eq!(requests[1], body.replace(":[ {", &format!(":[{stored},{},{{", log[1].json())));
}

#[tokio::test]
async fn unknown_blocks_are_stored_and_sent_again() {
    let chat = Chat::new();
    let ask =
        json!([{"role": "user", "content": [{"type": "hologram", "data": [1.5]}, {"type": "text", "text": "a"}]}]);
    let later = json!({"type": "later", "deep": [[["x"]]]});
    chat.say(&ask, vec![Say::Block(later.clone()), Say::Text("b".into())]).await;
    chat.say(&json!([{"role": "user", "content": "c"}]), vec![Say::Text("d".into())]).await;
    let sent = chat.sent();
    assert_eq!((&sent[0], &sent[1]["content"][0]), (&ask[0], &later));
}

#[tokio::test]
async fn a_stream_that_ends_early_is_passed_on_and_not_stored() {
    for share in [0.0, 0.3, 0.6] {
        let chat = Chat::new();
        chat.mock.push(vec![Say::Thinking("hm".into()), Say::Text("a".into())]);
        let body = r#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"u"}]}"#;
        let answer = chat.call(body.into(), share).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(matches!(chat.outcome(), TurnOutcome::NotStored(NotStored::Interrupted)), "{:?}", chat.outcome());
        assert!(chat.log().await.is_empty());
    }
}
