//! Anthropic's Messages API.

use serde_json::{Value, json};
use tower_chat_history_test::messages::{MessagesProvider, Reason, Say};

fn body(messages: &Value) -> Value {
    json!({"model": "claude", "max_tokens": 9, "messages": messages})
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

fn check(body: &Value) -> Result<(), (Reason, String)> {
    let checked = MessagesProvider::new("p").check(&body.to_string());
    checked.map_err(|refusal| (refusal.reason().clone(), refusal.to_string()))
}

/// Checks a call and its result.
fn round(id: &str, name: &str, input: Option<Value>) -> Result<(), (Reason, String)> {
    let mut call = json!({"type": "tool_use", "id": id, "name": name});
    if let Some(input) = input {
        call["input"] = input;
    }
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": "1"});
    check(&body(&json!([user(&json!("a")), {"role": "assistant", "content": [call]}, user(&json!([result]))])))
}

/// Checks a message of the user with this block.
fn asked(block: &Value) -> Result<(), (Reason, String)> {
    check(&body(&json!([user(&json!([block, {"type": "text", "text": "a"}]))])))
}

#[track_caller]
fn wording(checked: Result<(), (Reason, String)>, start: &str) -> Reason {
    let (reason, text) = checked.unwrap_err();
    assert!(text.starts_with(start), "{text}");
    reason
}

#[test]
fn ids_of_calls_and_results_have_letters_digits_and_marks() {
    for id in ["toolu_01-Ab", "_", &"a".repeat(65)] {
        assert_eq!(round(id, "f", Some(json!({}))), Ok(()), "{id}");
    }
    for id in ["a:b", "", "a b", "a.b", "ä"] {
        let refused = round(id, "f", Some(json!({})));
        let expected = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'";
        let reason = wording(refused, expected);
        assert_eq!(reason, Reason::BlockValue { message: 1, block: 0, name: "tool_use.id" });
    }
    let expected = "messages.0.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'";
    wording(asked(&json!({"type": "tool_result", "tool_use_id": "a:b"})), expected);
}

#[test]
fn names_of_called_tools_have_letters_digits_and_marks_and_at_most_200_characters() {
    for name in ["f", "mcp__a-b", &"a".repeat(200)] {
        assert_eq!(round("x", name, Some(json!({}))), Ok(()), "{name}");
    }
    for name in ["", "f g", "a.b"] {
        let expected = "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'";
        wording(round("x", name, Some(json!({}))), expected);
    }
    let expected = "messages.1.content.0.tool_use.name: String should have at most 200 characters";
    let reason = wording(round("x", &"a".repeat(201), Some(json!({}))), expected);
    assert_eq!(reason, Reason::LongToolName { message: 1, block: 0 });
}

#[test]
fn the_input_of_a_call_is_an_object() {
    assert_eq!(round("x", "f", Some(json!({"a": [1]}))), Ok(()));
    for input in [json!("{}"), json!([]), json!(1), json!(null)] {
        let expected = "messages.1.content.0.tool_use.input: Input should be a valid dictionary";
        wording(round("x", "f", Some(input)), expected);
    }
    wording(round("x", "f", None), "messages.1.content.0.tool_use.input: Field required");
}

#[test]
fn messages_have_no_other_fields_than_role_and_content() {
    let mut named = user(&json!("a"));
    assert_eq!(check(&body(&json!([named]))), Ok(()));
    named["name"] = "bob".into();
    let reason = wording(check(&body(&json!([named]))), "messages.0.name: Extra inputs are not permitted");
    assert_eq!(reason, Reason::ExtraField { message: 0, block: None, name: "name".into() });
    let settings = json!({"role": "system", "content": [], "output_config": {}});
    assert_eq!(check(&body(&json!([settings, user(&json!("a"))]))), Ok(()), "settings");
}

#[test]
fn thinking_has_no_other_fields_and_no_mark() {
    let provider = MessagesProvider::new("p");
    let mut messages = json!([user(&json!("a"))]);
    let says = [Say::thinking("hm"), Say::Redacted, Say::text("b")];
    let made: Value =
        serde_json::from_str(&provider.reply(&body(&messages).to_string(), &says).unwrap().body()).unwrap();
    let more = [json!({"role": "assistant", "content": made["content"]}), user(&json!("c"))];
    messages.as_array_mut().unwrap().extend(more);
    assert_eq!(provider.check(&body(&messages).to_string()), Ok(()));
    for (block, name) in [(0, "thinking.cache_control"), (1, "redacted_thinking.cache_control")] {
        let mut marked = messages.clone();
        marked[1]["content"][block]["cache_control"] = json!({"type": "ephemeral"});
        let refusal = provider.check(&body(&marked).to_string()).unwrap_err();
        assert_eq!(refusal.to_string(), format!("messages.1.content.{block}.{name}: Extra inputs are not permitted"));
    }
}

#[test]
fn blocks_have_known_types() {
    assert_eq!(asked(&json!({"type": "search_result"})), Ok(()));
    wording(asked(&json!({"text": "a"})), "messages.0.content.0.type: Field required");
    let expected =
        "messages.0.content.0: Input tag 'hologram' found using 'type' does not match any of the expected tags";
    let reason = wording(asked(&json!({"type": "hologram"})), expected);
    assert_eq!(reason, Reason::UnknownBlock { message: 0, block: 0, kind: "hologram".into() });

    // A type that the provider itself has sent.
    let provider = MessagesProvider::new("p");
    let says = [Say::Block(json!({"type": "hologram"})), Say::text("b")];
    let made = provider.reply(&body(&json!([user(&json!("a"))])).to_string(), &says).unwrap();
    let reply: Value = serde_json::from_str(&made.body()).unwrap();
    let reply = json!({"role": "assistant", "content": reply["content"]});
    let again = body(&json!([user(&json!("a")), reply, user(&json!("c"))]));
    assert_eq!(provider.check(&again.to_string()), Ok(()));
    assert!(check(&again).is_err(), "another provider");
    assert_eq!(MessagesProvider::new("q").with_block_type("hologram").check(&again.to_string()), Ok(()));
}

#[test]
fn images_and_documents_have_a_source_of_an_allowed_type() {
    let data = |kind: &str, media_type: &str| json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": "AAAA"}});
    for media_type in ["image/jpeg", "image/png", "image/gif", "image/webp"] {
        assert_eq!(asked(&data("image", media_type)), Ok(()), "{media_type}");
    }
    assert_eq!(
        asked(&json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.tiff"}})),
        Ok(())
    );
    assert_eq!(asked(&data("document", "application/pdf")), Ok(()));
    let text = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}});
    assert_eq!(asked(&text), Ok(()));
    let image = "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', \
                 'image/gif' or 'image/webp'";
    for media_type in ["image/tiff", "image/jpg", ""] {
        wording(asked(&data("image", media_type)), image);
    }
    let document = "messages.0.content.0.document.source.base64.media_type: Input should be 'application/pdf'";
    wording(asked(&data("document", "text/csv")), document);
    wording(asked(&json!({"type": "image"})), "messages.0.content.0.image.source: Field required");
    let result = json!({"type": "tool_result", "tool_use_id": "x", "content": [data("image", "image/tiff")]});
    wording(asked(&result), image);
}

#[test]
fn marks_of_an_hour_are_before_marks_of_five_minutes() {
    let marked = |text: &str, ttl: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}});
    let mut ordered = body(&json!([user(&json!([marked("a", "1h"), marked("b", "5m")]))]));
    ordered["system"] = json!([marked("s", "1h")]);
    assert_eq!(check(&ordered), Ok(()));
    let late = body(&json!([user(&json!([marked("a", "5m"), marked("b", "1h")]))]));
    let expected = "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a \
                    ttl='5m' cache_control block.";
    assert_eq!(wording(check(&late), expected), Reason::CacheOrder { place: "messages.0.content.1".into() });
    ordered["tools"] = json!([{"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(wording(check(&ordered), "system.0.cache_control.ttl"), Reason::CacheOrder { place: "system.0".into() });
}

#[test]
fn texts_of_the_instructions_are_not_empty() {
    let mut request = body(&json!([user(&json!("a"))]));
    for system in [json!("s"), json!([{"type": "text", "text": "s"}])] {
        request["system"] = system;
        assert_eq!(check(&request), Ok(()));
    }
    request["system"] = json!([{"type": "text", "text": ""}]);
    let reason = wording(check(&request), "system: text content blocks must be non-empty");
    assert_eq!(reason, Reason::EmptySystem);
}

#[test]
fn a_request_for_no_tokens_is_accepted() {
    let mut request = body(&json!([user(&json!("a"))]));
    request["max_tokens"] = 0.into();
    assert_eq!(check(&request), Ok(()));
}
