//! Bodies of requests.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::value::RawValue;
use tower_chat_history_core::Message;

use super::super::ResponsesWire;
use crate::{
    adapt::Prompt,
    dialect::OpenAiResponses,
    engine::InputMode,
    http::{
        error::CallError,
        wire::{OpenedBody, Wire as _},
    },
};

const USER: &str = r#"{"role":"user","content":"u0"}"#;
const REPLY: &str = r#"{"id":"msg_1","type":"message","role":"assistant","content":[ ]}"#;

fn item(json: &str) -> Message {
    Message::in_dialect(&OpenAiResponses, json).unwrap()
}

fn try_open(body: &str, mode: InputMode) -> Result<OpenedBody, CallError> {
    ResponsesWire::new().open(Bytes::copy_from_slice(body.as_bytes()), mode, 0)
}

fn open(body: &str) -> OpenedBody {
    try_open(body, InputMode::Transcript).unwrap()
}

fn spliced(body: &str, window: &[Message]) -> String {
    let splice = open(body).splice;
    let bytes = splice.with(Prompt::new(window)).unwrap_or_else(|| splice.into_original());
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(Message::json).collect()
}

#[test]
fn a_text_becomes_a_user_item_if_there_is_a_window() {
    let body = r#"{"model":"m","input" : "Gr\u00fc\u00df" ,"store":true,"instructions":"Be brief."}"#;
    let opened = open(body);
    assert_eq!(json(&opened.messages.input), [r#"{"role":"user","content":"Gr\u00fc\u00df"}"#]);
    assert_eq!(json(&opened.messages.head), [r#"{"role":"developer","content":"Be brief."}"#]);
    assert_eq!(spliced(body, &[]), body);
    let expected = format!(r#"[{USER},{REPLY},{{"role":"user","content":"Gr\u00fc\u00df"}}]"#);
    assert_eq!(spliced(body, &[item(USER), item(REPLY)]), body.replace(r#""Gr\u00fc\u00df""#, &expected));
}

#[test]
fn the_window_is_inserted_between_head_and_input() {
    let system = r#"{"type":"message","role":"system","content":"S"}"#;
    let developer = r#"{"role":"developer","content":"D"}"#;
    let input = r#"{"role":"user","content":[{"type":"input_text","text":"u1"}]}"#;
    let body = format!(r#"{{"input":[ {system} , {developer} , {input} ],"instructions":"I","tools":[1 , 2]}}"#);
    let opened = open(&body);
    let instructions = r#"{"role":"developer","content":"I"}"#;
    assert_eq!(json(&opened.messages.head), [instructions, system, developer]);
    assert_eq!((json(&opened.messages.transcript), json(&opened.messages.input)), (vec![], vec![input]));
    assert_eq!(opened.info.tools.as_deref(), Some("[1 , 2]"));
    let expected = format!("[ {system} , {developer},{USER},{REPLY},{input} ]");
    let sent = spliced(&body, &[item(USER), item(REPLY)]);
    assert_eq!(sent, format!(r#"{{"input":{expected},"instructions":"I","tools":[1 , 2]}}"#));
}

#[test]
fn the_window_replaces_the_items_that_are_resent() {
    let call = r#"{"id":"fc_1","type":"function_call","call_id":"x","name":"f","arguments":""}"#;
    let output = r#"{"type":"function_call_output","call_id":"x","output":"r"}"#;
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"s"}"#;
    let unknown = r#"{"id":"new_1","type":"new_thing","level":1.50}"#;
    let body = format!(r#"{{"input":[{USER},{reasoning},{unknown},{call},{output},{unknown}]}}"#);
    let opened = open(&body);
    assert_eq!(json(&opened.messages.transcript), [USER, reasoning, unknown, call]);
    assert_eq!(json(&opened.messages.input), [output, unknown]);
    assert_eq!(spliced(&body, &[item(USER), item(call)]), format!(r#"{{"input":[{USER},{call},{output},{unknown}]}}"#));
    let new = try_open(&body, InputMode::New).unwrap();
    assert_eq!((new.messages.transcript.len(), new.messages.input.len()), (0, 6));
}

#[test]
fn few_shot_items_are_part_of_the_head() {
    let body = Bytes::from(format!(r#"{{"input":[{USER},{REPLY},{USER}],"instructions":"I"}}"#));
    let opened = ResponsesWire::new().open(body, InputMode::Transcript, 2).unwrap();
    assert_eq!((opened.messages.head.len(), opened.messages.transcript.len(), opened.messages.input.len()), (3, 0, 1));
    let sent = opened.splice.with(Prompt::new(&[item(USER)])).unwrap();
    assert_eq!(sent, format!(r#"{{"input":[{USER},{REPLY},{USER},{USER}],"instructions":"I"}}"#));
}

#[test]
fn other_fields_are_read() {
    let format = r#"{"type":"json_schema", "name":"n"}"#;
    let body = format!(
        r#"{{"text":{{"verbosity":"low","format":{format}}},"input":"u","model":"m","max_output_tokens": 900 ,"temperature":0.5,"top_p":1e-1}}"#
    );
    let OpenedBody { info, choices, splice, .. } = open(&body);
    assert_eq!((info.model.as_deref(), info.max_output, choices), (Some("m"), Some(900), 1));
    assert_eq!((info.temperature, info.top_p, info.response_format.as_deref()), (Some(0.5), Some(0.1), Some(format)));
    let (window, text) = ([item(USER)], r#"{"role":"user","content":"u"}"#);
    let mut prompt = Prompt::new(&window);
    prompt.reply_limit = Some(7);
    let expected = body.replace("900", "7").replace(r#""u""#, &format!("[{USER},{text}]"));
    assert_eq!(splice.with(prompt).unwrap(), expected);
    for none in [r#""temperature":null,"text":7"#, r#""temperature":"1","text":{},"max_output_tokens":"9""#] {
        let info = open(&format!(r#"{{"input":"u","top_p":1e999,{none}}}"#)).info;
        assert_eq!((info.temperature, info.top_p, info.response_format, info.max_output), (None, None, None, None));
    }
}

#[test]
fn a_conversation_that_the_provider_keeps_is_an_error() {
    for (field, value) in [
        ("previous_response_id", r#""resp_1""#),
        ("conversation", r#""conv_1""#),
        ("conversation", r#"{"id":"conv_1"}"#),
        ("previous_response_id", "7"),
    ] {
        for input in ["", r#","input":"u""#] {
            let error = try_open(&format!(r#"{{"{field}":{value}{input}}}"#), InputMode::New).err().unwrap();
            assert!(matches!(error, CallError::ServerState { field: own } if own == field), "{error:?}");
        }
    }
    open(r#"{"previous_response_id":null,"conversation":null,"input":"u"}"#);
}

#[test]
fn the_error_of_an_unreadable_body_does_not_quote_it() {
    for wrong in [
        "",
        "secret",
        "[]",
        "{}",
        "\"secret\"",
        r#"{"input":null}"#,
        r#"{"input":{"secret":1}}"#,
        r#"{"input":7}"#,
        r#"{"input":"secret","input":"secret"}"#,
        r#"{"input":["secret"],"in\u0070ut":[]}"#,
        r#"{"input":"secret"#,
    ] {
        let error = try_open(wrong, InputMode::New).err().unwrap();
        assert!(matches!(error, CallError::Body { .. }), "{wrong}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    for wrong in [r#""secret""#, "7", "{}", r#"{"content":"secret"}"#, r#"{"type":7}"#] {
        let error = try_open(&format!(r#"{{"input":[{USER},{wrong}]}}"#), InputMode::New).err().unwrap();
        assert!(matches!(error, CallError::Message { position: 1, .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

/// A member of the body that is unrelated to history. Some contain text that looks like the list of items.
fn other() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#""store":true"#.to_owned()),
        Just(r#""temperature" : 1.50e0"#.to_owned()),
        Just(r#""metadata":{"input":[{"role":"user","content":"no"}], "previous_response_id":"no"}"#.to_owned()),
        Just(r#""user":"\"input\":[] \ud83d""#.to_owned()),
        Just(r#""include":["reasoning.encrypted_content"]"#.to_owned()),
    ]
}

fn an_item() -> impl Strategy<Value = String> {
    (space(), "[a-z\\[\\]{},:]{0,6}", any::<bool>()).prop_map(|(space, text, is_known)| {
        let name = if is_known { r#""role":"user""# } else { r#""type":"new_thing""# };
        format!(r#"{{{space}"content":"{text}",{space}{name}}}"#)
    })
}

proptest! {
    #[test]
    fn only_bytes_of_the_input_change(
        before in prop::collection::btree_set(other(), 0..3),
        after in prop::collection::btree_set(other(), 0..3),
        input in prop::collection::vec(an_item(), 1..3),
        window in prop::collection::vec(an_item(), 0..4),
        text in prop::option::of("[a-z\\[\\]{},:]{0,6}"),
        gaps in prop::collection::vec(space(), 3),
    ) {
        let comma = format!("{},{}", gaps[0], gaps[1]);
        let front: String = before.iter().map(|member| format!("{member}{comma}")).collect();
        let back: String = after.difference(&before).map(|member| format!("{comma}{member}")).collect();
        let (front, back) = (format!("{{{}{front}\"input\":{}", gaps[2], gaps[0]), format!("{}{back}}}", gaps[1]));
        let written = text.as_ref().map_or_else(|| format!("[{}]", input.join(&comma)), |text| format!("\"{text}\""));
        let input = text.map_or(input, |text| vec![format!(r#"{{"role":"user","content":"{text}"}}"#)]);
        let body = format!("{front}{written}{back}");
        let messages: Vec<Message> = window.iter().map(|json| item(json)).collect();
        let sent = spliced(&body, &messages);
        prop_assert!(sent.starts_with(&front) && sent.ends_with(&back), "{}", sent);
        if window.is_empty() {
            prop_assert_eq!(sent, body);
        } else {
            let list: Vec<&RawValue> = serde_json::from_str(&sent[front.len()..sent.len() - back.len()]).unwrap();
            let expected: Vec<&String> = window.iter().chain(&input).collect();
            prop_assert_eq!(list.iter().map(|raw| raw.get()).collect::<Vec<_>>(), expected);
        }
    }
}
