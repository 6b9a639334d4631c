//! The provider of the Responses API: each refusal, with its wording, and whole responses.

use serde_json::{Value, json};
use tower_chat_history_test::responses::{CallType, MadeResponse, Reason, Refusal, ResponsesProvider, Say};

const USER: &str = r#"{"role":"user","content":"Is it warm?"}"#;

fn body(items: &[impl AsRef<str>]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!(r#"{{"model":"gpt-5.5","instructions":"Be brief.","tools":[],"input":[{}]}}"#, items.join(","))
}

fn check(items: &[impl AsRef<str>]) -> Result<(), Refusal> {
    ResponsesProvider::new("acme").check(&body(items))
}

/// Returns the reason, the text, and the code of a refusal.
#[track_caller]
fn refused(items: &[impl AsRef<str>]) -> (Reason, String, Option<&'static str>) {
    let refusal = check(items).unwrap_err();
    (refusal.reason().clone(), refusal.to_string(), refusal.code())
}

/// Returns the items of a prompt: a question, and the response to it.
fn asked(script: &[Say]) -> Vec<String> {
    let made = ResponsesProvider::new("acme").reply(&body(&[USER]), script).unwrap();
    [vec![USER.to_owned()], made.output].concat()
}

fn call(kind: CallType) -> Say {
    Say::Call { kind, id: "x".into(), name: "look".into(), arguments: "{}".into() }
}

#[test]
fn a_whole_conversation_is_accepted() {
    let provider = ResponsesProvider::new("acme");
    let mut items = vec![USER.to_owned()];
    let script = [
        Say::reasoning(),
        Say::Message { text: "I look.".into(), phase: Some("commentary") },
        Say::Reasoning(vec!["Hm.".into()]),
        Say::reasoning(),
        call(CallType::Function),
        call(CallType::Custom),
        Say::WebSearch,
        Say::Unknown,
    ];
    for script in [&script[..], &[Say::reasoning(), Say::text("12 degrees.")], &[Say::Refusal("No.".into())]] {
        let made = provider.reply(&body(&items), script).unwrap();
        assert_eq!(MadeResponse::items(&made.body()).unwrap(), made.output);
        items.extend(made.output.iter().cloned());
        items.extend(made.answers("12 degrees"));
        items.push(USER.to_owned());
    }
    assert_eq!(provider.check(&body(&items)), Ok(()));
}

#[test]
fn reasoning_needs_the_item_after_it() {
    let items = asked(&[Say::reasoning(), Say::text("a"), Say::text("b")]);
    let text = "Item 'rs_000001i0' of type 'reasoning' was provided without its required following item.";
    let expected = (Reason::MissingNext { position: 1 }, text.to_owned(), None);
    assert_eq!(refused(&items[..2]), expected, "at the end");
    assert_eq!(refused(&[&items[0], &items[1], USER]), expected, "before the user");
    assert_eq!(refused(&[&items[0], &items[1], &items[3]]), expected, "before another item");
    let anonymous = r#"{"role":"assistant","content":"a"}"#;
    assert_eq!(check(&[&items[0], &items[1], anonymous]), Ok(()), "an item without id");
}

#[test]
fn an_item_needs_the_reasoning_before_it() {
    let items = asked(&[Say::reasoning(), call(CallType::Function), Say::text("a")]);
    let output = r#"{"type":"function_call_output","call_id":"x","output":"r"}"#;
    let text = "Item 'fc_000001i1r0' of type 'function_call' was provided without its required 'reasoning' item: \
                'rs_000001i0'.";
    let expected = (Reason::MissingReasoning { position: 1 }, text.to_owned(), None);
    assert_eq!(refused(&[&items[0], &items[2], output]), expected);
    let mut without: Value = serde_json::from_str(&items[2]).unwrap();
    without.as_object_mut().unwrap().remove("id");
    assert_eq!(check(&[&items[0], &without.to_string(), output]), Ok(()));
    assert_eq!(check(&[&items[0], &items[3]]), Ok(()), "it was not directly after reasoning");
}

#[test]
fn reasoning_keeps_its_summary_and_its_encrypted_content() {
    let items = asked(&[Say::reasoning(), Say::text("a")]);
    let without = |field: &str| {
        let mut item: Value = serde_json::from_str(&items[1]).unwrap();
        item.as_object_mut().unwrap().remove(field);
        refused(&[items[0].clone(), item.to_string(), items[2].clone()])
    };
    let missing = "Missing required parameter: 'input[1].summary'.".to_owned();
    let field = Reason::MissingField { position: 1 };
    assert_eq!(without("summary"), (field, missing, Some("missing_required_parameter")));
    let not_stored = Reason::NotStored { position: 1 };
    let text = "Item with id 'rs_000001i0' not found. Items are not persisted when `store` is set to false. Try again \
                with `store` set to true, or remove this item from your input.";
    assert_eq!(without("encrypted_content"), (not_stored, text.to_owned(), None));
    let reference = check(&[r#"{"id":"rs_1"}"#]).unwrap_err();
    assert_eq!((reference.status(), reference.reason()), (404, &Reason::NotStored { position: 0 }));
}

#[test]
fn items_that_keep_their_ids_for_other_providers_have_different_ids() {
    for output in [call(CallType::McpApproval), Say::Unknown] {
        let items = ["one", "two"].map(|name| {
            let made = ResponsesProvider::new(name).reply(&body(&[USER]), &[Say::reasoning(), output.clone()]).unwrap();
            made.output[1].clone()
        });
        assert_ne!(items[0], items[1]);
    }
}

#[test]
fn encrypted_content_of_another_origin_is_refused() {
    for output in [Say::reasoning(), Say::Compaction] {
        let made = ResponsesProvider::new("other").reply(&body(&[USER]), &[output, Say::text("a")]).unwrap();
        let refusal = check(&made.output).unwrap_err();
        assert_eq!(refusal.reason(), &Reason::ForeignContent { position: 0 });
        let error = &refusal.to_json()["error"];
        let expected = json!({"type": "invalid_request_error", "code": "invalid_encrypted_content", "param": null,
            "message": refusal.to_string()});
        assert_eq!((refusal.status(), error), (400, &expected));
        assert!(refusal.to_string().ends_with("Encrypted content could not be decrypted or parsed."), "{refusal}");
    }
}

#[test]
fn each_call_has_one_output_of_its_own_kind() {
    for kind in CallType::ALL {
        let made = ResponsesProvider::new("acme").reply(&body(&[USER]), &[call(kind)]).unwrap();
        let (call, answer) = (made.output[0].clone(), made.answers("r").remove(0));
        assert_eq!(check(&[&call, &answer]), Ok(()), "{kind:?}");
        assert_eq!(check(&[&call, USER, &answer]), Ok(()), "{kind:?}");
        let unanswered = Reason::UnansweredCall { position: 0 };
        assert_eq!(check(&[&call, USER]).unwrap_err().reason(), &unanswered, "{kind:?}");
        for items in [[&answer, &call, &answer], [&call, &answer, &answer]] {
            let refusal = check(&items).unwrap_err();
            assert!(matches!(refusal.reason(), Reason::UnknownCall { .. }), "{kind:?}: {refusal}");
        }
        for other in CallType::ALL.into_iter().filter(|other| *other != kind) {
            let made = ResponsesProvider::new("acme").reply(&body(&[USER]), &[self::call(other)]).unwrap();
            assert!(check(&[&call, &made.answers("r")[0]]).is_err(), "{kind:?} and {other:?}");
        }
    }
    let wording = |items: &[&str]| refused(items).1;
    let call = r#"{"type":"custom_tool_call","call_id":"x","name":"f","input":""}"#;
    assert_eq!(wording(&[call]), "No tool output found for custom tool call x.");
    let output = r#"{"type":"function_call_output","call_id":"x","output":""}"#;
    assert_eq!(wording(&[call, output]), "No tool call found for function call output with call_id x.");
}

#[test]
fn malformed_requests_are_refused() {
    let reason = |body: &str| ResponsesProvider::new("acme").check(body).unwrap_err().reason().clone();
    for text in ["", "[]", "{", r#"{"input":5}"#] {
        let expected = if text == "[]" { Reason::Empty } else { Reason::Unreadable };
        assert_eq!(reason(text), expected, "{text}");
    }
    assert_eq!(reason("{}"), Reason::Empty);
    assert_eq!(reason(r#"{"input":[]}"#), Reason::Empty);
    assert_eq!(reason(r#"{"input":"Hi","previous_response_id":"resp_1"}"#), Reason::PreviousResponse);
    let missing = |item: &str, field: &str| {
        let (reason, text, _) = refused(&[item]);
        assert_eq!(reason, Reason::MissingField { position: 0 }, "{item}");
        assert_eq!(text, format!("Missing required parameter: 'input[0].{field}'."));
    };
    missing("{}", "type");
    missing(r#"{"type":"function_call","name":"f","arguments":""}"#, "call_id");
    missing(r#"{"type":"mcp_approval_response","approve":true}"#, "approval_request_id");
    let invalid = Reason::InvalidValue { position: 0 };
    let (reason, text, code) = refused(&[r#"{"role":"tool","content":""}"#]);
    assert_eq!((reason, code), (invalid.clone(), Some("invalid_value")));
    assert_eq!(text, "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.");
    assert_eq!(refused(&[r#"{"id":"","role":"assistant","content":""}"#]).0, invalid);
}
