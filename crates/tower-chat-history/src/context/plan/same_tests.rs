//! Messages that a caller resends, in the dialect of the log and in others.

use tower_chat_history_core::{
    AnthropicMessages, ChatCompletions, Dialect, Exchange, ExchangeId, Message, OpenAiResponses,
};

use super::same::{is_same_json, match_said};

fn messages(dialect: &'static dyn Dialect, messages: &[&str]) -> Vec<Message> {
    messages.iter().map(|json| Message::in_dialect(dialect, *json).unwrap()).collect()
}

fn logged(dialect: &'static dyn Dialect, json: &[&str]) -> Exchange {
    Exchange::new(ExchangeId::generate(), messages(dialect, json))
}

const CHAT: [&str; 6] = [
    r#"{"role":"user","content":[{"type":"text","text":"Who?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}"#,
    r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"x","type":"custom","custom":{"name":"g.h","input":"a"}}]}"#,
    r#"{"role":"tool","tool_call_id":"x","content":"1"}"#,
    r#"{"role":"tool","tool_call_id":"x","content":"2"}"#,
    r#"{"role":"user","content":"And?"}"#,
    r#"{"role":"assistant","content":"Me.\n\nOnly me."}"#,
];

/// The same in the format of Anthropic, with other ids, and in other messages.
const MESSAGES: [&str; 5] = [
    r#"{"role":"user","content":"Who?"}"#,
    r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"I "},{"type":"text","text":"look."},{"type":"tool_use","id":"t1","name":"f","input":{"a":1.0}},{"type":"tool_use","id":"t2","name":"g_h","input":{"input":"a"}}]}"#,
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"2"}]},{"type":"text","text":"And?"}]}"#,
    r#"{"role":"assistant","content":[{"type":"text","text":"Me."}]}"#,
    r#"{"role":"assistant","content":[{"type":"text","text":"Only me."}]}"#,
];

#[test]
fn what_is_said_is_the_same_in_other_dialects() {
    let chat = messages(&ChatCompletions, &CHAT);
    let anthropic = messages(&AnthropicMessages, &MESSAGES);
    assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT)), Ok(0));
    assert_eq!(match_said(&chat, &logged(&AnthropicMessages, &MESSAGES)), Ok(0));
    // The list can begin within the exchange, and have others before it.
    assert_eq!(match_said(&anthropic[3..], &logged(&ChatCompletions, &CHAT)), Ok(0));
    assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT[4..])), Err(2), "its message has results");
    assert_eq!(match_said(&anthropic, &logged(&ChatCompletions, &CHAT[5..])), Ok(3));
    let items = [
        r#"{"type":"message","role":"assistant","content":"I look."}"#,
        r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{\"a\":1}"}"#,
        r#"{"type":"custom_tool_call","call_id":"b","name":"g_h","input":"a"}"#,
        r#"{"type":"function_call_output","call_id":"a","output":"1"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"b","output":"2"}"#,
    ];
    assert_eq!(match_said(&messages(&OpenAiResponses, &items), &logged(&ChatCompletions, &CHAT[1..4])), Ok(0));
}

#[test]
fn a_question_with_only_an_image_belongs_to_its_exchange() {
    let image =
        r#"{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}"#;
    let (said, answer) = (r#"{"role":"user","content":"Who?"}"#, r#"{"role":"assistant","content":"Me."}"#);
    let in_chat = r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}"#;
    let match_list =
        |list: &[&str], log: &[&str]| match_said(&messages(&AnthropicMessages, list), &logged(&ChatCompletions, log));
    assert_eq!(match_list(&[said, answer, image, answer], &[in_chat, answer]), Ok(2));
    assert_eq!(match_list(&[said, image, answer], &[said, in_chat, answer]), Ok(0));
    assert_eq!(match_list(&[image, said, answer], &[said, answer]), Ok(1), "it can belong to the exchange before");
    assert_eq!(match_list(&[said, image, answer], &[said, answer]), Err(1), "the log lacks the image");
    assert_eq!(match_list(&[answer], &[in_chat, answer]), Ok(0), "the caller cannot send the image");
}

#[test]
fn another_text_call_or_result_differs() {
    for (at, from, to) in [
        (0, "Who?", "Whom?"),
        (1, r#""name":"f""#, r#""name":"e""#),
        (1, r#""a":1.0"#, r#""a":2"#),
        (1, "look.", "see."),
        (2, r#""content":"1""#, r#""content":"2""#),
        (2, "And?", ""),
        (4, "Only me.", "Only."),
    ] {
        let mut changed = MESSAGES.map(str::to_owned);
        assert!(changed[at].contains(from), "{from}");
        changed[at] = changed[at].replace(from, to);
        let changed = changed.each_ref().map(String::as_str);
        let found = match_said(&messages(&AnthropicMessages, &changed), &logged(&ChatCompletions, &CHAT));
        assert_eq!(found, Err(at), "{from}");
    }
    let found = match_said(&messages(&ChatCompletions, &CHAT[2..]), &logged(&AnthropicMessages, &MESSAGES[3..]));
    assert_eq!(found, Ok(3));
}

#[test]
fn a_message_that_stands_for_those_before_it_differs() {
    let items = [r#"{"type":"compaction","encrypted_content":"c"}"#, r#"{"role":"assistant","content":"a"}"#];
    let said = [r#"{"role":"user","content":"u"}"#, r#"{"role":"assistant","content":"a"}"#];
    assert_eq!(match_said(&messages(&OpenAiResponses, &items), &logged(&ChatCompletions, &said)), Err(0));
}

#[test]
fn arguments_are_the_same_in_any_spelling() {
    for (one, other) in [
        (r#"{"location": "SF", "unit":"c"}"#, r#"{"unit":"c","location":"SF"}"#),
        (r#"{"a":[1.0,"\u00e9",null]}"#, r#"{ "a": [1, "é", null] }"#),
        (r#"{"a":12345678901234567890}"#, r#"{"a":12345678901234567000}"#),
        ("{", "{"),
    ] {
        assert!(one == other || is_same_json(one, other), "{one} {other}");
    }
}

#[test]
fn other_arguments_are_not_the_same() {
    let deep = |text: &str| format!("{}{text}{}", "[".repeat(10_000), "]".repeat(10_000));
    for (one, other) in [
        (r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1,"b":2}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        (r#"{"a":"1"}"#, r#"{"a":1}"#),
        ("{", "{ "),
        (&*deep("1"), &*deep(" 1")),
    ] {
        assert!(!is_same_json(one, other), "{one} {other}");
    }
}
