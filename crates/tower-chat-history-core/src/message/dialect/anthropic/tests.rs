//! Tests of the rules of Anthropic's API.

use serde_json::{Value, json};

use crate::{
    digest::Digest,
    message::{AnthropicMessages, Bound, CallId, Closes, Dialect as _, Media, Message, Part, Role, Space},
    provenance::Origin,
    rounds::{Placed, Rounds},
};

fn message(json: &Value) -> Message {
    Message::in_dialect(&AnthropicMessages, json.to_string()).unwrap()
}

fn user(content: &Value) -> Message {
    message(&json!({"role": "user", "content": content}))
}

fn reply(content: &Value) -> Message {
    message(&json!({"role": "assistant", "content": content}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "1"})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}})
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "Hm.", "signature": "sss"})
}

fn redacted() -> Value {
    json!({"type": "redacted_thinking", "data": "dd"})
}

fn content(message: &Message) -> Value {
    serde_json::from_str::<Value>(message.json()).unwrap()["content"].take()
}

fn id(id: &str) -> CallId {
    CallId::new(Space::DEFAULT, id)
}

fn parts(message: &Message) -> Vec<String> {
    let mut parts = Vec::new();
    message.parts(&mut |part| {
        parts.push(match part {
            Part::Text(text) => format!("text {text}"),
            Part::Reasoning(text) => format!("reasoning {text}"),
            Part::Sealed(bytes) => format!("sealed {bytes}"),
            Part::Call(call) => format!("call {} {}", call.name(), call.arguments()),
            Part::OtherCall { name, arguments } => format!("other call {name} {arguments}"),
            Part::Result { call, text } => format!("result {} {text}", call.as_str()),
            Part::Media { media, data, .. } => format!("{media:?} {}", data.unwrap_or_default()),
            Part::Other { kind, text } => format!("other {kind} {text}"),
            part => format!("{part:?}"),
        });
    });
    parts
}

/// Asserts that the message is sent with this content.
fn assert_sent(message: &Message, expected: &Value) {
    assert_eq!(content(&message.sendable()), *expected, "{}", message.json());
    assert_eq!(message.index().is_rewritten, content(message) != *expected, "{}", message.json());
    assert!(!message.is_blank(), "{}", message.json());
    assert_eq!(message.sendable().bound(), message.bound());
}

#[test]
fn the_roles_are_those_of_the_speakers_and_a_message_of_results_is_one_of_tools() {
    for (content, role, closes) in [
        (json!("Hi"), Role::User, Closes::Always),
        (json!([text("Hi")]), Role::User, Closes::Always),
        (json!([result("x")]), Role::Tool, Closes::Never),
        (json!([result("x"), result("y")]), Role::Tool, Closes::Never),
        (json!([result("x"), text("")]), Role::Tool, Closes::Never),
        (json!([result("x"), text("Hi")]), Role::User, Closes::Always),
        (json!([{"type": "tool_result", "content": "1"}]), Role::Tool, Closes::Never),
    ] {
        let message = user(&content);
        assert_eq!((message.role(), message.index().closes), (&role, closes), "{content}");
    }
    let reply = reply(&json!("Hi"));
    assert_eq!((reply.role(), reply.index().closes), (&Role::Assistant, Closes::Always));
    let system = message(&json!({"role": "system", "content": "Hi"}));
    assert_eq!((system.role(), system.index().closes), (&Role::System, Closes::Always));
    let unknown = message(&json!({"role": "tool", "content": [result("x")]}));
    assert_eq!((unknown.role(), unknown.index().closes), (&Role::Other("tool".into()), Closes::Never));
    assert!(Message::in_dialect(&AnthropicMessages, r#"{"content":"Hi"}"#).is_err());
    assert!(Message::in_dialect(&AnthropicMessages, "[]").is_err());
}

#[test]
fn calls_and_results_are_blocks() {
    let asked = reply(&json!([text("Wait."), call("x"), call("y")]));
    let calls: Vec<(&str, &str, &str)> =
        asked.tool_calls().iter().map(|call| (call.id(), call.name(), call.arguments())).collect();
    assert_eq!(calls, [("x", "f", r#"{"a":1}"#), ("y", "f", r#"{"a":1}"#)]);
    assert_eq!(user(&json!([result("x"), result("y"), text("Hi")])).answers(), [id("x"), id("y")]);
    assert!(user(&json!([call("x")])).tool_calls().is_empty(), "only the model calls");
    assert!(reply(&json!([result("x")])).answers().is_empty(), "only the user answers");
}

#[test]
fn calls_of_the_provider_open_nothing() {
    let blocks = json!([
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "eee", "page_age": null}]},
        {"type": "mcp_tool_use", "id": "m", "name": "g", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "content": [{"type": "text", "text": "2"}]},
        text("Yes."),
    ]);
    let reply = reply(&blocks);
    assert!(reply.tool_calls().is_empty() && reply.answers().is_empty());
    assert_eq!(reply.bound(), Bound::NONE);
    assert_eq!(
        parts(&reply),
        [
            r#"other call web_search {"query":"q"}"#,
            "other web_search_tool_result t",
            "other web_search_tool_result u",
            "sealed 3",
            "other call g {}",
            "other mcp_tool_result 2",
            "text Yes."
        ]
    );
    assert_sent(&reply, &blocks);
}

#[test]
fn signed_and_redacted_thinking_is_bound_to_its_prompt() {
    let made = reply(&json!([thinking(), redacted(), text("a"), thinking(), call("x")]));
    assert_eq!(made.bound(), Bound::TO_PREFIX);
    assert_eq!(content(made.unbound().unwrap()), json!([text("a"), call("x")]));
    assert_eq!(
        parts(&made),
        ["reasoning Hm.", "sealed 3", "sealed 2", "text a", "reasoning Hm.", "sealed 3", r#"call f {"a":1}"#]
    );
    let omitted = reply(&json!([{"type": "thinking", "thinking": "", "signature": "sss"}, text("a")]));
    assert_eq!((omitted.bound(), parts(&omitted)), (Bound::TO_PREFIX, vec!["sealed 3".into(), "text a".into()]));
    assert_sent(&made, &content(&made));
}

#[test]
fn unsigned_thinking_is_bound_to_nothing() {
    for unsigned in [
        json!({"type": "thinking", "thinking": "Hm."}),
        json!({"type": "thinking", "thinking": "Hm.", "signature": ""}),
        json!({"type": "thinking", "thinking": "Hm.", "signature": null}),
    ] {
        let made = reply(&json!([unsigned, text("a")]));
        assert_eq!((made.bound(), made.unbound()), (Bound::NONE, Some(&made)));
        assert_sent(&made, &content(&made));
    }
}

#[test]
fn thinking_does_not_end_a_reply() {
    assert_sent(&reply(&json!([text("a"), thinking(), redacted()])), &json!([text("a")]));
    assert_sent(&reply(&json!([thinking(), text("a"), thinking()])), &json!([thinking(), text("a")]));
    assert_sent(&reply(&json!([thinking(), call("x"), text(""), redacted()])), &json!([thinking(), call("x")]));
    let alone = reply(&json!([thinking(), redacted()]));
    assert!(alone.is_blank() && alone.bound() == Bound::NONE);
}

#[test]
fn a_compaction_is_bound_to_its_origin() {
    let block = json!({"type": "compaction", "content": "So far."});
    let made = reply(&json!([block, text("a")]));
    assert_eq!((made.bound(), made.index().restarts), (Bound::TO_ORIGIN, false));
    assert_eq!(content(made.unbound().unwrap()), json!([text("a")]));
    assert_eq!(parts(&made), ["other compaction So far.", "text a"]);
    assert_eq!(made.unbound_from_prompt(), Some(&made));
    let with_thinking = reply(&json!([block, thinking(), text("a")]));
    assert_eq!(content(with_thinking.unbound_from_prompt().unwrap()), json!([block, text("a")]));
    assert_eq!(content(with_thinking.unbound().unwrap()), json!([text("a")]));
    let alone = reply(&json!([block]));
    assert_sent(&alone, &json!([block]));
    assert_eq!(alone.unbound(), None);
}

#[test]
fn blocks_of_unknown_types_stay_and_are_bound_if_they_are_signed() {
    let later = json!({"type": "later", "x": [1.50]});
    let signed = json!({"type": "later", "signature": "s"});
    let made = reply(&json!([signed, later, text("a")]));
    assert_eq!(made.bound(), Bound::TO_PREFIX);
    assert_eq!(content(made.unbound().unwrap()), json!([later, text("a")]));
    assert_eq!(reply(&json!([later])).bound(), Bound::NONE);
    assert_eq!(user(&json!([signed])).bound(), Bound::NONE, "only the model signs");
    let json = r#"{"role":"user","content": [ {"type":"later", "x":1.50} , {"type":"text","text":"\u0061"}]}"#;
    let kept = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!(kept.sendable().json(), json);
}

#[test]
fn blocks_without_a_required_field_are_not_sent() {
    for unsound in [json!({"text": "x"}), json!({"type": "text"}), json!({"type": 5}), json!(null), json!("x")] {
        let alone = reply(&json!([unsound]));
        assert!(alone.is_blank() && alone.bound() == Bound::NONE, "{unsound}");
        assert_sent(&reply(&json!([unsound, text("a"), call("x")])), &json!([text("a"), call("x")]));
        assert_sent(&user(&json!([result("x"), unsound])), &json!([result("x")]));
    }
    assert!(reply(&json!({"text": "x"})).is_blank() && reply(&json!(5)).is_blank());
}

#[test]
fn empty_texts_are_not_sent() {
    assert_sent(&reply(&json!([thinking(), text(""), call("x")])), &json!([thinking(), call("x")]));
    assert_sent(&user(&json!([text(""), text("a"), text(" ")])), &json!([text("a"), text(" ")]));
    assert_sent(&reply(&json!([thinking(), text("\n\n"), call("x")])), &json!([thinking(), call("x")]));
    for nothing in [json!(""), json!(" "), json!([]), json!([text("")]), json!([text(" \n"), text("")]), json!(null)] {
        let (asked, made) = (user(&nothing), reply(&nothing));
        assert!(asked.is_blank() && made.is_blank(), "{nothing}");
        assert!(!asked.index().is_rewritten && !made.index().is_rewritten, "{nothing}");
    }
    let settings = message(&json!({"role": "system", "content": [], "output_config": {"effort": "low"}}));
    assert!(!settings.is_blank() && !settings.index().is_rewritten);
    assert!(message(&json!({"role": "system", "content": []})).is_blank());
}

#[test]
fn a_system_message_must_be_followed_by_a_reply() {
    let note = message(&json!({"role": "system", "content": "Be brief."}));
    assert!(note.bound().to_next && !note.bound().can_be_removed());
    assert!(!message(&json!({"role": "system", "content": [], "output_config": {}})).bound().to_next);
    let mut rounds = Rounds::default();
    assert_eq!(rounds.push(&note, &[]), Placed::Nowhere);
    assert_eq!(rounds.push(&note, &[reply(&json!([thinking()]))]), Placed::Nowhere);
    assert_ne!(rounds.push(&note, &[reply(&json!("a"))]), Placed::Nowhere);
}

#[test]
fn calls_without_an_id_and_results_without_a_call_are_not_sent() {
    for odd in [
        json!({"type": "tool_use", "name": "f", "input": {}}),
        json!({"type": "tool_use", "id": "", "name": "f", "input": {}}),
        json!({"type": "tool_use", "id": 7, "name": "f", "input": {}}),
        json!({"type": "tool_use", "id": "x", "input": {}}),
    ] {
        let made = reply(&json!([odd, call("y")]));
        assert_sent(&made, &json!([call("y")]));
        assert_eq!(made.tool_calls().len(), 1, "{odd}");
    }
    let orphan = json!({"type": "tool_result", "content": "1"});
    assert_sent(&user(&json!([result("x"), orphan, text("a")])), &json!([result("x"), text("a")]));
    assert!(user(&json!([orphan])).is_blank());
}

#[test]
fn results_are_sent_first() {
    let mixed = user(&json!([text("a"), result("x"), text("b"), result("y")]));
    assert_sent(&mixed, &json!([result("x"), result("y"), text("a"), text("b")]));
    assert_eq!(mixed.answers(), mixed.sendable().answers());
}

#[test]
fn results_have_the_content_that_the_api_accepts() {
    let with = |content: Value| json!({"type": "tool_result", "tool_use_id": "x", "content": content});
    let failed =
        |content: Value| json!({"type": "tool_result", "tool_use_id": "x", "content": content, "is_error": true});
    assert_sent(&user(&json!([with(json!([text(""), text("a")]))])), &json!([with(json!([text("a")]))]));
    assert_sent(&user(&json!([with(json!([text("")]))])), &json!([with(json!(""))]));
    let said = failed(json!("[the call failed, and returned no text]"));
    for empty in [json!(""), json!([]), json!([text("")]), json!(null)] {
        assert_sent(&user(&json!([failed(empty)])), &json!([said]));
    }
    for legal in [json!(""), json!([]), json!("a"), json!([{"type": "image", "source": {}}])] {
        assert_sent(&user(&json!([with(legal.clone())])), &json!([with(legal)]));
    }
    assert_sent(&user(&json!([failed(json!("no"))])), &json!([failed(json!("no"))]));
}

#[test]
fn without_its_results_a_message_keeps_its_text() {
    let mixed = user(&json!([result("x"), result("y"), text("a")]));
    assert_eq!(content(&mixed.answering(&[id("y")]).unwrap()), json!([result("y"), text("a")]));
    assert_eq!(content(&mixed.answering(&[]).unwrap()), json!([text("a")]));
    let results = user(&json!([result("x"), result("x"), text("")]));
    assert_eq!(results.answering(&[id("x")]).unwrap().answers(), [id("x")]);
    assert_eq!(results.answering(&[]), None);
}

#[test]
fn several_results_of_a_message_are_cleared_at_once() {
    let rich = json!({"type": "tool_result", "tool_use_id": "y", "content": [text("2"), {"type": "image", "source": {}}],
        "cache_control": {"type": "ephemeral"}});
    let made = user(&json!([result("x"), rich, result("z"), text("a")]));
    let cleared = made.cleared(&|call| call.as_str() != "z", "[cleared]").unwrap();
    let expected = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "[cleared]"});
    let mut marked = expected("y");
    marked["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(content(&cleared), json!([expected("x"), marked, result("z"), text("a")]));
    assert_eq!(made.cleared(&|_| false, "-"), None);
    let missing = user(&json!([{"type": "tool_result", "tool_use_id": "x"}]));
    assert_eq!(content(&missing.cleared(&|_| true, "-").unwrap())[0]["content"], "-");
}

#[test]
fn an_abandoned_call_gets_an_error_of_the_user() {
    let abandoned = Message::in_dialect(&AnthropicMessages, AnthropicMessages.abandoned(&id("x\""))).unwrap();
    assert_eq!((abandoned.role(), abandoned.answers()), (&Role::Tool, &[id("x\"")][..]));
    assert_eq!(content(&abandoned)[0]["is_error"], true);
    assert_sent(&abandoned, &content(&abandoned));
}

#[test]
fn instructions_are_composed_as_the_users() {
    for (role, expected) in [(Role::User, Role::User), (Role::System, Role::User), (Role::Assistant, Role::Assistant)] {
        let composed = Message::compose(&AnthropicMessages, &role, "a").unwrap();
        assert_eq!((composed.role(), composed.text().as_ref()), (&expected, "a"));
    }
}

#[test]
fn images_documents_and_search_results_are_parts() {
    let base64 = |kind: &str, mime: &str| json!({"type": kind, "source": {"type": "base64", "media_type": mime, "data": "AA=="}});
    let asked = user(&json!([
        base64("image", "image/png"),
        {"type": "image", "source": {"type": "url", "url": "https://example.com/i.png"}},
        base64("document", "application/pdf"),
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}},
        {"type": "document", "source": {"type": "content", "content": [text("b"), base64("image", "image/png")]}},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "search_result", "source": "s", "title": "t", "content": [text("c")]},
        {"type": "tool_result", "tool_use_id": "x", "content": [base64("image", "image/png"), text("1"), text("2")]},
    ]));
    assert_eq!(
        parts(&asked),
        [
            "Image AA==",
            "Image ",
            "File AA==",
            "other document T",
            "other document abc",
            "other document b",
            "Image AA==",
            "File ",
            "other search_result t",
            "other search_result s",
            "other search_result c",
            "result x 1",
            "result x 2",
            "Image AA==",
        ]
    );
    let mut media = Vec::new();
    asked.parts(&mut |part| media.extend(if let Part::Media { media, .. } = part { Some(media) } else { None }));
    assert_eq!(media.iter().filter(|media| **media == Media::Image).count(), 4);
}

#[test]
fn a_mark_for_the_cache_does_not_change_the_digest() {
    for (plain, marked) in [
        (
            r#"{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}"#,
            r#"{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"a"}]}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","cache_control":{"type":"ephemeral"},"tool_use_id":"x","content":[{"cache_control":null,"type":"text","text":"a"}]}]}"#,
        ),
    ] {
        let read = |json: &str| Message::in_dialect(&AnthropicMessages, json).unwrap();
        assert_eq!(read(marked).digest(), read(plain).digest());
        assert_ne!(read(plain).digest(), read(&plain.replace("\"a\"", "\"c\"")).digest());
        assert_eq!(read(marked).sendable().json(), marked, "it is sent as it was written");
    }
    let of_input = |input: &str| {
        AnthropicMessages.digest(&format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"x","name":"f","input":{input}}}]}}"#
        ))
    };
    assert_ne!(of_input(r#"{"cache_control":1}"#), of_input("{}"), "data is not a mark");
}

#[test]
fn the_digest_is_that_of_the_form_that_is_sent_unless_something_before_thinking_changes() {
    let (thinking, text) =
        (json!({"type": "thinking", "thinking": "t", "signature": "s"}), json!({"type": "text", "text": "a"}));
    let empty = json!({"type": "text", "text": ""});
    let call = json!({"type": "tool_use", "id": "x", "name": "f", "input": "no object"});
    for changed in [empty, call] {
        let after = reply(&json!([thinking, text, changed]));
        assert_eq!(after.sendable().digest(), after.digest(), "{changed}");
        let before = reply(&json!([changed, thinking, text]));
        assert_ne!(before.sendable().json(), before.json(), "{changed}");
        assert_ne!(before.sendable().digest(), before.digest(), "{changed}");
    }
}

#[test]
fn marks_for_the_cache_are_counted_and_removed() {
    let json = r#"{"role":"user", "content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"a","cache_control":{}}],"cache_control":{}}, {"type":"text", "text":"cache_control"}]}"#;
    let marked = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!(AnthropicMessages::cache_marks(&marked), 2);
    let without = AnthropicMessages::without_cache_marks(&marked).unwrap();
    let expected = r#"{"role":"user", "content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"a"}]},{"type":"text", "text":"cache_control"}]}"#;
    assert_eq!(without, expected);
    let without = Message::in_dialect(&AnthropicMessages, without).unwrap();
    assert_eq!((AnthropicMessages::cache_marks(&without), without.digest()), (0, marked.digest()));
    assert_eq!(AnthropicMessages::without_cache_marks(&without), None);
    let input = json!({"type": "tool_use", "id": "x", "name": "f", "input": {"cache_control": {}}});
    assert_eq!(AnthropicMessages::cache_marks(&reply(&json!([input]))), 0, "it is data");
    assert_eq!(AnthropicMessages::cache_marks(&user(&json!("cache_control"))), 0);
}

#[test]
fn marks_in_the_content_of_a_search_result_are_found() {
    let inner = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
    let json = format!(r#"{{"role":"user","content":[{{"type":"search_result","source":"s","content":[{inner}]}}]}}"#);
    let marked = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!(AnthropicMessages::cache_marks(&marked), 1);
    let without = AnthropicMessages::without_cache_marks(&marked).unwrap();
    assert!(!without.contains("cache_control"), "{without}");
    assert_eq!(Message::in_dialect(&AnthropicMessages, without).unwrap().digest(), marked.digest());
    let data = r#"{"role":"user","content":[{"type":"later","data":{"cache_control":{"type":"ephemeral"}}}]}"#;
    let data = Message::in_dialect(&AnthropicMessages, data).unwrap();
    assert_eq!((AnthropicMessages::cache_marks(&data), AnthropicMessages::without_cache_marks(&data)), (0, None));
}

#[test]
fn a_mark_of_the_whole_message_stays_and_is_not_compared() {
    let block = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
    let json = format!(r#"{{"role":"user","content":[{block}],"cache_control":{{"type":"ephemeral"}}}}"#);
    let marked = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!(AnthropicMessages::cache_marks(&marked), 1, "the API has marks only in blocks");
    let without = AnthropicMessages::without_cache_marks(&marked).unwrap();
    let expected = r#"{"role":"user","content":[{"type":"text","text":"a"}],"cache_control":{"type":"ephemeral"}}"#;
    assert_eq!(without, expected);
    let unmarked = expected.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    for same in [without, unmarked] {
        assert_eq!(Message::in_dialect(&AnthropicMessages, same).unwrap().digest(), marked.digest());
    }
}

#[test]
fn calls_of_the_provider_without_a_result_and_results_without_a_call_are_known() {
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let found = |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let made = reply(&json!([found("a"), search("b"), search("c"), found("b"), thinking(), text("so")]));
    assert_eq!((&*made.index().server_calls, &*made.index().server_results), (&[id("c")][..], &[id("a")][..]));
    assert_eq!(content(&made.settled(&[id("c")], &[id("a")]).unwrap()), content(&made), "thinking stays, too");
    let expected = json!([found("a"), search("b"), found("b"), text("so")]);
    assert_eq!(content(&made.settled(&[], &[id("a")]).unwrap()), expected);
    assert_eq!(reply(&json!([thinking(), search("a")])).settled(&[], &[]), None);
    let of_mcp = json!([{"type": "mcp_tool_use", "id": "m", "name": "g", "server_name": "s", "input": {}}]);
    assert_eq!(&*reply(&of_mcp).index().server_calls, &[id("m")]);
    assert!(user(&json!([search("a")])).index().server_calls.is_empty(), "only the model calls");
    let unnamed = json!([{"type": "server_tool_use", "name": "web_search", "input": {}}, text("so")]);
    assert_eq!(&*reply(&unnamed).index().server_calls, &[], "no result can name it");
}

#[test]
fn the_digest_is_that_of_what_is_sent() {
    let digest = |content: Value| reply(&content).digest();
    let sent = digest(json!([thinking(), call("x")]));
    assert_eq!(digest(json!([thinking(), text("\n"), call("x")])), sent);
    assert_eq!(digest(json!([thinking(), call("x"), thinking()])), sent);
    assert_ne!(digest(json!([thinking(), thinking(), call("x")])), sent);
    let interleaved = json!([thinking(), text(""), thinking(), call("x")]);
    let made = reply(&interleaved);
    assert_ne!(made.digest(), made.sendable().digest(), "the second signature may cover the text");
    assert_ne!(digest(json!("a")), user(&json!("a")).digest());
    assert_eq!(AnthropicMessages.digest("7"), Digest::of(b"7"));
}

#[test]
fn thinking_is_read_by_the_same_provider_and_account() {
    let origin = Origin::unknown().provider("p").account("a").route("r").model("m");
    let reads = |other: Origin| AnthropicMessages.reads(&origin, &other);
    assert!(reads(origin.clone()) && reads(Origin::unknown()));
    assert!(reads(origin.clone().route("s")) && reads(origin.clone().model("n")));
    assert!(!reads(origin.clone().provider("q")) && !reads(origin.clone().account("b")));
}

#[test]
fn deep_and_damaged_blocks_take_no_recursion() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let json = format!(
        r#"{{"role":"assistant","content":[{{"type":"thinking","signature":{deep}}},{{"type":"text","text":"a","x":{deep}}}]}}"#
    );
    let made = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!(made.bound(), Bound::TO_PREFIX);
    assert_eq!(made.unbound().unwrap().json().matches(&deep).count(), 1);
    let json = format!(
        r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"x","content":{deep}}},{{"type":"document","source":{{"type":"content","content":{deep}}}}}]}}"#
    );
    let asked = Message::in_dialect(&AnthropicMessages, json).unwrap();
    assert_eq!((asked.answers(), parts(&asked).len()), (&[id("x")][..], 3));
    for odd in [json!(7), json!([7, null, "a", []]), json!({"type": "text", "text": "a"})] {
        assert!(user(&odd).is_blank() && reply(&odd).is_blank(), "the API refuses it: {odd}");
    }
}
