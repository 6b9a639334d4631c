//! Tests of messages.

use serde_json::json;

use super::dialect::ToolCall;
use super::*;

#[test]
fn constructors_index_what_parsing_would() {
    let text = "He said \"hi\"\n\u{0}ä\u{1F600}";
    for message in [
        Message::user(text),
        Message::assistant(text),
        Message::assistant(""),
        Message::system(text),
        Message::developer(""),
        Message::tool("call \"1\"", text),
    ] {
        let parsed = Message::from_json(message.json()).unwrap();
        assert_eq!(parsed.index(), message.index(), "{message:?}");
        assert_eq!(parsed.text(), message.text());
    }
}

#[test]
fn json_is_kept_verbatim() {
    let json = "{ \"z\":1.50, \"role\" : \"user\",\"content\":[{\"type\":\"video_url\",\"x\":[1e3]},{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],\n\"cache_control\":{} }";
    let message = Message::from_json(format!(" \n{json}\t")).unwrap();
    assert_eq!(message.json(), json);
    assert_eq!(serde_json::to_string(&[&message]).unwrap(), format!("[{json}]"));
    assert_eq!(serde_json::from_str::<Vec<Message>>(&format!("[{json}]")).unwrap()[0].json(), json);
    assert_eq!(message.text(), "ab");
}

#[test]
fn calls_with_any_arguments_are_opaque() {
    let json = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{not json"}},
        {"id":"b","type":"function","function":{"name":"g","arguments":{"x":1}}},
        {"id":"c","type":"custom","custom":{"name":"h","input":"free text"}}]}"#;
    let message = Message::from_json(json).unwrap();
    let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), c.name(), c.arguments())).collect();
    assert_eq!(calls, [("a", "f", "{not json"), ("b", "g", r#"{"x":1}"#), ("c", "h", "free text")]);
    assert!(!message.is_blank());
}

#[test]
fn lone_surrogates_and_nul_are_kept() {
    let json = r#"{"role":"user","content":"\ud83d \u0000 \u00e4"}"#;
    let message = Message::from_json(json).unwrap();
    assert_eq!(message.json(), json);
    assert!(message.text().contains('\u{fffd}') && message.text().contains('\0'));
}

#[test]
fn invalid_messages_are_refused_without_quoting_them() {
    for wrong in ["", "secret", "[]", "{}", r#"{"role":1}"#, r#"{"role":"secret"#, r#"{"content":"secret"}"#] {
        let error = Message::from_json(wrong).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn unknown_fields_are_noticed() {
    let json = r#"{"role":"assistant","content":"a","refusal":null,"audio":null,"tool_calls":null,"function_call":null,"name":"n","tool_call_id":"t"}"#;
    assert!(!Message::from_json(json).unwrap().has_unknown_fields());
    assert!(Message::from_json(json.replace("}", ",\"reasoning_content\":\"x\"}")).unwrap().has_unknown_fields());
    let with_call =
        |call: &str| Message::from_json(format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#)).unwrap();
    let function = r#""function":{"name":"f","arguments":""}"#;
    assert!(!with_call(&format!(r#"{{"id":"x","type":"function",{function}}}"#)).has_unknown_fields());
    assert!(with_call(&format!(r#"{{"id":"x",{function},"extra_content":{{}}}}"#)).has_unknown_fields());
    assert!(with_call(&format!(r#"{{"id":"x","function":[],{function}}}"#)).has_unknown_fields(), "it is repeated");
    assert!(with_call(r#"{"id":"x","function":{"name":"f"}}"#).has_unknown_fields(), "it lacks the arguments");
}

#[test]
fn debug_shows_no_text() {
    let shown = format!("{:?} {:?}", Message::user("secret"), Message::user("secret").content());
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn only_an_empty_call_list_is_removed_for_sending() {
    let message = Message::from_json(r#"{"role":"assistant","content":"\ud83d","x":1.0,"tool_calls":[]}"#).unwrap();
    assert_eq!(message.sendable().json(), r#"{"content":"\ufffd","role":"assistant","x":1.0}"#);
    let other = Message::user("x");
    assert_eq!(other.sendable().as_ref(), &other);
}

#[test]
fn lone_surrogates_are_sent_as_replacement_characters_in_every_dialect() {
    let dialects: [(&'static dyn Dialect, &str); 6] = [
        (&ChatCompletions, r#"{"role":"assistant", "content":"TEXT", "x":1.50}"#),
        (&ChatCompletions, r#"{"role":"tool","tool_call_id":"TEXT","content":"TEXT"}"#),
        (&AnthropicMessages, r#"{"role":"assistant", "content":[{"type":"text", "text":"TEXT"}]}"#),
        (
            &AnthropicMessages,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"TEXT","name":"f","input":{"TEXT":1.50}}]}"#,
        ),
        (&OpenAiResponses, r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"TEXT"}]}"#),
        (&OpenAiResponses, r#"{"type":"function_call_output","call_id":"TEXT", "output":"TEXT"}"#),
    ];
    for (dialect, template) in dialects {
        for (text, sent) in [
            (r"ab\ud83d", r"ab\ufffd"),
            (r"\uD83D\u0041\uDe00", r"\ufffd\u0041\ufffd"),
            (r"\ud83d\ud83d\ude00\ude00", r"\ufffd\ud83d\ude00\ufffd"),
            (r"\\\ud83d", r"\\\ufffd"),
        ] {
            let message = Message::in_dialect(dialect, template.replace("TEXT", text)).unwrap();
            let sendable = message.sendable();
            assert!(message.index().is_rewritten && !sendable.index().is_rewritten, "{}", message.json());
            assert_eq!(sendable.json(), template.replace("TEXT", sent));
            assert_eq!((sendable.answers(), sendable.role()), (message.answers(), message.role()));
            let [ids, own] =
                [&*sendable, &message].map(|it| it.tool_calls().first().map(|call| call.call_id().clone()));
            assert_eq!(ids, own, "a result names the call that is sent");
        }
        for text in [r"\ud83d\ude00", r"\\ud83d", r"\uD83D\uDE00 \u00e4"] {
            let message = Message::in_dialect(dialect, template.replace("TEXT", text)).unwrap();
            assert!(!message.index().is_rewritten, "{}", message.json());
            assert_eq!(message.sendable().json(), message.json());
        }
    }
}

proptest::proptest! {
    #[test]
    fn what_is_sent_is_strict_json_and_stays_if_it_was(
        text in r"([a-c ]|ä|\\\\|\\u00e4|\\n|\\ud83d|\\uD83D|\\ude00|\\uDE00|\\ufffd){0,12}",
    ) {
        let json = format!(r#"{{"role":"assistant","{text}":[],"content":"x{text}"}}"#);
        let message = Message::from_json(json).unwrap();
        let sendable = message.sendable();
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).is_ok();
        proptest::prop_assert!(read(sendable.json()), "{}", sendable.json());
        proptest::prop_assert_eq!(read(message.json()), !message.index().is_rewritten);
        proptest::prop_assert_eq!(sendable.json() == message.json(), read(message.json()));
        proptest::prop_assert_eq!(sendable.json().len(), message.json().len());
        proptest::prop_assert_eq!(sendable.text(), message.text());
    }
}

#[test]
fn what_cannot_be_the_content_of_a_reply_is_not_sent() {
    let call = r#"{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    for content in ["5", "[null]", r#"{"a":1}"#, "true", "[1,[]]"] {
        let alone = Message::from_json(format!(r#"{{"role":"assistant","content":{content}}}"#)).unwrap();
        assert!(alone.is_blank() && !alone.index().is_rewritten, "{content}");
        let with_call = |content: &str| {
            let json = format!(r#"{{"role":"assistant", "content":{content},"tool_calls":[ {call}],"x":1.50}}"#);
            Message::from_json(json).unwrap()
        };
        assert_eq!(*with_call(content).sendable(), with_call("null"), "{content}");
        assert_eq!(with_call(content).sendable().sendable(), with_call(content).sendable());
        let result = Message::from_json(format!(r#"{{"role":"user","content":{content}}}"#)).unwrap();
        assert!(!result.index().is_rewritten, "only replies: {content}");
    }
    let some = Message::from_json(r#"{"role":"assistant","content":[null, {"type":"text","text":"t"},"u"]}"#).unwrap();
    assert_eq!(some.sendable().json(), r#"{"role":"assistant","content":[{"type":"text","text":"t"},"u"]}"#);
}

#[test]
fn items_without_a_required_field_are_not_sent() {
    let item = |json: &str| Message::in_dialect(&OpenAiResponses, json).unwrap();
    for json in [
        r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed"}"#,
        r#"{"type":"message","id":"msg_1","role":"assistant","content":null}"#,
        r#"{"type":"message","role":"assistant","content":5}"#,
        r#"{"type":"function_call","call_id":"a","arguments":"{}"}"#,
        r#"{"type":"function_call","call_id":"a","name":"","arguments":"{}"}"#,
        r#"{"type":"custom_tool_call","call_id":"a","input":""}"#,
    ] {
        assert!(item(json).is_blank() && item(json).tool_calls().is_empty(), "{json}");
    }
    let empty = item(r#"{"type":"message","id":"msg_1","role":"assistant","content":[]}"#);
    assert!(!empty.is_blank(), "reasoning may require it");
}

/// Arguments as they came, and as they are sent.
const ARGUMENTS: [(&str, &str); 9] = [
    (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
    (r#"" {} ""#, " {} "),
    (r#""{\"path\":\"a.rs\",\"text\":\"fn ma""#, r#"{"INVALID_JSON":"{\"path\":\"a.rs\",\"text\":\"fn ma"}"#),
    (r#""[1]""#, r#"{"INVALID_JSON":"[1]"}"#),
    ("[1]", r#"{"INVALID_JSON":"[1]"}"#),
    (r#""""#, "{}"),
    (r#"" null""#, "{}"),
    ("null", "{}"),
    ("7", r#"{"INVALID_JSON":"7"}"#),
];

#[test]
fn arguments_are_sent_as_an_object() {
    for (arguments, sent) in ARGUMENTS {
        let call = format!(r#"{{"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#);
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        let message = Message::from_json(json).unwrap();
        assert_eq!(message.sendable().tool_calls()[0].arguments(), sent, "{arguments}");
        assert_eq!(message.index().is_rewritten, message.tool_calls()[0].arguments() != sent || arguments == "null");
        assert_eq!(message.sendable().sendable(), message.sendable());
        assert!(message.json().contains(arguments), "the message itself stays");

        let json = format!(r#"{{"type":"function_call","call_id":"x","name":"f","arguments":{arguments}}}"#);
        let item = Message::in_dialect(&crate::OpenAiResponses, json).unwrap();
        assert_eq!(item.sendable().tool_calls()[0].arguments(), sent, "{arguments}");
        assert_eq!(item.sendable().sendable(), item.sendable());
    }
}

#[test]
fn arguments_that_are_missing_are_sent_as_an_empty_object() {
    let call = r#"{"id":"x","type":"function","function":{"name":"f"},"extra":1.50}"#;
    let json = format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#);
    let sent = r#"{"id":"x","type":"function","function":{"name":"f","arguments":"{}"},"extra":1.50}"#;
    let message = Message::from_json(json).unwrap();
    assert_eq!(message.sendable().json(), format!(r#"{{"role":"assistant","tool_calls":[{sent}]}}"#));
    let item = Message::in_dialect(&crate::OpenAiResponses, r#"{"type":"function_call","call_id":"x","name":"f"}"#);
    let sent = r#"{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}"#;
    assert_eq!(item.unwrap().sendable().json(), sent);
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f"}]}"#;
    let sent = r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#;
    assert_eq!(Message::in_dialect(&crate::AnthropicMessages, call).unwrap().sendable().json(), sent);
}

#[test]
fn the_input_of_a_custom_tool_and_arguments_that_are_objects_stay() {
    for json in [
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"custom","custom":{"name":"f","input":"free"}}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":{"a":1}}}]}"#,
    ] {
        let message = Message::from_json(json).unwrap();
        assert_eq!(message.sendable().json(), json);
    }
}

#[test]
fn a_reply_of_empty_texts_is_blank() {
    let reply = |content: &str| Message::from_json(format!(r#"{{"role":"assistant","content":{content}}}"#)).unwrap();
    for content in [r#""""#, "null", "[]", r#"[{"type":"text","text":""}]"#] {
        assert!(reply(content).is_blank(), "{content}");
    }
    for content in [r#"" ""#, r#"[{"type":"text","text":""},{"type":"text","text":"a"}]"#, r#"[{"type":"refusal"}]"#] {
        assert!(!reply(content).is_blank(), "{content}");
    }
}

#[test]
fn entries_that_no_result_can_answer_are_no_calls() {
    let good = r#"{"id":"x","type":"function","function":{"name":"f","arguments":"{}"},"extra":1.50}"#;
    let theirs = r#"{"id":"y","type":"web_search","web_search":{}}"#;
    let message = |entries: &str| {
        let json = format!(r#"{{"role":"assistant","content":"t","tool_calls":[{entries}]}}"#);
        Message::from_json(json).unwrap()
    };
    for bad in [
        "null",
        "1",
        "[]",
        "{}",
        r#"{"type":"function"}"#,
        r#"{"type":"function","function":{"name":"f","arguments":""}}"#,
        r#"{"id":null,"function":{"name":"f"}}"#,
        r#"{"id":"","function":{"name":"f"}}"#,
        r#"{"id":7,"function":{"name":"f"}}"#,
        r#"{"id":"x","function":"f"}"#,
        r#"{"id":"x","type":"function"}"#,
    ] {
        let (none, some) = (message(bad), message(&format!("{bad},{good},{theirs}")));
        assert_eq!((none.tool_calls().len(), none.is_blank()), (0, false), "{bad}");
        assert_eq!(none.sendable().json(), r#"{"content":"t","role":"assistant"}"#, "{bad}");
        let sent = format!(r#"{{"content":"t","role":"assistant","tool_calls":[{good},{theirs}]}}"#);
        assert_eq!(some.sendable().json(), sent, "{bad}");
        let ids: Vec<&str> = some.tool_calls().iter().map(ToolCall::id).collect();
        assert_eq!(ids, ["x", "y"], "{bad}");
        assert_eq!(some.sendable().sendable(), some.sendable(), "{bad}");
        assert!(Message::from_json(none.json().replace("\"t\"", "null")).unwrap().is_blank(), "{bad}");
    }
    let odd = Message::from_json(r#"{"role":"assistant","content":"t","tool_calls":{"id":"x"}}"#).unwrap();
    assert_eq!(odd.sendable().json(), r#"{"content":"t","role":"assistant"}"#);
    let null = Message::from_json(r#"{"role":"assistant","content":"t","tool_calls":null}"#).unwrap();
    assert_eq!(null.sendable().as_ref(), &null);
    let number = Message::from_json(r#"{"role":"tool","content":"r","tool_call_id":7}"#).unwrap();
    assert_eq!(number.tool_call_id(), None);
}

#[test]
fn a_reply_without_content_is_blank() {
    for blank in ["null", "\"\"", "[]", "[ ]"] {
        let message = Message::from_json(format!(r#"{{"role":"assistant","content":{blank}}}"#)).unwrap();
        assert!(message.is_blank(), "{}", message.json());
    }
    for said in [
        json!({"content": "x"}),
        json!({"refusal": "no"}),
        json!({"audio": {"id": "a"}}),
        json!({"function_call": {"name": "f", "arguments": ""}}),
    ] {
        let mut fields = said;
        fields["role"] = "assistant".into();
        assert!(!Message::try_from(fields.clone()).unwrap().is_blank(), "{fields}");
    }
    assert!(!Message::user("").is_blank());
}

#[test]
fn a_message_with_bound_reasoning_counts_with_its_copies() {
    let said = "x".repeat(10_000);
    let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
    let signed = format!(r#"{{"role":"assistant","content":[{thinking},{{"type":"text","text":"{said}"}}]}}"#);
    let sealed = format!(r#"{{"type":"reasoning","summary":[],"encrypted_content":"{said}"}}"#);
    let plain = Message::assistant(&said);
    let signed = Message::in_dialect(&AnthropicMessages, signed).unwrap();
    let sealed = Message::in_dialect(&OpenAiResponses, sealed).unwrap();
    assert!((10_000..11_000).contains(&plain.memory()));
    assert!((20_000..22_000).contains(&sealed.memory()), "bound to its origin");
    assert!((30_000..33_000).contains(&signed.memory()), "bound to its prompt, too");
    let [one, other] = [signed.unbound().unwrap(), signed.unbound_from_prompt().unwrap()];
    assert_ne!(one.json().as_ptr(), other.json().as_ptr(), "two copies");
}

#[test]
fn the_estimate_of_a_message_that_is_read_later_stays_and_includes_its_copies() {
    let thinking = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
    let input = "x".repeat(10_000);
    let call = format!(r#"{{"type":"tool_use","id":"1","name":"f","input":{{"a":"{input}"}}}}"#);
    let json = format!(r#"{{"role":"assistant","content":[{thinking},{call}]}}"#);
    let read = Message::in_dialect(&AnthropicMessages, &json).unwrap();
    let later = Message::unread(json.into());
    let before = later.memory();
    later.read_in(&AnthropicMessages).unwrap();
    assert_eq!(later.memory(), before, "stores add and subtract it");
    assert!((read.memory()..read.memory() * 2).contains(&before), "{before}, and {} if read", read.memory());
}

/// A dialect that is read as that of Anthropic, but has a digest of its own.
#[derive(Debug)]
struct OwnDigest;

impl Dialect for OwnDigest {
    fn name(&self) -> &'static str {
        "test/own-digest"
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        AnthropicMessages.index(json)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        AnthropicMessages.parts(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        AnthropicMessages.compose(role, text)
    }

    fn abandoned(&self, call: &CallId) -> String {
        AnthropicMessages.abandoned(call)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        AnthropicMessages.cleared(message, clears, placeholder)
    }

    fn digest(&self, _: &str) -> Digest {
        Digest::of(b"own")
    }
}

#[test]
fn a_dialect_that_shares_an_index_has_its_own_digest() {
    let json = r#"{"role":"user","content":"u"}"#;
    assert_eq!(Message::in_dialect(&OwnDigest, json).unwrap().digest(), Digest::of(b"own"));

    let unread = Message::unread(json.into());
    unread.read_in(&OwnDigest).unwrap();
    assert_eq!(unread.digest(), Digest::of(b"own"));
}
