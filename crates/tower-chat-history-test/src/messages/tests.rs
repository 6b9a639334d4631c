//! Tests of the rules of the API.

use serde_json::{Value, json};

use super::{MessagesProvider, Reason, Refusal, Say};

fn body(messages: &Value) -> Value {
    json!({"model": "claude", "max_tokens": 9, "messages": messages})
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

fn reply(content: &Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn look(id: &str) -> Say {
    Say::call(id, "look", json!({}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "1"})
}

fn check(messages: &Value) -> Result<(), Reason> {
    check_body(&body(messages))
}

fn check_body(body: &Value) -> Result<(), Reason> {
    MessagesProvider::new("p").check(&body.to_string()).map_err(|refusal| refusal.reason().clone())
}

#[test]
fn legal_requests_are_accepted() {
    for messages in [
        json!([user(&json!("a"))]),
        json!([user(&json!("a")), user(&json!([text("b"), text(" ")]))]),
        json!([user(&json!("a")), reply(&json!("b")), user(&json!("c"))]),
        json!([
            user(&json!("a")),
            reply(&json!([call("x"), call("y")])),
            user(&json!([result("y"), result("x"), text("c")]))
        ]),
        json!([
            user(&json!("a")),
            reply(&json!([call("x"), call("y")])),
            user(&json!([result("y")])),
            user(&json!([result("x")]))
        ]),
        json!([user(&json!("a")), {"role": "system", "content": "b"}, reply(&json!("c")), user(&json!("d"))]),
        json!([user(&json!("a")), {"role": "system", "content": "b"}]),
        json!([{"role": "system", "content": [], "output_config": {}}, user(&json!("a"))]),
        json!([reply(&json!([{"type": "compaction", "content": "so far"}, text("a")])), user(&json!("b"))]),
        json!([user(&json!("a")), reply(&json!([{"type": "server_tool_use", "id": "s", "name": "web_search"}]))]),
        json!([user(&json!([text("a"), {"type": "search_result", "title": "t"}]))]),
    ] {
        assert_eq!(check(&messages), Ok(()), "{messages}");
    }
}

#[test]
fn requests_without_required_fields_are_refused() {
    let provider = MessagesProvider::new("p");
    assert_eq!(provider.check("{").unwrap_err().reason(), &Reason::Unreadable);
    for name in ["model", "max_tokens", "messages"] {
        let mut body = body(&json!([user(&json!("a"))]));
        body.as_object_mut().unwrap().remove(name);
        assert_eq!(check_body(&body), Err(Reason::MissingField { name }));
    }
    assert_eq!(check(&json!([])), Err(Reason::NoMessages));
    assert_eq!(check(&json!([{"role": "tool", "content": "a"}])), Err(Reason::Role { message: 0 }));
}

#[test]
fn the_order_of_roles_is_checked() {
    assert_eq!(check(&json!([reply(&json!("a")), user(&json!("b"))])), Err(Reason::FirstMessage));
    assert_eq!(check(&json!([user(&json!("a")), reply(&json!("b"))])), Err(Reason::Prefill));
    let system = json!({"role": "system", "content": "s"});
    for (messages, message) in [
        (json!([system, user(&json!("a"))]), 0),
        (json!([user(&json!("a")), system, user(&json!("b"))]), 1),
        (json!([user(&json!("a")), system, system]), 1),
        (json!([user(&json!("a")), reply(&json!("b")), system]), 2),
    ] {
        assert_eq!(check(&messages), Err(Reason::SystemMessage { message }), "{messages}");
    }
}

#[test]
fn empty_contents_are_refused() {
    for empty in [json!(""), json!([]), json!(null)] {
        assert_eq!(check(&json!([user(&empty)])), Err(Reason::EmptyMessage { message: 0 }));
    }
    assert_eq!(check(&json!([user(&json!([text(""), text("a")]))])), Err(Reason::EmptyText { message: 0 }));
    assert_eq!(
        check(&json!([user(&json!([text(" "), {"type": "search_result"}]))])),
        Err(Reason::BlankText { message: 0 })
    );
    let marked = json!({"type": "text", "text": "", "cache_control": {}});
    assert_eq!(check(&json!([user(&json!([marked]))])), Err(Reason::MarkedEmptyText { message: 0, block: 0 }));
    let answered = |content: Value, is_error: bool| {
        let result = json!({"type": "tool_result", "tool_use_id": "x", "content": content, "is_error": is_error});
        check(&json!([user(&json!("a")), reply(&json!([call("x")])), user(&json!([result]))]))
    };
    for empty in [json!(""), json!([]), json!(null)] {
        assert_eq!(answered(empty.clone(), false), Ok(()));
        assert_eq!(answered(empty, true), Err(Reason::EmptyError { message: 2, block: 0 }));
    }
    assert_eq!(answered(json!([text("")]), false), Err(Reason::EmptyText { message: 2 }));
}

#[test]
fn blocks_of_another_role_and_without_fields_are_refused() {
    for (messages, block) in
        [(json!([user(&json!([text("a"), call("x")]))]), 1), (json!([user(&json!([{"type": "thinking"}]))]), 0)]
    {
        assert_eq!(check(&messages), Err(Reason::WrongRole { message: 0, block }));
    }
    let replied =
        |block: Value| check(&json!([user(&json!("a")), reply(&json!([block, text("b")])), user(&json!("c"))]));
    assert_eq!(replied(result("x")), Err(Reason::WrongRole { message: 1, block: 0 }));
    let field = |name| Err(Reason::BlockField { message: 1, block: 0, name });
    assert_eq!(replied(json!({"type": "thinking", "thinking": "a"})), field("signature"));
    assert_eq!(replied(json!({"type": "redacted_thinking"})), field("data"));
    assert_eq!(replied(json!({"type": "tool_use", "name": "f"})), field("id"));
}

#[test]
fn each_call_needs_one_result_at_the_beginning_of_the_next_message() {
    let after =
        |answer: Value| check(&json!([user(&json!("a")), reply(&json!([call("x"), call("y")])), user(&answer)]));
    let unanswered = |ids: &[&str]| {
        Err(Reason::UnansweredCalls { message: 1, ids: ids.iter().map(|id| (*id).to_owned()).collect() })
    };
    assert_eq!(after(json!("b")), unanswered(&["x", "y"]));
    assert_eq!(after(json!([result("x")])), unanswered(&["y"]));
    assert_eq!(after(json!([result("x"), text("b"), result("y")])), unanswered(&["y"]));
    let unexpected = Err(Reason::UnexpectedResult { message: 2, block: 2, id: "z".into() });
    assert_eq!(after(json!([result("x"), result("y"), result("z")])), unexpected);
    let repeated = Err(Reason::RepeatedResult { message: 2, block: 2, id: "x".into() });
    assert_eq!(after(json!([result("x"), result("y"), result("x")])), repeated);
    let late = json!([
        user(&json!("a")),
        reply(&json!([call("x")])),
        user(&json!([result("x")])),
        reply(&json!("b")),
        user(&json!([result("x")]))
    ]);
    assert_eq!(check(&late), Err(Reason::UnexpectedResult { message: 4, block: 0, id: "x".into() }));
    let twice = json!([user(&json!("a")), reply(&json!([call("x"), call("x")])), user(&json!([result("x")]))]);
    assert_eq!(check(&twice), Err(Reason::RepeatedCall { message: 1, block: 1 }));
}

#[test]
fn server_tools_need_their_results_in_the_reply() {
    let used = json!({"type": "server_tool_use", "id": "s", "name": "web_search"});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s"});
    let replied = |blocks: Value| check(&json!([user(&json!("a")), reply(&blocks), user(&json!("b"))]));
    assert_eq!(replied(json!([used, found])), Ok(()));
    assert_eq!(replied(json!([used])), Err(Reason::UnansweredServerCall { message: 1, id: "s".into() }));
    assert_eq!(replied(json!([found])), Err(Reason::UnexpectedServerResult { message: 1, block: 0, id: "s".into() }));
}

#[test]
fn at_most_four_marks_for_the_cache_are_accepted() {
    let marked = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let inner = json!({"type": "tool_result", "tool_use_id": "x", "content": [marked("b")]});
    let mut body = body(&json!([user(&json!([marked("a")])), reply(&json!([call("x")])), user(&json!([inner]))]));
    body["system"] = json!([marked("s")]);
    body["tools"] = json!([{"name": "f", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(check_body(&body), Ok(()));
    body["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(check_body(&body), Err(Reason::CacheMarks { found: 5 }));
}

/// A conversation with one signed reply.
struct Talk {
    provider: MessagesProvider,
    body: Value,
}

impl Talk {
    fn new(provider: MessagesProvider, says: &[Say]) -> Self {
        let body = body(&json!([user(&json!("a")), user(&json!([text("b")]))]));
        let response: Value = serde_json::from_str(&provider.reply(&body.to_string(), says).unwrap().body()).unwrap();
        let mut talk = Self { provider, body };
        talk.messages().push(reply(&response["content"]));
        talk
    }

    fn messages(&mut self) -> &mut Vec<Value> {
        self.body["messages"].as_array_mut().unwrap()
    }

    fn content(&mut self) -> &mut Vec<Value> {
        self.messages()[2]["content"].as_array_mut().unwrap()
    }

    fn with(mut self, message: Value) -> Self {
        self.messages().push(message);
        self
    }

    fn check(&self) -> Result<(), Reason> {
        self.provider.check(&self.body.to_string()).map_err(|refusal| refusal.reason().clone())
    }
}

fn thinks() -> [Say; 4] {
    [Say::Thinking("hm".into()), Say::Redacted, Say::Text("c".into()), look("x")]
}

fn talk() -> Talk {
    Talk::new(MessagesProvider::new("p"), &thinks()).with(user(&json!([result("x")])))
}

#[test]
fn thinking_is_accepted_after_its_own_prompt() {
    let mut same = talk();
    assert_eq!(same.check(), Ok(()));
    same.messages()[0]["content"] = json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(same.check(), Ok(()), "marks and the form of a text do not count");
    let blocks = [text("a"), text("b")];
    same.body["messages"].as_array_mut().unwrap().splice(..2, [user(&json!(blocks))]);
    assert_eq!(same.check(), Ok(()), "messages of one role are one message");
}

#[test]
fn thinking_after_another_prompt_is_refused() {
    let other = Err(Reason::OtherConversation { message: 2, block: 0 });
    for (name, value) in [("system", json!("s")), ("tools", json!([{"name": "f"}]))] {
        let mut changed = talk();
        changed.body[name] = value;
        assert_eq!(changed.check(), other, "{name}");
        changed.body["thinking"] =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        assert_eq!(changed.check(), Ok(()));
    }
    let mut changed = talk();
    changed.messages()[1] = user(&json!("c"));
    assert_eq!(changed.check(), other);
}

#[test]
fn thinking_of_others_and_changed_thinking_is_refused() {
    let mut edited = talk();
    edited.content()[0]["thinking"] = "other".into();
    assert_eq!(edited.check(), Err(Reason::InvalidSignature { message: 2, block: 0 }));
    let foreign = Talk { provider: MessagesProvider::new("q"), ..talk() };
    assert_eq!(foreign.check(), Err(Reason::InvalidSignature { message: 2, block: 0 }));
    let mut last = Talk::new(MessagesProvider::new("p"), &thinks()).with(user(&json!([result("x")])));
    last.content().truncate(1);
    last.messages().pop();
    assert_eq!(last.with(user(&json!("d"))).check(), Err(Reason::LastThinking { message: 2 }));
}

#[test]
fn the_thinking_of_the_last_reply_is_sent_as_a_whole_or_not_at_all() {
    let mut part = talk();
    part.content().remove(1);
    assert_eq!(part.check(), Err(Reason::ChangedThinking { message: 2 }));
    let mut none = talk();
    none.content().drain(..2);
    assert_eq!(none.check(), Ok(()));
    none.body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    assert_eq!(none.check(), Err(Reason::MissingThinking { message: 2 }));
    none.messages().push(reply(&json!("d")));
    none.messages().push(user(&json!("e")));
    assert_eq!(none.check(), Ok(()), "another round");
}

#[test]
fn thinking_between_other_thinking_must_stay() {
    let says = [Say::Thinking("1".into()), Say::Text("c".into())];
    let mut talk = Talk::new(MessagesProvider::new("p"), &says).with(user(&json!("d")));
    for say in ["2", "3"] {
        let says = [Say::Thinking(say.into()), Say::Text("c".into())];
        let response = talk.provider.reply(&talk.body.to_string(), &says).unwrap().body();
        let response: Value = serde_json::from_str(&response).unwrap();
        talk = talk.with(reply(&response["content"])).with(user(&json!("d")));
    }
    assert_eq!(talk.check(), Ok(()));
    let whole = talk.body.clone();
    talk.content().remove(0);
    assert_eq!(talk.check(), Ok(()), "the first one may be left out");
    talk.body = whole;
    talk.messages()[4]["content"].as_array_mut().unwrap().remove(0);
    assert_eq!(talk.check(), Err(Reason::OtherConversation { message: 6, block: 0 }));
    let counts = talk.provider.counts();
    assert_eq!((counts.sent, counts.missing), (3, 0));
}

#[test]
fn a_refusal_has_the_status_the_type_and_the_wording_of_the_api() {
    let provider = MessagesProvider::new("p");
    let refusal: Refusal = provider.check(&body(&json!([user(&json!(""))])).to_string()).unwrap_err();
    assert_eq!((refusal.status(), refusal.kind()), (400, "invalid_request_error"));
    let sent: Value = serde_json::from_str(&refusal.body()).unwrap();
    assert_eq!((&sent["type"], &sent["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert_eq!(sent["error"]["message"], refusal.to_string());
    assert!(refusal.to_string().starts_with("messages.0: all messages must have non-empty content"));
}

#[test]
fn a_response_has_the_blocks_and_the_reason_to_stop() {
    let provider = MessagesProvider::new("p");
    let body = body(&json!([user(&json!("a"))])).to_string();
    let says = [Say::Search("s".into()), Say::Compaction("c".into()), Say::Block(json!({"type": "later"}))];
    let response: Value = serde_json::from_str(&provider.reply(&body, &says).unwrap().body()).unwrap();
    let kinds: Vec<&str> =
        response["content"].as_array().unwrap().iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds, ["server_tool_use", "web_search_tool_result", "compaction", "later"]);
    assert_eq!((&response["stop_reason"], &response["model"]), (&json!("end_turn"), &json!("claude")));
    let response: Value = serde_json::from_str(&provider.reply(&body, &[look("x")]).unwrap().body()).unwrap();
    assert_eq!(response["stop_reason"], "tool_use");
}

#[test]
fn a_paused_reply_is_continued_and_its_calls_wait_for_their_results() {
    let provider = MessagesProvider::new("p");
    let say = |messages: &Value, says: &[Say]| -> Result<Value, Reason> {
        let response = provider.reply(&body(messages).to_string(), says);
        let response = response.map_err(|refusal| refusal.reason().clone())?;
        Ok(serde_json::from_str(&response.body()).unwrap())
    };
    let asked = [user(&json!("a"))];
    let paused = say(&json!(asked), &[Say::Text("b".into()), Say::OpenSearch("s".into()), Say::Pause]).unwrap();
    assert_eq!(paused["stop_reason"], "pause_turn");
    let [question, paused] = [asked[0].clone(), reply(&paused["content"])];
    let found = say(&json!([question, paused]), &[Say::Found("s".into()), Say::Text("c".into()), Say::Pause]).unwrap();
    let found = reply(&found["content"]);
    let all = json!([question, paused, found]);
    assert_eq!(check(&all), Err(Reason::Prefill), "another provider did not pause after a text");
    assert!(say(&all, &[Say::Text("d".into())]).is_ok());
    let next = user(&json!("e"));
    assert_eq!(check(&json!([question, paused, found, next])), Ok(()));
    let unanswered = Reason::UnansweredServerCall { message: 1, id: "s".into() };
    assert_eq!(check(&json!([question, paused, next])), Err(unanswered));
    let unexpected = Reason::UnexpectedServerResult { message: 1, block: 0, id: "s".into() };
    assert_eq!(check(&json!([question, found, next])), Err(unexpected));
}

#[test]
fn a_call_of_a_server_tool_waits_for_the_results_of_the_program() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    let asked = [user(&json!("a")), reply(&json!([search, call("x")]))];
    let with = |more: Value| check(&json!([asked.as_slice(), more.as_array().unwrap()].concat()));
    assert_eq!(with(json!([user(&json!([result("x")]))])), Ok(()));
    assert_eq!(
        with(json!([user(&json!([result("x")])), reply(&json!([found, text("b")])), user(&json!("c"))])),
        Ok(())
    );
    let unanswered = Reason::UnansweredServerCall { message: 1, id: "s".into() };
    assert_eq!(with(json!([user(&json!([result("x"), text("b")]))])), Err(unanswered));
}
