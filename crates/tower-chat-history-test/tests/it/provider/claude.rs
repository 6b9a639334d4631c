//! The rules for thinking of Anthropic's models, behind OpenRouter and LiteLLM.

use serde_json::{Value, json};
use tower_chat_history_test::{
    ChatProvider::{self, LiteLlm, OpenRouter},
    RefusalReason, Reply,
};

use super::{Chat, check, foreign, result, user};

/// The providers, with their fields.
pub(super) const BOTH: [(ChatProvider, &str); 2] = [(OpenRouter, "reasoning_details"), (LiteLlm, "thinking_blocks")];

const INVALID: &str = "Invalid `signature` in `thinking` block";
const BOUND: &str = "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove \
                     the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";

fn replies() -> [Reply; 5] {
    [
        Reply::text("Hello.").thinking("a greeting"),
        Reply::calls([("a", "look", "{}"), ("b", "look", "{\"x\": 1}")]).thinking("two").redacted_thinking(),
        Reply::text("Once more.").with_calls([("c", "look", "{}")]).thinking("three"),
        Reply::text("There.").thinking("four"),
        Reply::text("Bye."),
    ]
}

/// Returns a conversation that ends with the results of an open round. The positions are: system 0, user 1, reply 2,
/// user 3, calls 4, results 5 and 6, call 7, result 8.
async fn conversation(provider: ChatProvider) -> Chat {
    let mut chat = Chat::start(provider, replies()).await;
    chat.fields["tools"] = json!([{ "type": "function", "function": { "name": "look", "parameters": {} } }]);
    chat.messages.push(json!({ "role": "system", "content": "Be brief." }));
    chat.say(user("Hi!")).await;
    chat.say(user("Where?")).await;
    chat.messages.push(result("a"));
    chat.say(result("b")).await;
    chat.messages.push(result("c"));
    chat
}

/// Returns the message of Anthropic's error in an error of the provider.
fn upstream(provider: ChatProvider, (status, body): (u16, Value)) -> String {
    assert_eq!(status, 400);
    let error = &body["error"];
    let raw = if provider == OpenRouter {
        assert_eq!((&error["message"], &error["code"]), (&json!("Provider returned error"), &json!(400)));
        assert_eq!(error["metadata"]["provider_name"], "Anthropic");
        error["metadata"]["raw"].as_str().unwrap()
    } else {
        assert_eq!((&error["type"], &error["param"], &error["code"]), (&Value::Null, &Value::Null, &json!("400")));
        error["message"].as_str().unwrap().strip_prefix("litellm.BadRequestError: AnthropicException - ").unwrap()
    };
    let raw: Value = serde_json::from_str(raw).unwrap();
    assert_eq!((&raw["type"], &raw["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    raw["error"]["message"].as_str().unwrap().to_owned()
}

/// Sends changed messages, which are refused. Returns the reason and the message of Anthropic's error.
async fn refused(chat: &Chat, provider: ChatProvider, messages: &[Value]) -> (RefusalReason, String) {
    let refusal = provider.check(&chat.body(messages)).unwrap_err();
    let message = upstream(provider, chat.send(messages).await.unwrap_err());
    assert_eq!(message, refusal.to_string());
    (refusal.reason().clone(), message)
}

fn bound(position: usize, at: &str) -> (RefusalReason, String) {
    (RefusalReason::OtherConversation { position, block: 0 }, format!("{at}: {BOUND}"))
}

#[tokio::test]
async fn a_conversation_that_is_sent_back_as_it_came_is_accepted() {
    for (provider, field) in BOTH {
        let mut chat = conversation(provider).await;
        let counts: Vec<usize> = [2, 4, 7].map(|at: usize| chat.messages[at][field].as_array().unwrap().len()).into();
        assert_eq!(counts, [1, 2, 1]);
        assert_eq!(provider.check(&chat.body(&chat.messages)), Ok(()));
        let last = chat.messages.pop().unwrap();
        assert_eq!(chat.say(last).await["content"], "There.");
        assert_eq!(chat.say(user("Thanks.")).await.get(field), None, "a reply without thinking");
    }
}

#[tokio::test]
async fn thinking_is_refused_after_another_prompt() {
    for (provider, field) in BOTH {
        let chat = conversation(provider).await;
        let changes: [fn(&mut Vec<Value>); 4] = [
            |messages| messages[0]["content"] = "Be brief. It is noon.".into(),
            |messages| messages[1]["content"] = "Ho!".into(),
            |messages| drop(messages.remove(0)),
            |messages| messages.insert(1, user("Before.")),
        ];
        for change in changes {
            let mut changed = chat.messages.clone();
            change(&mut changed);
            let position = changed.iter().position(|message| message["content"] == "Hello.").unwrap();
            assert_eq!(refused(&chat, provider, &changed).await, bound(position, "messages.1.content.0"));
        }
        let mut cut = chat.messages.clone();
        cut.drain(1..3);
        assert_eq!(refused(&chat, provider, &cut).await, bound(2, "messages.1.content.0"));
        let mut result = chat.messages.clone();
        result[5]["content"] = "[cleared]".into();
        assert_eq!(refused(&chat, provider, &result).await, bound(7, "messages.5.content.0"));
        // The blocks of the last reply are its thinking, its text and its calls. The earlier reply has four blocks.
        assert_eq!(chat.messages[4][field].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn thinking_is_refused_with_other_tools() {
    for (provider, _) in BOTH {
        let mut chat = conversation(provider).await;
        chat.fields["tools"].as_array_mut().unwrap().push(json!({ "type": "function", "function": { "name": "f" } }));
        assert_eq!(refused(&chat, provider, &chat.messages).await, bound(2, "messages.1.content.0"));
    }
}

#[tokio::test]
async fn cache_marks_and_spelling_are_not_compared() {
    for (provider, _) in BOTH {
        let mut chat = conversation(provider).await;
        let mark = json!({ "type": "ephemeral" });
        for (at, text) in [(0, "Be brief."), (3, "Where?")] {
            chat.messages[at]["content"] = json!([{ "type": "text", "text": text, "cache_control": mark }]);
        }
        chat.fields["tools"][0]["cache_control"] = mark;
        // A client that sorts fields and writes arguments anew.
        chat.messages[4]["tool_calls"][1]["function"]["arguments"] = "{\"x\":1}".into();
        chat.messages[4].as_object_mut().unwrap().remove("content");
        assert!(chat.send(&chat.messages).await.is_ok());
    }
}

#[tokio::test]
async fn thinking_can_be_left_out_of_earlier_turns_but_not_between() {
    for (provider, field) in BOTH {
        let chat = conversation(provider).await;
        let without = |positions: &[usize]| {
            let mut messages = chat.messages.clone();
            positions.iter().for_each(|at| drop(messages[*at].as_object_mut().unwrap().remove(field)));
            messages
        };
        assert_eq!(provider.check(&chat.body(&without(&[2]))), Ok(()));
        assert_eq!(provider.check(&chat.body(&without(&[2, 4]))), Ok(()));
        assert_eq!(refused(&chat, provider, &without(&[4])).await, bound(7, "messages.5.content.0"));
        assert!(chat.send(&without(&[2, 4])).await.is_ok());
    }
}

#[tokio::test]
async fn an_open_round_needs_its_thinking() {
    for (provider, field) in BOTH {
        let mut chat = conversation(provider).await;
        chat.messages[7].as_object_mut().unwrap().remove(field);
        let (reason, message) = refused(&chat, provider, &chat.messages).await;
        assert_eq!(reason, RefusalReason::MissingThinking { position: 7 });
        let start = "messages.5.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.";
        assert!(message.starts_with(start), "{message}");
        chat.messages.extend([json!({ "role": "assistant", "content": "There." }), user("And now?")]);
        assert!(chat.send(&chat.messages).await.is_ok(), "in an earlier turn, it may be missing");
        let foreign = [user("u"), foreign(&["x"]), result("x")];
        assert_eq!(check(provider, &foreign), Err(RefusalReason::MissingThinking { position: 1 }));
        let message = provider.check(&chat.body(&foreign)).unwrap_err().to_string();
        assert!(message.contains("but found `tool_use`"), "{message}");
        assert!(chat.send(&foreign).await.is_ok(), "the mock did not make these calls");
    }
}

#[tokio::test]
async fn an_open_round_needs_all_of_its_thinking() {
    for (provider, field) in BOTH {
        let chat = conversation(provider).await;
        let mut messages = chat.messages[..7].to_vec();
        assert!(messages[4][field].as_array_mut().unwrap().pop().is_some());
        let message = upstream(provider, chat.send(&messages).await.unwrap_err());
        let expected = "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message \
                        cannot be modified. These blocks must remain as they were in the original response.";
        assert_eq!(message, expected);
    }
}

#[tokio::test]
async fn changed_and_moved_thinking_is_refused() {
    for (provider, field) in BOTH {
        let chat = conversation(provider).await;
        let text = if provider == OpenRouter { "text" } else { "thinking" };
        let invalid = |position, at: &str| {
            (RefusalReason::InvalidThinking { position, block: 0 }, format!("messages.{at}: {INVALID}"))
        };
        let mut changed = chat.messages.clone();
        changed[2][field][0][text] = "another greeting".into();
        assert_eq!(refused(&chat, provider, &changed).await, invalid(2, "1.content.0"));
        for signature in [Value::Null, "".into(), "x".into(), "é".repeat(48).into()] {
            let mut changed = chat.messages.clone();
            changed[2][field][0]["signature"] = signature;
            assert_eq!(refused(&chat, provider, &changed).await, invalid(2, "1.content.0"));
        }
        let mut changed = chat.messages.clone();
        changed[2][field] = "text".into();
        assert_eq!(refused(&chat, provider, &changed).await, invalid(2, "1.content.0"));
        let mut moved = chat.messages.clone();
        moved[7][field] = moved[2][field].take();
        // The blocks at position 4 are the first ones now.
        assert_eq!(refused(&chat, provider, &moved).await, bound(7, "messages.5.content.0"));
        let mut swapped = chat.messages.clone();
        swapped[4][field].as_array_mut().unwrap().reverse();
        let (reason, _) = refused(&chat, provider, &swapped).await;
        assert_eq!(reason, RefusalReason::OtherConversation { position: 4, block: 0 });
    }
}
