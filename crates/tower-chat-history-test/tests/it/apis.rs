//! `MockServer` as Anthropic's Messages API and as OpenAI's Responses API, read without a client library.

use serde_json::{Value, json};
use tower_chat_history_test::{ApiFailure, Call, MockServer, Replies, Reply, rules};

use crate::wire::exchange_with;

const MESSAGES: &str = "POST /v1/messages";
const RESPONSES: &str = "POST /v1/responses";
const VERSION: &str = "anthropic-version: 2023-06-01\r\n";

/// Sends a body, and returns the status and the body of the response, without the lines of the transfer.
async fn send(server: &MockServer, head: &str, body: &Value) -> (u16, String) {
    let headers = if head == MESSAGES { VERSION } else { "" };
    let (head, answer) = exchange_with(server, head, headers, &body.to_string()).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Sends a body that is answered with JSON.
async fn send_json(server: &MockServer, head: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = send(server, head, body).await;
    (status, serde_json::from_str(&answer).unwrap())
}

fn ask(messages: &[Value]) -> Value {
    json!({"model": "claude-opus-5-5", "max_tokens": 99, "messages": messages})
}

fn ask_items(items: &[Value]) -> Value {
    json!({"model": "gpt-5.5", "store": false, "input": items})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the names and the data of the events in a body.
fn events(body: &str) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    let mut lines = body.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("event: ") {
            let data = lines.next().unwrap().strip_prefix("data: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name);
            events.push((name.to_owned(), data));
        }
    }
    events
}

fn thinking_call() -> Reply {
    Reply::text("Let me see.").with_calls([("call_1", "weather", r#"{"city":"Oslo"}"#)]).thinking("Which city?")
}

fn kinds(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn messages_are_answered_with_signed_blocks_whole_and_streamed() {
    let server = MockServer::start([thinking_call(), thinking_call().chunk_chars(5)]).await.unwrap();
    let body = ask(&[user("Is it warm?")]);
    let (status, whole) = send_json(&server, MESSAGES, &body).await;
    assert_eq!((status, &whole["stop_reason"], &whole["model"]), (200, &json!("tool_use"), &body["model"]));
    assert_eq!(kinds(&whole["content"]), ["thinking", "text", "tool_use"]);
    assert_eq!(whole["content"][2]["input"], json!({"city": "Oslo"}));
    assert!(whole["usage"]["input_tokens"].as_u64().unwrap() > 0);

    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (_, answer) = send(&server, MESSAGES, &streamed).await;
    let events = events(&answer);
    let mut names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let first = ["message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop"];
    assert_eq!(names, [&first[..], &block, &block, &["message_delta", "message_stop"]].concat());
    let deltas = |kind: &str| -> Vec<&Value> {
        events.iter().map(|(_, data)| &data["delta"]).filter(|delta| delta["type"] == kind).collect()
    };
    let joined =
        |kind: &str, name: &str| -> String { deltas(kind).iter().map(|delta| delta[name].as_str().unwrap()).collect() };
    assert!(deltas("signature_delta").len() > 1, "a signature comes in several deltas");
    assert_eq!(joined("signature_delta", "signature"), whole["content"][0]["signature"]);
    assert_eq!(joined("thinking_delta", "thinking"), "Which city?");
    assert_eq!(joined("text_delta", "text"), "Let me see.");
    assert_eq!(joined("input_json_delta", "partial_json"), r#"{"city":"Oslo"}"#);
    assert_eq!(events[0].1["message"]["content"], json!([]));
    let stop = &events[events.len() - 2].1;
    assert_eq!(stop["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn responses_are_answered_with_encrypted_items_whole_and_streamed() {
    let server = MockServer::start([thinking_call(), thinking_call().chunk_chars(5)]).await.unwrap();
    let body = ask_items(&[user("Is it warm?")]);
    let (status, whole) = send_json(&server, RESPONSES, &body).await;
    assert_eq!((status, &whole["status"], &whole["model"]), (200, &json!("completed"), &body["model"]));
    assert_eq!(kinds(&whole["output"]), ["reasoning", "message", "function_call"]);

    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (_, answer) = send(&server, RESPONSES, &streamed).await;
    let events = events(&answer);
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["response.created", "response.in_progress", "response.output_item.added"]);
    assert_eq!(*names.last().unwrap(), "response.completed");
    for (number, (_, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
    }
    let delta = |name: &str| -> String {
        let named = events.iter().filter(|event| event.0 == name);
        named.map(|(_, data)| data["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(delta("response.reasoning_summary_text.delta"), "Which city?");
    assert_eq!(delta("response.output_text.delta"), "Let me see.");
    assert_eq!(delta("response.function_call_arguments.delta"), r#"{"city":"Oslo"}"#);
    let done = events.iter().filter(|event| event.0 == "response.output_item.done");
    let done: Vec<&Value> = done.map(|(_, data)| &data["item"]).collect();
    let last = &events.last().unwrap().1["response"];
    assert_eq!(done, last["output"].as_array().unwrap().iter().collect::<Vec<_>>());
    assert_eq!(kinds(&last["output"]), ["reasoning", "message", "function_call"]);
}

#[tokio::test]
async fn a_rule_answers_in_all_formats_from_the_messages_of_the_request() {
    let server = MockServer::start(Replies::rules(rules::remembering())).await.unwrap();
    let said = [user("My name is Nemo."), json!({"role": "assistant", "content": "Hi!"}), user("What is my name?")];
    let chat = json!({"model": "m", "messages": said});
    for (head, body, place) in [
        ("POST /v1/chat/completions", chat, "/choices/0/message/content"),
        (MESSAGES, ask(&said), "/content/0/text"),
        (RESPONSES, ask_items(&said), "/output/0/content/0/text"),
    ] {
        let (_, answer) = send_json(&server, head, &body).await;
        assert_eq!(answer.pointer(place).unwrap(), "Your name is Nemo.", "{answer}");
    }
    let text = json!({"model": "gpt-5.5", "input": "I'm Dory"});
    let (_, answer) = send_json(&server, RESPONSES, &text).await;
    assert_eq!(answer["output"][0]["content"][0]["text"], "Nice to meet you, Dory!");
    assert_eq!(server.prompts().iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3, 1]);
    let recorded = &server.requests()[1];
    assert_eq!((recorded.path(), recorded.header("anthropic-version")), ("/v1/messages", Some("2023-06-01")));
}

#[tokio::test]
async fn messages_that_anthropic_refuses_are_refused_and_use_no_reply() {
    let server = MockServer::start([thinking_call(), Reply::text("It is warm.")]).await.unwrap();
    let question = user("Is it warm?");
    let (_, made) = send_json(&server, MESSAGES, &ask(std::slice::from_ref(&question))).await;
    let reply = json!({"role": "assistant", "content": made["content"]});
    let result =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "20"}]});

    let refused = |answer: (u16, Value), wording: &str| {
        let (status, body) = answer;
        let text = body["error"]["message"].as_str().unwrap();
        assert_eq!(
            (status, &body["type"], &body["error"]["type"]),
            (400, &json!("error"), &json!("invalid_request_error"))
        );
        assert!(text.contains(wording), "{text}");
    };
    let open = ask(&[question.clone(), reply.clone(), user("And now?")]);
    refused(send_json(&server, MESSAGES, &open).await, "`tool_use` ids were found without `tool_result` blocks");
    let moved = ask(&[user("Is it cold?"), reply.clone(), result.clone()]);
    refused(send_json(&server, MESSAGES, &moved).await, "The block is bound to a different conversation.");
    refused(send_json(&server, MESSAGES, &json!({"model": "m", "messages": []})).await, "max_tokens: Field required");
    let (head, answer) = exchange_with(&server, MESSAGES, "", &ask(std::slice::from_ref(&question)).to_string()).await;
    assert!(head.starts_with("http/1.1 400") && answer.contains("anthropic-version: header is required"), "{answer}");

    assert_eq!(server.replies().left(), Some(1));
    let (status, answer) = send_json(&server, MESSAGES, &ask(&[question, reply, result])).await;
    assert_eq!((status, &answer["stop_reason"]), (200, &json!("end_turn")), "{answer}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn responses_that_openai_refuses_are_refused_and_use_no_reply() {
    let server = MockServer::start([thinking_call(), Reply::text("It is warm.")]).await.unwrap();
    let question = user("Is it warm?");
    let (_, made) = send_json(&server, RESPONSES, &ask_items(std::slice::from_ref(&question))).await;
    let output = made["output"].as_array().unwrap();
    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "20"});
    let without_reasoning = [vec![question.clone()], output[1..].to_vec(), vec![result.clone()]].concat();
    let without_result = [vec![question.clone()], output.clone()].concat();
    for (items, wording) in
        [(without_reasoning, "without its required 'reasoning' item"), (without_result, "No tool output found for")]
    {
        let (status, body) = send_json(&server, RESPONSES, &ask_items(&items)).await;
        assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")));
        assert!(body["error"]["message"].as_str().unwrap().contains(wording), "{body}");
    }
    assert_eq!(server.replies().left(), Some(1));
    let whole = [vec![question], output.clone(), vec![result]].concat();
    assert_eq!(send_json(&server, RESPONSES, &ask_items(&whole)).await.0, 200);
}

#[tokio::test]
async fn failures_have_the_shape_of_the_api() {
    let busy = || Reply::error(ApiFailure::rate_limited(std::time::Duration::from_secs(2)));
    let overloaded = || Reply::error(ApiFailure::new(529, "Overloaded"));
    let server = MockServer::start([busy(), overloaded(), busy()]).await.unwrap();
    let (head, answer) = exchange_with(&server, MESSAGES, VERSION, &ask(&[user("a")]).to_string()).await;
    assert!(head.starts_with("http/1.1 429") && head.contains("retry-after: 2"), "{head}");
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["error"]["type"], "rate_limit_error");
    let (status, answer) = send_json(&server, MESSAGES, &ask(&[user("a")])).await;
    assert_eq!((status, &answer["error"]["type"]), (529, &json!("overloaded_error")));
    let (status, answer) = send_json(&server, RESPONSES, &ask_items(&[user("a")])).await;
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    for (head, body) in [(MESSAGES, ask(&[user("a")])), (RESPONSES, ask_items(&[user("a")]))] {
        let (status, answer) = send_json(&server, head, &body).await;
        assert_eq!((status, answer["error"]["message"].as_str().unwrap().contains("used up")), (400, true), "{answer}");
    }
}

#[tokio::test]
async fn streams_break_off_as_the_reply_says() {
    let reply = || Reply::text("abcdef").chunk_chars(1);
    let failure = || ApiFailure::new(529, "Overloaded");
    let broken = || [reply().error_after(4, failure()), reply().end_after(4), reply().abort_after(4)];
    let server = MockServer::start([broken(), broken()].concat()).await.unwrap();
    for (head, mut body) in [(MESSAGES, ask(&[user("a")])), (RESPONSES, ask_items(&[user("a")]))] {
        body["stream"] = true.into();
        let (_, failed) = send(&server, head, &body).await;
        let failed = events(&failed);
        assert_eq!((failed.len(), failed[4].0.as_str()), (5, "error"));
        let expected = if head == MESSAGES { &failed[4].1["error"]["message"] } else { &failed[4].1["message"] };
        assert_eq!(expected, "Overloaded");
        let (_, ended) = send(&server, head, &body).await;
        assert!(events(&ended).len() == 4 && ended.ends_with("0\r\n\r\n"));
        let (_, aborted) = send(&server, head, &body).await;
        assert!(events(&aborted).len() == 4 && !aborted.ends_with("0\r\n\r\n"));
    }
}

#[tokio::test]
async fn finish_reasons_usage_and_models_are_those_of_the_reply() {
    let mut usage = tower_chat_history_core::Usage::new(40, 5);
    usage.cached_input_tokens = Some(30);
    let cut = || Reply::text("a").finish("length").usage(usage).model("other");
    let refused = || Reply::refusal("No.");
    let custom = || Reply::calls([Call::custom("call_1", "sql", "select 1")]);
    let all = || [cut(), refused(), custom()];
    let server = MockServer::start([all(), all()].concat()).await.unwrap();
    let body = ask(&[user("a")]);
    let (_, made) = send_json(&server, MESSAGES, &body).await;
    assert_eq!((&made["stop_reason"], &made["model"]), (&json!("max_tokens"), &json!("other")));
    let tokens = |name: &str| made["usage"][name].as_u64().unwrap();
    assert_eq!([tokens("input_tokens"), tokens("cache_read_input_tokens"), tokens("output_tokens")], [10, 30, 5]);
    assert_eq!(send_json(&server, MESSAGES, &body).await.1["stop_reason"], "refusal");
    assert_eq!(send_json(&server, MESSAGES, &body).await.1["content"][0]["input"], json!({"input": "select 1"}));

    let body = ask_items(&[user("a")]);
    let (_, made) = send_json(&server, RESPONSES, &body).await;
    assert_eq!(
        (&made["status"], &made["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    assert_eq!(
        (&made["usage"]["total_tokens"], &made["usage"]["input_tokens_details"]["cached_tokens"]),
        (&json!(45), &json!(30))
    );
    assert_eq!(send_json(&server, RESPONSES, &body).await.1["output"][0]["content"][0]["type"], "refusal");
    assert_eq!(kinds(&send_json(&server, RESPONSES, &body).await.1["output"]), ["custom_tool_call"]);
}

#[tokio::test]
async fn unchecked_prompts_are_possible() {
    let server = MockServer::start(Replies::script(vec![Reply::text("a"); 2]).check_prompts(false)).await.unwrap();
    let orphan = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]});
    assert_eq!(send_json(&server, MESSAGES, &ask(&[orphan])).await.0, 200);
    let orphan = json!({"type": "function_call_output", "call_id": "x", "output": ""});
    assert_eq!(send_json(&server, RESPONSES, &ask_items(&[orphan])).await.0, 200);
}
