//! Each row of the table of items.

use std::slice;

use super::OpenAiResponses;
use crate::message::{Bound, CallId, Closes, Dialect, Media, Message, Part, Role, Space, ToolCall};

fn item(json: &str) -> Message {
    Message::in_dialect(&OpenAiResponses, json).unwrap()
}

fn parts(message: &Message) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    message.parts(&mut |part| parts.push(part));
    parts
}

/// The calls and outputs of all kinds, in the order of their spaces: the call, its name and arguments, the output, and
/// the constant output of an abandoned call, except its call's id.
const CALLS: [(&str, &str, &str, &str, &str); 8] = [
    (
        r#"{"id":"1","type":"function_call","call_id":"x","name":"f","arguments":"{}"}"#,
        "f",
        "{}",
        r#"{"type":"function_call_output","call_id":"x","output":"r"}"#,
        r#"{"type":"function_call_output","call_id":"x","output":"[no result: this call was abandoned]"}"#,
    ),
    (
        r#"{"id":"1","type":"custom_tool_call","call_id":"x","name":"f","input":"a b"}"#,
        "f",
        "a b",
        r#"{"type":"custom_tool_call_output","call_id":"x","output":"r"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"x","output":"[no result: this call was abandoned]"}"#,
    ),
    (
        r#"{"id":"1","type":"tool_search_call","execution":"client","call_id":"x","arguments":{"q":1.50}}"#,
        "tool_search",
        r#"{"q":1.50}"#,
        r#"{"type":"tool_search_output","execution":"client","call_id":"x","tools":[]}"#,
        r#"{"type":"tool_search_output","call_id":"x","execution":"client","status":"completed","tools":[]}"#,
    ),
    (
        r#"{"id":"1","type":"local_shell_call","call_id":"x","action":{"type":"exec"}}"#,
        "local_shell",
        r#"{"type":"exec"}"#,
        r#"{"type":"local_shell_call_output","call_id":"x","output":"r"}"#,
        r#"{"type":"local_shell_call_output","call_id":"x","output":"[no result: this call was abandoned]"}"#,
    ),
    (
        r#"{"id":"1","type":"shell_call","call_id":"x","action":{"commands":["ls"]}}"#,
        "shell",
        r#"{"commands":["ls"]}"#,
        r#"{"type":"shell_call_output","call_id":"x","output":[{"stdout":"r","stderr":""}]}"#,
        r#"{"type":"shell_call_output","call_id":"x","output":[{"stdout":"","stderr":"[no result: this call was abandoned]","outcome":{"type":"timeout"}}]}"#,
    ),
    (
        r#"{"id":"1","type":"computer_call","call_id":"x","actions":[{"type":"wait"}]}"#,
        "computer",
        r#"[{"type":"wait"}]"#,
        r#"{"type":"computer_call_output","call_id":"x","output":{"type":"computer_screenshot","file_id":"f"}}"#,
        r#"{"type":"computer_call_output","call_id":"x","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="}}"#,
    ),
    (
        r#"{"id":"1","type":"apply_patch_call","call_id":"x","operation":{"type":"delete_file"}}"#,
        "apply_patch",
        r#"{"type":"delete_file"}"#,
        r#"{"type":"apply_patch_call_output","call_id":"x","status":"completed","output":"r"}"#,
        r#"{"type":"apply_patch_call_output","call_id":"x","status":"failed","output":"[no result: this call was abandoned]"}"#,
    ),
    (
        r#"{"id":"x","type":"mcp_approval_request","name":"f","arguments":"{}"}"#,
        "f",
        "{}",
        r#"{"type":"mcp_approval_response","approval_request_id":"x","approve":true}"#,
        r#"{"type":"mcp_approval_response","approval_request_id":"x","approve":false}"#,
    ),
];

#[test]
fn each_kind_of_calls_has_a_space_of_its_own() {
    for (space, (call, name, arguments, output, abandoned)) in (0..).zip(CALLS) {
        let (asks, id) = (item(call), CallId::new(Space(space), "x"));
        assert_eq!((asks.role(), asks.index().closes), (&Role::Assistant, Closes::AfterResult), "{call}");
        let opened = ToolCall::new(id.clone(), name, arguments);
        assert_eq!(asks.tool_calls(), [if space == 1 { opened.custom() } else { opened }]);
        for output in [output, abandoned] {
            let answer = item(output);
            assert_eq!((answer.role(), answer.index().closes), (&Role::Tool, Closes::Never), "{output}");
            assert_eq!(answer.answers(), slice::from_ref(&id));
        }
        assert_eq!(OpenAiResponses.abandoned(&id), abandoned);
    }
}

#[test]
fn a_call_that_no_output_can_name_is_not_sent() {
    for json in [
        r#"{"type":"function_call","name":"f","arguments":"{}"}"#,
        r#"{"type":"custom_tool_call","call_id":"","name":"f","input":""}"#,
        r#"{"type":"shell_call","call_id":5,"action":{}}"#,
    ] {
        assert!(item(json).is_blank() && item(json).tool_calls().is_empty(), "{json}");
    }
    assert!(item(r#"{"type":"function_call_output","output":"r"}"#).answers().is_empty());
}

#[test]
fn the_output_of_a_local_shell_may_name_its_call_in_either_field() {
    for field in ["id", "call_id"] {
        let json = format!(r#"{{"type":"local_shell_call_output","{field}":"x","output":"r"}}"#);
        assert_eq!(item(&json).answers(), [CallId::new(Space(3), "x")], "{field}");
    }
}

#[test]
fn messages_have_their_role_with_and_without_a_type() {
    for (role, expected, closes) in [
        ("user", Role::User, Closes::Always),
        ("system", Role::System, Closes::Always),
        ("developer", Role::Developer, Closes::Always),
        ("assistant", Role::Assistant, Closes::AfterResult),
        ("tool", Role::Other("tool".into()), Closes::Never),
    ] {
        for kind in ["", r#""type":"message","#, r#""type":null,"#] {
            let message = item(&format!(r#"{{{kind}"role":"{role}","content":"t"}}"#));
            assert_eq!((message.role(), message.index().closes, message.bound()), (&expected, closes, Bound::NONE));
        }
    }
    for json in [r#"{"type":"message","content":"t"}"#, r#"{"content":"t"}"#, r#"{"type":5,"role":"user"}"#, "[]"] {
        assert!(Message::in_dialect(&OpenAiResponses, json).is_err(), "{json}");
    }
}

#[test]
fn a_message_with_its_phase_is_sent_as_it_is_to_its_origin_and_without_its_id_to_another() {
    let json = r#"{ "id":"msg_1", "type":"message","role":"assistant","phase":"final_answer","status":"completed","content":[{"type":"output_text","text":"\u00e4"}]}"#;
    let message = item(json);
    assert_eq!((message.bound(), message.sendable().json()), (Bound::TO_ORIGIN, json));
    let without = json.replace(r#"{ "id":"msg_1", "#, "{");
    assert_eq!(message.unbound().map(Message::json), Some(without.as_str()));
}

#[test]
fn an_empty_reply_is_sent_only_to_the_origin_that_made_it() {
    for content in ["[]", "\"\"", r#"[{"type":"output_text","text":""}]"#] {
        let made = item(&format!(r#"{{"id":"msg_1","type":"message","role":"assistant","content":{content}}}"#));
        assert!(!made.is_blank() && made.unbound().is_none(), "{content}");
        assert!(item(&format!(r#"{{"role":"assistant","content":{content}}}"#)).is_blank(), "{content}");
        assert!(!item(&format!(r#"{{"role":"user","content":{content}}}"#)).is_blank(), "{content}");
    }
}

#[test]
fn reasoning_is_bound_to_its_origin_and_to_the_next_item() {
    for json in [
        r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"s"}"#,
        r#"{"type":"reasoning","summary":[]}"#,
    ] {
        let reasoning = item(json);
        assert_eq!((reasoning.role(), reasoning.bound()), (&Role::Assistant, Bound::TO_ORIGIN.and_next()), "{json}");
        assert_eq!((reasoning.index().closes, reasoning.unbound()), (Closes::AfterResult, None));
        assert_eq!(reasoning.sendable().json(), json, "an empty summary stays");
    }
}

#[test]
fn calls_keep_everything_but_their_id_for_another_origin() {
    for (call, ..) in &CALLS[..7] {
        let asks = item(call);
        assert_eq!(asks.bound(), Bound::TO_ORIGIN, "{call}");
        assert_eq!(asks.unbound().map(Message::json), Some(call.replacen(r#""id":"1","#, "", 1).as_str()));
    }
    let request = item(CALLS[7].0);
    assert_eq!((request.bound(), request.unbound()), (Bound::NONE, Some(&request)), "the response names its id");
}

#[test]
fn calls_that_the_provider_executed_open_nothing_and_belong_to_their_origin() {
    for json in [
        r#"{"id":"1","type":"web_search_call","status":"completed","action":{"type":"search"}}"#,
        r#"{"id":"1","type":"file_search_call","queries":["q"],"results":null}"#,
        r#"{"id":"1","type":"code_interpreter_call","code":"1","container_id":"c","outputs":[]}"#,
        r#"{"id":"1","type":"image_generation_call","result":"AA"}"#,
        r#"{"id":"1","type":"mcp_call","name":"f","arguments":"{}","output":"1","server_label":"s"}"#,
        r#"{"id":"1","type":"mcp_list_tools","tools":[],"server_label":"s"}"#,
        r#"{"id":"1","type":"program","call_id":"x","code":"1","fingerprint":"f"}"#,
        r#"{"id":"1","type":"program_output","call_id":"x","result":"1"}"#,
        r#"{"id":"1","type":"tool_search_call","execution":"server","call_id":null,"arguments":{}}"#,
        r#"{"id":"1","type":"tool_search_output","execution":"server","call_id":"x","tools":[]}"#,
        r#"{"id":"1","type":"tool_search_output","tools":[]}"#,
    ] {
        let call = item(json);
        assert_eq!((call.role(), call.index().closes), (&Role::Assistant, Closes::AfterResult), "{json}");
        assert!(call.tool_calls().is_empty() && call.answers().is_empty() && !call.is_blank(), "{json}");
        assert_eq!((call.bound(), call.unbound()), (Bound::TO_ORIGIN, None), "{json}");
    }
}

#[test]
fn compactions_stand_for_everything_before_them() {
    for kind in ["compaction", "compaction_summary"] {
        let compaction = item(&format!(r#"{{"id":"cmp_1","type":"{kind}","encrypted_content":"sealed"}}"#));
        assert!(compaction.index().restarts && compaction.is_reply());
        assert_eq!((compaction.bound(), compaction.unbound()), (Bound::TO_ORIGIN, None));
        assert_eq!(parts(&compaction), [Part::Sealed(6)]);
    }
    assert!(!item(r#"{"type":"compaction"}"#).index().restarts, "it has no content");
    let trigger = item(r#"{"type":"compaction_trigger"}"#);
    assert!(trigger.is_blank() && !trigger.index().restarts && trigger.index().closes == Closes::Never);
}

#[test]
fn unknown_items_stay_as_they_are() {
    for (json, role) in [
        (r#"{ "type":"new_thing", "call_id":"x" }"#, "new_thing"),
        (r#"{"id":"msg_1"}"#, "item_reference"),
        (r#"{"type":"item_reference","id":"msg_1"}"#, "item_reference"),
        (r#"{"type":"configuration_update","id":"1"}"#, "configuration_update"),
    ] {
        let unknown = item(json);
        assert_eq!((unknown.role(), unknown.index().closes), (&Role::Other(role.into()), Closes::Never), "{json}");
        assert_eq!((unknown.bound(), unknown.sendable().json()), (Bound::NONE, json));
        assert_eq!(parts(&unknown), [Part::Other { kind: role.into(), text: json.into() }]);
    }
}

#[test]
fn parts_of_messages_and_reasoning_are_those_that_models_see() {
    let message = item(
        r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:,A","detail":"low"},
            {"type":"input_image","image_url":"https://x"},{"type":"input_file","file_data":"AA"},
            {"type":"input_audio","input_audio":{"data":"AB"}},{"type":"thing","text":"b"},{"type":"x"},"c"]}"#,
    );
    let media = |media, kind: &'static str, data: Option<&'static str>| Part::Media {
        media,
        kind: kind.into(),
        words: None,
        data: data.map(Into::into),
    };
    let other = |kind: &'static str, text: &'static str| Part::Other { kind: kind.into(), text: text.into() };
    let expected = [
        Part::Text("a".into()),
        media(Media::ImageLowDetail, "input_image", Some("data:,A")),
        media(Media::Image, "input_image", None),
        media(Media::File, "input_file", Some("AA")),
        media(Media::Audio, "input_audio", Some("AB")),
        other("thing", "b"),
        other("x", r#"{"type":"x"}"#),
        other("", "c"),
    ];
    assert_eq!(parts(&message), expected);
    assert_eq!(message.text(), "a");

    let reasoning = item(
        r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"content":[{"type":"reasoning_text","text":"b"}],"encrypted_content":"1234"}"#,
    );
    let expected = [Part::Reasoning("a".into()), Part::Reasoning("b".into()), Part::Sealed(4)];
    assert_eq!(parts(&reasoning), expected);
    let image = item(r#"{"id":"1","type":"image_generation_call","result":"AA"}"#);
    assert_eq!(parts(&image), [media(Media::Image, "image_generation_call", Some("AA"))]);
}

#[test]
fn parts_of_outputs_are_their_texts_and_images() {
    let texts = |json: &str| -> Vec<String> { item(json).texts().into_iter().map(Into::into).collect() };
    for (json, expected) in [
        (r#"{"type":"function_call_output","call_id":"x","output":"a"}"#, vec!["a"]),
        (r#"{"type":"function_call_output","call_id":"x","output":{"a":1.50}}"#, vec![r#"{"a":1.50}"#]),
        (
            r#"{"type":"custom_tool_call_output","call_id":"x","output":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}"#,
            vec!["a", "b"],
        ),
        (
            r#"{"type":"shell_call_output","call_id":"x","output":[{"stdout":"a","stderr":"b"},{"stdout":"","stderr":"c"},"d"]}"#,
            vec!["a", "b", "c", "d"],
        ),
        (r#"{"type":"shell_call_output","call_id":"x","output":[]}"#, vec![""]),
        (r#"{"type":"apply_patch_call_output","call_id":"x","status":"completed"}"#, vec![""]),
    ] {
        assert_eq!(texts(json), expected, "{json}");
    }
    let screenshot = item(CALLS[5].4);
    assert!(matches!(parts(&screenshot)[..], [Part::Media { media: Media::Image, data: Some(_), .. }]));
}

#[test]
fn cleared_outputs_keep_their_form() {
    let cleared = |json: &str| item(json).cleared(&|_| true, "-").map(|message| message.json().to_owned());
    for (json, expected) in [
        (
            r#"{ "type":"function_call_output", "output":[{"type":"input_image","image_url":"x"}],"call_id":"x" }"#,
            Some(r#"{ "type":"function_call_output", "output":"-","call_id":"x" }"#),
        ),
        (
            r#"{"type":"apply_patch_call_output","call_id":"x","status":"completed"}"#,
            Some(r#"{"type":"apply_patch_call_output","call_id":"x","status":"completed","output":"-"}"#),
        ),
        (
            CALLS[4].3,
            Some(
                r#"{"type":"shell_call_output","call_id":"x","output":[{"stdout":"-","stderr":"","outcome":{"type":"exit","exit_code":0}}]}"#,
            ),
        ),
        (CALLS[5].3, Some(CALLS[5].4)),
        (CALLS[2].3, None),
        (CALLS[7].3, None),
    ] {
        assert_eq!(cleared(json).as_deref(), expected, "{json}");
    }
}

#[test]
fn composed_messages_have_their_role() {
    for (role, json) in [
        (Role::User, r#"{"type":"message","role":"user","content":"a\"b"}"#),
        (Role::Assistant, r#"{"type":"message","role":"assistant","content":"a\"b"}"#),
        (Role::System, r#"{"type":"message","role":"system","content":"a\"b"}"#),
        (Role::Tool, r#"{"type":"message","role":"user","content":"a\"b"}"#),
    ] {
        assert_eq!(OpenAiResponses.compose(&role, "a\"b"), json);
    }
}

#[test]
fn stored_records_of_the_dialect_are_indexed_when_they_are_read() {
    let name = crate::message::DialectName::of(&OpenAiResponses);
    let known = crate::message::dialect::known(&name).map(Dialect::name);
    assert_eq!((known, name.as_str()), (Some("openai_responses"), OpenAiResponses::NAME));
}
