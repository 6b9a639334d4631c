//! Tests of the chat rules.

use tower_chat_history_core::Message;

use super::{RuleViolation, check_chat_rules, check_ids};

fn calls(ids: &[&str]) -> Message {
    let calls: Vec<_> = ids
        .iter()
        .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":""}}}}"#))
        .collect();
    Message::from_json(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))).unwrap()
}

fn result(id: &str) -> Message {
    Message::tool(id, "done")
}

#[test]
fn parallel_calls_are_answered_in_any_order_and_ids_may_repeat() {
    let prompt = [
        Message::system("s"),
        Message::user("u"),
        calls(&["a", "b"]),
        result("b"),
        result("a"),
        calls(&["a"]),
        result("a"),
        Message::assistant("done"),
    ];
    assert_eq!(check_chat_rules(&prompt), Ok(()));
}

#[test]
fn a_result_follows_its_open_call() {
    let orphan = |position, id: &str| Err(RuleViolation::OrphanResult { position, id: id.into() });
    assert_eq!(check_chat_rules(&[result("a")]), orphan(0, "a"));
    assert_eq!(check_chat_rules(&[calls(&["a"]), result("b")]), orphan(1, "b"));
    assert_eq!(check_chat_rules(&[calls(&["a"]), result("a"), result("a")]), orphan(2, "a"));
    let late = [calls(&["a"]), result("a"), Message::user("u"), result("a")];
    assert_eq!(check_chat_rules(&late), orphan(3, "a"));
}

#[test]
fn every_call_is_answered_before_anything_else() {
    let open = |ids: &[&str]| {
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        Err(RuleViolation::UnansweredCalls { position: 1, ids })
    };
    let u = || Message::user("u");
    assert_eq!(check_chat_rules(&[u(), calls(&["a", "b"]), result("a")]), open(&["b"]));
    assert_eq!(check_chat_rules(&[u(), calls(&["a", "b"]), u(), result("a"), result("b")]), open(&["a", "b"]));
}

#[test]
fn calls_and_results_have_ids() {
    let of = |json: &str| check_chat_rules(&[Message::from_json(json).unwrap()]);
    let call = r#"{"id":"x","type":"function","function":{"name":"f","arguments":""}}"#;
    for bad in ["null", "{}", r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":7}"#, "\"x\""] {
        let json = format!(r#"{{"role":"assistant","content":"t","tool_calls":[{call},{bad}]}}"#);
        assert_eq!(of(&json), Err(RuleViolation::MissingCallId { position: 0, call: 1 }), "{bad}");
    }
    let odd = r#"{"role":"assistant","content":"t","tool_calls":"odd"}"#;
    assert_eq!(of(odd), Err(RuleViolation::CallsNotArray { position: 0 }));
    assert_eq!(of(r#"{"role":"assistant","content":"t","tool_calls":null}"#), Ok(()));
    for id in ["null", "\"\"", "7"] {
        let json = format!(r#"{{"role":"tool","content":"r","tool_call_id":{id}}}"#);
        assert_eq!(of(&json), Err(RuleViolation::MissingResultId { position: 0 }), "{id}");
    }
}

#[test]
fn blank_replies_and_empty_lists_are_refused() {
    assert_eq!(check_chat_rules(&[]), Err(RuleViolation::Empty));
    assert_eq!(check_chat_rules(&[calls(&[])]), Err(RuleViolation::EmptyToolCalls { position: 0 }));
    let blank = Message::from_json(r#"{"role":"assistant","content":null}"#).unwrap();
    assert_eq!(check_chat_rules(&[Message::user("u"), blank]), Err(RuleViolation::BlankReply { position: 1 }));
    let refusal = Message::from_json(r#"{"role":"assistant","refusal":"no"}"#).unwrap();
    assert_eq!(check_chat_rules(&[refusal]), Ok(()));
}

#[test]
fn ids_of_openai_are_used_once_in_a_reply_and_have_at_most_64_characters() {
    let twice = [calls(&["a", "a"]), result("a"), result("a")];
    let repeated = RuleViolation::RepeatedResult { position: 2, first: 1, id: "a".into() };
    assert_eq!((check_chat_rules(&twice), check_ids(&twice)), (Ok(()), Err(repeated)));
    let unanswered = RuleViolation::UnansweredCalls { position: 0, ids: vec!["a".into()] };
    assert_eq!(check_chat_rules(&twice[..2]), Err(unanswered));
    let later = [calls(&["a"]), result("a"), calls(&["a"]), result("a")];
    assert_eq!(check_ids(&later), Ok(()));
    let of = |id: &str| {
        let messages = [calls(&["b", id]), result(id), result("b")];
        (check_chat_rules(&messages), check_ids(&messages))
    };
    assert_eq!(of(&"x".repeat(64)), (Ok(()), Ok(())));
    let long = RuleViolation::LongCallId { position: 0, call: 1, length: 65 };
    assert_eq!(of(&"x".repeat(65)), (Ok(()), Err(long)));
}

#[test]
fn contents_are_neither_null_nor_empty_lists_but_can_be_empty_texts() {
    let of = |json: &str| check_chat_rules(&[Message::from_json(json).unwrap()]);
    for role in ["system", "developer", "user", "assistant"] {
        assert_eq!(of(&format!(r#"{{"role":"{role}","content":""}}"#)), Ok(()), "{role}");
        let empty = RuleViolation::EmptyContent { position: 0 };
        assert_eq!(of(&format!(r#"{{"role":"{role}","content":[ ]}}"#)), Err(empty), "{role}");
    }
    let missing = Err(RuleViolation::MissingContent { position: 0 });
    for json in [r#"{"role":"user","content":null}"#, r#"{"role":"user"}"#, r#"{"role":"function","name":"f"}"#] {
        assert_eq!(of(json), missing, "{json}");
    }
    let result = Message::from_json(r#"{"role":"tool","tool_call_id":"a"}"#).unwrap();
    let missing = RuleViolation::MissingContent { position: 1 };
    assert_eq!(check_chat_rules(&[calls(&["a"]), result]), Err(missing));
    let deep = format!(r#"{{"role":"user","content":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(of(&deep), Ok(()));
}

#[test]
fn unknown_roles_are_refused() {
    let of = |role: &str| {
        check_chat_rules(&[Message::from_json(format!(r#"{{"role":"{role}","name":"f","content":"c"}}"#)).unwrap()])
    };
    for role in ["system", "developer", "user", "assistant", "function"] {
        assert_eq!(of(role), Ok(()), "{role}");
    }
    let refused = of("robot").unwrap_err();
    assert_eq!(refused, RuleViolation::UnknownRole { position: 0, role: "robot".into() });
    assert!(refused.to_string().starts_with("Invalid value: 'robot'. Supported values are: 'system', 'assistant',"));
}
