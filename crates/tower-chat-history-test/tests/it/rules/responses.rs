//! OpenAI's Responses API.

use serde_json::{Value, json};
use tower_chat_history_test::responses::{Reason, Refusal, ResponsesProvider};

fn check(items: &[Value]) -> Result<(), Refusal> {
    check_body(&json!({"model": "gpt-5.5", "store": false, "input": items}))
}

fn check_body(body: &Value) -> Result<(), Refusal> {
    ResponsesProvider::new("acme").check(&body.to_string())
}

fn user() -> Value {
    json!({"role": "user", "content": "a"})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "r"})
}

/// Returns the value with this field, or without it.
fn with(mut value: Value, name: &str, field: Option<Value>) -> Value {
    match field {
        Some(field) => value[name] = field,
        None => drop(value.as_object_mut().unwrap().remove(name)),
    }
    value
}

/// Returns the status, the code, the parameter and the text of a refusal.
#[track_caller]
fn refused(checked: Result<(), Refusal>) -> (u16, Option<&'static str>, Option<String>, String) {
    let refusal = checked.unwrap_err();
    (refusal.status(), refusal.code(), refusal.param().map(str::to_owned), refusal.to_string())
}

#[track_caller]
fn expect(checked: Result<(), Refusal>, code: Option<&'static str>, param: &str, text: &str) {
    assert_eq!(refused(checked), (400, code, Some(param.to_owned()), text.to_owned()));
}

#[test]
fn ids_of_items_have_letters_digits_and_marks_and_the_prefix_of_their_type() {
    let reply = |id: &str| json!({"type": "message", "id": id, "role": "assistant", "content": "b"});
    let custom = json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": "y", "name": "g", "input": ""});
    let custom_output = json!({"type": "custom_tool_call_output", "call_id": "y", "output": "r"});
    let function = with(call("x"), "id", Some("fc_1".into()));
    let other = json!({"type": "web_search_call", "id": "any-1", "status": "completed"});
    assert_eq!(check(&[reply("msg_1-a"), function.clone(), output("x"), custom, custom_output, other]), Ok(()));
    for (item, prefix) in [
        (reply("1"), "msg"),
        (with(call("x"), "id", Some("call_1".into())), "fc"),
        (json!({"type": "custom_tool_call", "id": "fc_1", "call_id": "y", "name": "g", "input": ""}), "ctc"),
    ] {
        let id = item["id"].as_str().unwrap().to_owned();
        let text = format!("Invalid 'input[0].id': '{id}'. Expected an ID that begins with '{prefix}'.");
        expect(check(&[item]), Some("invalid_value"), "input[0].id", &text);
    }
    for id in ["msg-1", "msg_a:b", ""] {
        let text = format!(
            "Invalid 'input[0].id': '{id}'. Expected an ID that contains letters, numbers, underscores, or dashes, but \
             this value contained additional characters."
        );
        expect(check(&[reply(id)]), Some("invalid_value"), "input[0].id", &text);
    }
}

#[test]
fn two_items_have_different_ids() {
    let reply = |id: &str| json!({"type": "message", "id": id, "role": "assistant", "content": "b"});
    assert_eq!(check(&[reply("msg_1"), reply("msg_2"), user(), user()]), Ok(()));
    let twice = check(&[reply("msg_1"), user(), reply("msg_1")]);
    assert_eq!(twice.as_ref().unwrap_err().reason(), &Reason::RepeatedItem { position: 2 });
    let text = "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.";
    expect(twice, None, "input", text);
}

#[test]
fn call_ids_have_at_most_64_characters() {
    let of = |length: usize| check(&[call(&"x".repeat(length)), output(&"x".repeat(length))]);
    assert_eq!(of(64), Ok(()));
    assert_eq!(of(65).unwrap_err().reason(), &Reason::LongCallId { position: 0 });
    let text = "Invalid 'input[0].call_id': string too long. Expected a string with maximum length 64, but got a string \
                with length 65 instead.";
    expect(of(65), Some("string_above_max_length"), "input[0].call_id", text);
}

#[test]
fn calls_have_a_name_and_arguments_and_outputs_have_an_output() {
    let custom = json!({"type": "custom_tool_call", "call_id": "x", "name": "a b", "input": "select 1"});
    let custom_output = json!({"type": "custom_tool_call_output", "call_id": "x", "output": "r"});
    assert_eq!(check(&[call("x"), output("x"), custom.clone(), custom_output.clone()]), Ok(()));
    let image = json!([{"type": "input_image", "image_url": "https://example.com/a.png"}]);
    assert_eq!(check(&[call("x"), with(output("x"), "output", Some(image))]), Ok(()));
    let screenshot = json!({"type": "computer_call_output", "call_id": "x"});
    for (item, field) in [
        (call("x"), "name"),
        (call("x"), "arguments"),
        (custom.clone(), "name"),
        (custom, "input"),
        (output("x"), "output"),
        (custom_output, "output"),
        (screenshot, "output"),
    ] {
        let (param, text) = (format!("input[0].{field}"), format!("Missing required parameter: 'input[0].{field}'."));
        expect(check(&[with(item, field, None)]), Some("missing_required_parameter"), &param, &text);
    }
}

#[test]
fn arguments_are_a_text_and_names_of_functions_an_identifier() {
    let refused = check(&[with(call("x"), "arguments", Some(json!({}))), output("x")]);
    assert_eq!(refused.as_ref().unwrap_err().reason(), &Reason::WrongType { position: 0 });
    let text = "Invalid type for 'input[0].arguments': expected a string, but got an object instead.";
    expect(refused, Some("invalid_type"), "input[0].arguments", text);
    for name in ["f g", "", "a.b"] {
        let text = "Invalid 'input[0].name': string does not match pattern. Expected a string that matches the pattern \
                    '^[a-zA-Z0-9_-]+$'.";
        expect(check(&[with(call("x"), "name", Some(name.into()))]), Some("invalid_value"), "input[0].name", text);
    }
}

#[test]
fn messages_have_a_content_of_the_parts_of_their_role() {
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    let text = |kind: &str| json!([{"type": kind, "text": "a"}]);
    for (role, content) in [
        ("user", json!("")),
        ("user", json!([])),
        ("user", text("input_text")),
        ("developer", text("input_text")),
        ("user", text("output_text")),
        ("assistant", text("output_text")),
        ("assistant", json!([{"type": "refusal", "refusal": "no"}])),
    ] {
        assert_eq!(check(&[message(role, content.clone())]), Ok(()), "{role} {content}");
    }
    let wrong = "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.";
    let refused = check(&[user(), message("assistant", text("input_text"))]);
    expect(refused, Some("invalid_value"), "input[1].content[0]", wrong);
    let unknown = "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', 'input_audio', \
                   'output_text', 'refusal', 'input_file', 'computer_screenshot', 'summary_text', and \
                   'encrypted_content'.";
    expect(check(&[message("user", text("text"))]), Some("invalid_value"), "input[0].content[0].type", unknown);
    let missing = "Missing required parameter: 'input[0].content'.";
    let none = with(user(), "content", None);
    expect(check(&[none]), Some("missing_required_parameter"), "input[0].content", missing);
    let null = "Invalid type for 'input[0].content': expected one of an array of objects or string, but got null \
                instead.";
    expect(check(&[message("user", Value::Null)]), Some("invalid_type"), "input[0].content", null);
}

#[test]
fn nothing_is_stored_for_a_conversation_or_an_earlier_response() {
    let body = |more: Value| {
        let mut body = json!({"model": "gpt-5.5", "input": "a"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check_body(&body)
    };
    assert_eq!(body(json!({"previous_response_id": null, "conversation": null})), Ok(()));
    for conversation in [json!("conv_1"), json!({"id": "conv_1"})] {
        let refused = body(json!({"conversation": conversation})).unwrap_err();
        assert_eq!((refused.status(), refused.reason()), (404, &Reason::Conversation));
        assert_eq!(refused.to_string(), "Conversation with id 'conv_1' not found.");
    }
    let both = body(json!({"conversation": "conv_1", "previous_response_id": "resp_1"})).unwrap_err();
    assert_eq!((both.status(), both.reason()), (400, &Reason::TwoStates));
    assert_eq!(both.code(), Some("mutually_exclusive_parameters"));
}
