//! The elements of the signing provider's dialect.

use tower_chat_history_core::{Bound, Closes, Dialect, DialectName, OpenCalls, Part, Role};

use super::*;

#[test]
fn elements_have_the_index_of_their_kind() {
    let table = [
        (SYSTEM.to_owned(), Role::System, Closes::Always, Bound::NONE),
        (USER.to_owned(), Role::User, Closes::Always, Bound::NONE),
        (results(&[(F, "x")]), Role::Tool, Closes::Never, Bound::NONE),
        (answer(&[(F, "x")], Some("t")), Role::User, Closes::Always, Bound::NONE),
        (TEXT.to_owned(), Role::Assistant, Closes::AfterResult, Bound::NONE),
        (call(G, "x"), Role::Assistant, Closes::AfterResult, Bound::NONE),
        (PLAN.to_owned(), Role::Assistant, Closes::AfterResult, Bound::NONE.and_next()),
        (UNKNOWN.to_owned(), Role::Other("?".into()), Closes::Never, Bound::NONE),
        (Say::Thought("t".into()).to_json(), Role::Assistant, Closes::AfterResult, Bound::TO_PREFIX),
        (Say::Sealed("t".into()).to_json(), Role::Assistant, Closes::AfterResult, Bound::TO_ORIGIN),
    ];
    for (json, role, closes, bound) in table {
        let index = element(json.as_str()).index().clone();
        assert_eq!((index.role, index.closes, index.bound), (role, closes, bound), "{json}");
    }
}

/// A reply's element by itself.
trait ToJson {
    fn to_json(self) -> String;
}

impl ToJson for Say {
    fn to_json(self) -> String {
        SigningProvider::new("acme").reply(head(), &[element(USER)], &[self]).unwrap()[0].json().to_owned()
    }
}

#[test]
fn texts_that_are_not_elements_are_errors() {
    for json in [
        "1",
        "{}",
        r#"{"from":1}"#,
        r#"{"from":"user","from":"user"}"#,
        r#"{"from":"user","text":1}"#,
        r#"{"from":"user","results":[{"to":"x","kind":"h","text":""}]}"#,
        r#"{"from":"user","thinking":"t"}"#,
        r#"{"from":"system","results":[]}"#,
        r#"{"from":"model","results":[]}"#,
    ] {
        assert!(Message::in_dialect(&SigningDialect, json).is_err(), "{json}");
    }
}

#[test]
fn answering_keeps_the_first_results_of_each_kind() {
    let both = r#"{"from":"user","mark":1.50,"results":[{"to":"x","kind":"f","text":"1"},{"to":"x","kind":"g","text":"2"},{"to":"x","kind":"f","text":"3"}],"text":"t"}"#;
    let both = element(both);
    let kept = |calls: &[CallId]| both.answering(calls).map(|message| message.json().to_owned());
    let text = r#"{"from":"user","mark":1.50,"text":"t"}"#;
    assert_eq!(kept(&[]).as_deref(), Some(text));
    let first = r#"{"from":"user","mark":1.50,"results":[{"to":"x","kind":"f","text":"1"}],"text":"t"}"#;
    assert_eq!(kept(&[id(F, "x")]).as_deref(), Some(first));
    let of_g = r#"{"from":"user","mark":1.50,"results":[{"to":"x","kind":"g","text":"2"}],"text":"t"}"#;
    assert_eq!(kept(&[id(G, "x")]).as_deref(), Some(of_g));
    assert_eq!(kept(both.answers()).as_deref(), Some(both.json()));
    assert_eq!(element(results(&[(F, "x")])).answering(&[]), None);
}

#[test]
fn clearing_replaces_texts_of_one_kind() {
    let both = element(answer(&[(F, "x"), (G, "x")], Some("t")));
    let cleared = both.cleared(&|call| call.space() == G, "[\"cleared\"]").unwrap();
    let expected = r#"{"from":"user","results":[{"to":"x","kind":"f","text":"r"},{"to":"x","kind":"g","text":"[\"cleared\"]"}],"text":"t"}"#;
    assert_eq!(cleared.json(), expected);
    assert_eq!(both.cleared(&|_| false, "-"), None);
    assert_eq!(element(USER).cleared(&|_| true, "-"), None);
}

#[test]
fn empty_fields_are_not_sent() {
    let sent = |json: &str| element(json).sendable().json().to_owned();
    assert_eq!(sent(r#"{"from":"user","results":[],"text":"t"}"#), r#"{"from":"user","text":"t"}"#);
    let thought = r#"{"from":"model","thinking":"","signature":"s","text":""}"#;
    assert_eq!(sent(thought), r#"{"from":"model","thinking":"","signature":"s"}"#);
    assert_eq!(element(thought).unbound(), None);
    assert_eq!(sent(USER), USER);
}

#[test]
fn abandoned_results_and_composed_texts_are_elements() {
    let mut open = OpenCalls::of(&element(call(G, "x")));
    let abandoned: Vec<Message> = open.abandoned().collect();
    assert_eq!(abandoned[0].answers(), [id(G, "x")]);
    assert_eq!(open.answer_all(&abandoned[0]), Ok(()));
    assert_ne!(SigningDialect.abandoned(&id(F, "x")), SigningDialect.abandoned(&id(G, "x")));
    for (role, expected) in [(Role::System, Role::User), (Role::User, Role::User), (Role::Assistant, Role::Assistant)] {
        let composed = Message::compose(&SigningDialect, &role, "\"t\"").unwrap();
        assert_eq!(composed.role(), &expected);
        composed.parts(&mut |part| assert_eq!(part, Part::Text("\"t\"".into())));
    }
    assert!(DialectName::try_from(SigningDialect.name().to_owned()).is_ok());
}

#[test]
fn parts_are_visited_in_order() {
    let parts = |json: &str| {
        let mut parts = Vec::new();
        element(json).parts(&mut |part| parts.push(format!("{part:?}")));
        parts
    };
    let both = answer(&[(F, "x"), (G, "x")], Some("text"));
    assert_eq!(parts(&both), [r#"Result("x", 1 bytes)"#, r#"Result(1/"x", 1 bytes)"#, "Text(4 bytes)"]);
    let thought = r#"{"from":"model","thinking":"t","signature":"abc","text":"text"}"#;
    assert_eq!(parts(thought), ["Reasoning(1 bytes)", "Sealed(3 bytes)", "Text(4 bytes)"]);
    assert_eq!(parts(PLAN), ["Reasoning(10 bytes)"]);
    assert_eq!(parts(&call(F, "x")).len(), 1);
    assert_eq!(parts(UNKNOWN), [format!("Other({} bytes)", UNKNOWN.len())]);
}
