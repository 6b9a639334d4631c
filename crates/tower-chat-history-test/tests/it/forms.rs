//! `MockServer` for requests and replies at the edges of its three chat APIs.

use serde_json::{Value, json};
use tower_chat_history_test::{ApiFailure, Call, Choice, MockServer, Replies, Reply};

use crate::wire::exchange_with;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn body(path: &str, stream: impl Into<Value>) -> Value {
    let stream = stream.into();
    let list = if path == RESPONSES { "input" } else { "messages" };
    json!({"model": "m", "max_tokens": 9, "stream": stream, list: [{"role": "user", "content": "a"}]})
}

async fn post(server: &MockServer, path: &str, body: &str) -> (u16, String) {
    let version = "anthropic-version: 2023-06-01\r\n";
    let (head, answer) = exchange_with(server, &format!("POST {path}"), version, body).await;
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

async fn post_json(server: &MockServer, path: &str) -> (u16, Value) {
    let (status, answer) = post(server, path, &body(path, json!(false)).to_string()).await;
    (status, serde_json::from_str(&answer).unwrap())
}

#[tokio::test]
async fn prompts_of_any_depth_are_returned_as_json() {
    let server = MockServer::start(Replies::rules(|_| Reply::text("ok"))).await.unwrap();
    let deep = |levels: usize| {
        let content = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#)
    };
    let all = [100, 127, 128, 200, 100_000];
    for levels in all {
        assert_eq!(post(&server, CHAT, &deep(levels)).await.0, 200, "{levels}");
    }
    let prompts = server.prompts_json();
    assert_eq!(prompts.len(), all.len());
    assert_eq!(prompts[0][0]["role"], "user");
    for (prompt, message) in prompts.iter().zip(server.prompts()).skip(2) {
        assert_eq!(prompt[0], message[0].json());
    }
    assert_eq!(post(&server, CHAT, "{").await.0, 400);
    assert_eq!(server.prompts_json().last(), Some(&json!([])));
}

#[tokio::test]
async fn fields_of_a_reply_are_fields_of_the_message_or_the_response() {
    let reply = || Reply::text("b").field("service_tier", "priority").field("content", "x").field("output", "x");
    let server = MockServer::start(vec![reply(); 4]).await.unwrap();
    let (_, message) = post_json(&server, MESSAGES).await;
    assert_eq!((&message["service_tier"], &message["content"][0]["text"]), (&json!("priority"), &json!("b")));
    let (_, response) = post_json(&server, RESPONSES).await;
    assert_eq!((&response["service_tier"], &response["output"][0]["role"]), (&json!("priority"), &json!("assistant")));
    for (path, count) in [(MESSAGES, 1), (RESPONSES, 3)] {
        let (_, events) = post(&server, path, &body(path, json!(true)).to_string()).await;
        assert_eq!(events.matches(r#""service_tier":"priority""#).count(), count, "{events}");
    }
}

#[tokio::test]
async fn several_choices_are_an_error_where_there_are_no_choices() {
    let two = || Reply::choices([Choice::text("b"), Choice::text("c")]);
    let one = || Reply::choices([Choice::text("b")]);
    let server = MockServer::start([two(), two(), two(), one(), one()]).await.unwrap();
    for path in [MESSAGES, RESPONSES] {
        let (status, answer) = post_json(&server, path).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("several choices"), "{answer}");
    }
    assert_eq!(post_json(&server, CHAT).await.1["choices"][1]["message"]["content"], "c");
    for path in [MESSAGES, RESPONSES] {
        assert_eq!(post_json(&server, path).await.0, 200);
    }
}

#[tokio::test]
async fn events_of_a_response_are_numbered_after_a_passing_error() {
    let failure = || ApiFailure::new(529, "Overloaded");
    let passing = |at: usize| Reply::text("abc").chunk_chars(1).passing_error_after(at, failure());
    let broken = passing(1).error_after(4, failure());
    let server = MockServer::start([passing(0), passing(3), passing(1_000), broken]).await.unwrap();
    for place in [0, 3, 11, 1] {
        let (_, answer) = post(&server, RESPONSES, &body(RESPONSES, json!(true)).to_string()).await;
        let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>(), "{answer}");
        assert_eq!(events[place]["type"], "error", "{answer}");
    }
}

#[tokio::test]
async fn a_wrong_method_is_refused_in_the_form_of_the_api() {
    let server = MockServer::start([]).await.unwrap();
    for path in [CHAT, MESSAGES, RESPONSES] {
        let (head, answer) = exchange_with(&server, &format!("GET {path}"), "", "").await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(head.starts_with("http/1.1 405"), "{head}");
        assert_eq!(answer["error"]["type"], "invalid_request_error");
        assert_eq!(
            (answer["type"] == "error", answer["error"]["code"].is_null()),
            (path == MESSAGES, path == MESSAGES)
        );
    }
}

#[tokio::test]
async fn a_stream_that_is_not_a_boolean_is_refused_by_all_apis() {
    let server = MockServer::start(vec![Reply::text("b"); 3]).await.unwrap();
    for path in [CHAT, MESSAGES, RESPONSES] {
        for stream in [json!(1), json!("true"), json!({})] {
            let (status, answer) = post(&server, path, &body(path, stream).to_string()).await;
            assert_eq!((status, answer.contains("stream")), (400, true), "{answer}");
        }
    }
    assert_eq!(server.replies().left(), Some(3));
    for path in [CHAT, MESSAGES, RESPONSES] {
        let (status, answer) = post(&server, path, &body(path, Value::Null).to_string()).await;
        assert_eq!((status, answer.starts_with('{')), (200, true), "{answer}");
    }
}

#[tokio::test]
async fn a_call_without_arguments_has_an_empty_input() {
    let calls =
        [Call::new("a", "f", ""), Call::new("b", "f", " "), Call::new("c", "f", "no JSON"), Call::custom("d", "f", "")];
    let server = MockServer::start([Reply::calls(calls)]).await.unwrap();
    let (_, message) = post_json(&server, MESSAGES).await;
    let inputs: Vec<&Value> = message["content"].as_array().unwrap().iter().map(|block| &block["input"]).collect();
    assert_eq!(inputs, [&json!({}), &json!({}), &json!({"input": "no JSON"}), &json!({"input": ""})]);
}
