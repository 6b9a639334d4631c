//! The chat rules, which every provider checks with its own wording.

use serde_json::{Value, json};
use tower_chat_history_test::{
    ApiFailure, ChatProvider, ChatProvider::*, MockServer, RefusalReason, Replies, Reply, RuleViolation,
    check_chat_rules,
};

use super::{CHAT, Chat, check, error, exchange, foreign, result, user};

const ALL: [ChatProvider; 5] = [OpenAi, DeepSeek, Gemini, OpenRouter, LiteLlm];

/// Returns the message in the body of an error.
fn message(body: &Value) -> String {
    let error = if body.is_array() { &body[0]["error"] } else { &body["error"] };
    let raw = error["metadata"]["raw"].as_str().unwrap_or_else(|| error["message"].as_str().unwrap());
    let raw = raw.strip_prefix("litellm.BadRequestError: AnthropicException - ").unwrap_or(raw);
    match serde_json::from_str::<Value>(raw) {
        Ok(upstream) => upstream["error"]["message"].as_str().unwrap().to_owned(),
        Err(_) => raw.to_owned(),
    }
}

#[test]
fn openai_is_the_default_and_has_only_the_chat_rules() {
    assert_eq!(ChatProvider::default(), OpenAi);
    let orphan = [user("u"), result("x")];
    let violation = RuleViolation::OrphanResult { position: 1, id: "x".into() };
    let failure: ApiFailure = violation.clone().into();
    assert_eq!(error(OpenAi, &orphan), (400, failure.to_json()));
    assert_eq!(check(OpenAi, &orphan), Err(RefusalReason::ChatRules(violation)));
    assert_eq!(check(OpenAi, &[user("u"), foreign(&["x"]), result("x")]), Ok(()));
}

#[test]
fn a_lone_surrogate_is_unreadable() {
    let body = |text: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    for provider in ALL {
        assert_eq!(provider.check(&body(r"\ud83d\ude00")), Ok(()));
        let refusal = provider.check(&body(r"\ud83d")).unwrap_err();
        assert_eq!(refusal.reason(), &RefusalReason::Unreadable);
    }
}

#[test]
fn only_openai_refuses_long_ids_and_ids_that_repeat_in_a_message() {
    let long = "x".repeat(65);
    let message = json!({ "role": "assistant", "reasoning_content": "", "tool_calls": [
        { "id": long, "type": "function", "function": { "name": "look", "arguments": "{}" } } ] });
    let round = [user("u"), message, result(&long)];
    let violation = RuleViolation::LongCallId { position: 1, call: 0, length: 65 };
    assert_eq!(check(OpenAi, &round), Err(RefusalReason::ChatRules(violation.clone())));
    assert_eq!(error(OpenAi, &round), (400, ApiFailure::from(violation).to_json()));
    assert_eq!(error(OpenAi, &round).1["error"]["code"], "string_above_max_length");
    assert_eq!(check(DeepSeek, &round), Ok(()));

    let mut twice = [user("u"), foreign(&["x", "x"]), result("x"), result("x")];
    let violation = RuleViolation::RepeatedResult { position: 3, first: 2, id: "x".into() };
    assert_eq!(check(OpenAi, &twice), Err(RefusalReason::ChatRules(violation)));
    let text = "Invalid parameter: Duplicate value for 'tool_call_id' of 'x', in messages[2] and messages[3].";
    assert_eq!(self::message(&error(OpenAi, &twice).1), text);
    assert_eq!(error(OpenAi, &twice).1["error"]["param"], "messages.[3].tool_call_id");
    twice[1]["reasoning_content"] = "".into();
    assert_eq!(check(DeepSeek, &twice), Ok(()));
}

#[tokio::test]
async fn openai_does_not_send_reasoning() {
    let chat = Chat::start(OpenAi, [Reply::text("a").thinking("t").redacted_thinking()]).await;
    let reply = chat.send(&[user("u")]).await.unwrap();
    assert_eq!(reply, json!({ "role": "assistant", "content": "a", "refusal": null }));
}

#[test]
fn every_provider_refuses_violations_in_its_own_words() {
    let open = [user("u"), foreign(&["x", "y"]), result("x")];
    let orphan = [user("u"), result("x")];
    let wordings: Vec<[String; 2]> = ALL
        .iter()
        .map(|&provider| [&open[..], &orphan[..]].map(|messages| message(&error(provider, messages).1)))
        .collect();
    let opening = |provider: usize, at: usize, text: &str| {
        assert!(wordings[provider][at].starts_with(text), "{}", wordings[provider][at]);
    };
    opening(0, 0, "An assistant message with 'tool_calls' must be followed by tool messages");
    opening(0, 1, "Invalid parameter: 'tool_call_id' of 'x' not found");
    assert!(wordings[1][0].ends_with("(insufficient tool messages following tool_calls message)"));
    opening(1, 1, "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
    opening(2, 0, "Please ensure that the number of function response parts is equal");
    opening(2, 1, "Please ensure that function response turn comes immediately after");
    for claude in [3, 4] {
        opening(claude, 0, "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: y.");
        opening(claude, 1, "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: x.");
    }
}

#[tokio::test]
async fn every_server_refuses_every_violation_with_status_400() {
    let blank = json!({ "role": "assistant", "content": null });
    let no_calls = json!({ "role": "assistant", "content": "t", "tool_calls": [] });
    for provider in ALL {
        let chat = Chat::start(provider, []).await;
        for messages in [vec![], vec![user("u"), blank.clone()], vec![user("u"), no_calls.clone()]] {
            let parsed: Vec<_> =
                messages.iter().map(|m| tower_chat_history_core::Message::from_json(m.to_string()).unwrap()).collect();
            let violation = check_chat_rules(&parsed).unwrap_err();
            assert_eq!(chat.send(&messages).await, Err(error(provider, &messages)));
            assert_eq!(check(provider, &messages), Err(RefusalReason::ChatRules(violation)));
        }
    }
}

#[test]
fn bodies_that_cannot_be_read_are_refused() {
    for provider in ALL {
        for body in ["", "{}", r#"{"messages":[1]}"#, r#"{"messages":"x"}"#] {
            let refusal = provider.check(body).unwrap_err();
            assert_eq!((refusal.reason(), refusal.provider()), (&RefusalReason::Unreadable, provider));
            assert_eq!(ApiFailure::from(refusal).status(), 400);
        }
    }
}

#[tokio::test]
async fn without_checks_nothing_is_refused_and_replies_are_still_signed() {
    let replies = [Reply::calls([("a", "look", "{}")])];
    let replies = Replies::script(replies).provider(Gemini).check_prompts(false);
    let server = MockServer::start(replies).await.unwrap();
    let messages = json!([user("u"), foreign(&["x"]), result("x")]);
    let (head, body) = exchange(&server, CHAT, &json!({ "model": "m", "messages": messages }).to_string()).await;
    assert!(head.starts_with("http/1.1 200") && body.contains("thought_signature"), "{head} {body}");
}

#[test]
fn refusals_do_not_show_the_contents_of_messages() {
    for provider in ALL {
        for messages in [vec![user("secret"), foreign(&["x"])], vec![user("secret"), foreign(&["x"]), result("x")]] {
            let Err(refusal) = provider.check(&json!({ "messages": messages }).to_string()) else { continue };
            assert!(!format!("{refusal} {refusal:?}").contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_field_of_the_test_replaces_the_providers_field() {
    let chat = Chat::start(DeepSeek, [Reply::text("a").thinking("t").field("reasoning_content", "own")]).await;
    assert_eq!(chat.send(&[user("u")]).await.unwrap()["reasoning_content"], "own");
}
