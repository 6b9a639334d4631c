//! Single conversations.

use serde_json::{Value, json};
use tower_chat_history::{
    ContextBudget, HistoryError, HistoryOptions, Policies,
    error::InputError,
    policy::OnTranscriptMismatch,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_test::messages::Say;

use super::Chat;

fn said(text: &str) -> Vec<Say> {
    vec![Say::Text(text.into())]
}

fn body(messages: &Value) -> String {
    json!({"model": "claude", "max_tokens": 9, "messages": messages}).to_string()
}

#[tokio::test]
async fn several_results_in_one_message_answer_their_calls() {
    let chat = Chat::new();
    let ask = json!([{"role": "user", "content": "Warm?"}]);
    let calls = vec![Say::Thinking("hm".into()), Say::call("x", "look", json!({})), Say::call("y", "look", json!({}))];
    let asked = chat.say(&ask, calls).await;
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "20"});
    let more = json!({"type": "text", "text": "And tomorrow?"});
    let results = json!([{"role": "user", "content": [result("x"), result("y"), more]}]);
    chat.say(&results, said("Yes.")).await;
    let expected = json!([ask[0], {"role": "assistant", "content": asked["content"]}, results[0]]);
    assert_eq!(chat.sent(), expected);
    assert_eq!(chat.log().await.len(), 4);
    assert_eq!(chat.exchanges().await[1].exchange.continues.map(|seq| seq.get()), Some(0));
}

#[tokio::test]
async fn consecutive_messages_of_one_role_are_kept_apart() {
    let chat = Chat::new();
    let ask = json!([{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]);
    chat.say(&ask, said("c")).await;
    chat.say(&json!([{"role": "user", "content": "d"}]), said("e")).await;
    let sent = chat.sent();
    assert_eq!(sent.as_array().unwrap()[..2], ask.as_array().unwrap()[..]);
    assert_eq!(sent.as_array().unwrap().len(), 4);
}

/// Returns the error of a call whose input is refused.
async fn refused(chat: &Chat, messages: &Value) -> InputError {
    let before = chat.mock.requests().len();
    let error = chat.call(body(messages), 1.0).await.unwrap_err();
    assert_eq!(chat.mock.requests().len(), before, "the provider was called");
    let Some(HistoryError::Input(error)) = error.downcast_ref() else { panic!("{error}") };
    error.clone()
}

#[tokio::test]
async fn a_list_that_ends_with_a_reply_of_the_caller_is_refused() {
    let assistant = |text: &str| json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
    let user = |text: &str| json!({"role": "user", "content": text});
    let chat = Chat::new();
    assert_eq!(refused(&chat, &json!([user("a"), assistant("b, se")])).await, InputError::Prefill { position: 1 });
    assert_eq!(refused(&chat, &json!([assistant("(")])).await, InputError::Prefill { position: 0 });
    assert!(chat.log().await.is_empty());
    chat.say(&json!([user("a")]), said("b, secret")).await;
    for (list, position) in [
        (json!([user("a"), assistant("b")]), 1),
        (json!([user("a"), assistant("b, secret"), user("c"), assistant("d")]), 3),
        (json!([assistant("d")]), 0),
    ] {
        let error = refused(&chat, &list).await;
        assert_eq!(error, InputError::Prefill { position }, "{list}");
        assert!(!error.to_string().contains("secret"));
    }
    assert_eq!(chat.log().await.len(), 2);
}

#[tokio::test]
async fn a_list_that_ends_with_a_reply_of_the_caller_is_refused_although_the_log_is_trusted() {
    let policies = Policies::new().on_transcript_mismatch(OnTranscriptMismatch::TrustLog);
    let chat = Chat::of(HistoryOptions::new().policies(policies));
    let ask = json!({"role": "user", "content": "a"});
    let paused = chat.say(&json!([ask]), vec![Say::Text("Let me see.".into()), Say::Pause]).await;
    let paused = json!({"role": "assistant", "content": paused["content"]});
    let wrote = json!({"role": "assistant", "content": "The answer is"});
    let list = json!([ask, paused, {"role": "user", "content": "b"}, wrote]);
    assert_eq!(refused(&chat, &list).await, InputError::Prefill { position: 3 });
    let edited = json!([{"role": "user", "content": "edited"}, paused]);
    chat.say(&edited, said("So.")).await;
    assert_eq!(chat.sent(), json!([ask, paused]), "the log is sent");
}

#[tokio::test]
async fn a_paused_reply_is_continued_by_an_empty_list_or_by_one_that_ends_with_it() {
    let searches = || [Say::Text("Let me see.".into()), Say::OpenSearch("s".into()), Say::Pause];
    let found = || vec![Say::Found("s".into()), Say::Text("b".into())];
    let ends_with_text = || [Say::Search("s".into()), Say::Text("Let me".into()), Say::Pause];
    let continued = || vec![Say::Text(" see.".into())];
    let ask = json!([{"role": "user", "content": "a"}]);
    for (pauses, goes_on) in [(searches(), found()), (ends_with_text(), continued())] {
        for (resends, streams) in [(false, false), (false, true), (true, false), (true, true)] {
            let chat = Chat::new();
            let call = async |messages: &Value, says: Vec<Say>| {
                chat.mock.push(says);
                let body = json!({"model": "claude", "max_tokens": 9, "messages": messages, "stream": streams});
                let answer = chat.call(body.to_string(), 1.0).await.unwrap();
                assert_eq!(answer.status, 200, "{}", answer.body);
            };
            call(&ask, pauses.to_vec()).await;
            let reply: Value = serde_json::from_str(chat.log().await[1].json()).unwrap();
            assert_eq!(chat.exchanges().await[0].exchange.finish_reason.as_deref(), Some("pause_turn"));
            let messages = if resends { json!([ask[0], reply]) } else { json!([]) };
            call(&messages, goes_on.clone()).await;
            assert_eq!(chat.sent(), json!([ask[0], reply]), "the paused reply is the last message");
            assert_eq!(chat.log().await.len(), 3);
            call(&json!([{"role": "user", "content": "c"}]), said("d")).await;
            assert_eq!(chat.sent().as_array().unwrap().len(), 4, "both parts of the reply stay");
        }
    }
}

#[tokio::test]
async fn a_reply_that_was_not_paused_is_not_continued() {
    let open = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    for last in [Say::Text("So.".into()), Say::Block(open), Say::Search("s".into())] {
        let chat = Chat::new();
        let ask = json!([{"role": "user", "content": "a"}]);
        let reply = chat.say(&ask, vec![Say::Text("Let me see.".into()), last]).await;
        let resent = json!([ask[0], {"role": "assistant", "content": reply["content"]}]);
        assert_eq!(refused(&chat, &resent).await, InputError::Empty);
        assert_eq!(refused(&chat, &json!([])).await, InputError::Empty);
    }
}

#[tokio::test]
async fn a_call_without_input_continues_after_stored_results() {
    let chat = Chat::new();
    chat.say(&json!([{"role": "user", "content": "a"}]), vec![Say::call("x", "look", json!({}))]).await;
    let result = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]}]);
    let result =
        tower_chat_history::Message::in_dialect(&tower_chat_history::dialect::AnthropicMessages, result[0].to_string());
    let stored = tower_chat_history::engine::ToolResults::new(chat.id.clone(), [result.unwrap()]);
    chat.layer.engine().store_results(stored).await.unwrap();
    chat.say(&json!([]), said("b")).await;
    assert_eq!(chat.sent().as_array().unwrap().len(), 3);
    assert_eq!(chat.log().await.len(), 4);
}

#[tokio::test]
async fn a_changed_head_leaves_out_thinking() {
    let chat = Chat::new();
    let ask = |text: &str, head: &Value| {
        let mut body: Value = serde_json::from_str(&body(&json!([{"role": "user", "content": text}]))).unwrap();
        body.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
        body.to_string()
    };
    let kinds = |chat: &Chat| -> Vec<Value> {
        let sent = chat.sent();
        let blocks = sent[1]["content"].as_array().unwrap();
        blocks.iter().map(|block| block["type"].clone()).collect()
    };
    let mark = json!({"type": "ephemeral"});
    let system = json!([{"type": "text", "text": "s", "cache_control": mark}]);
    let first = json!({"system": system, "tools": [{"name": "look", "cache_control": mark}]});
    let thinks = || vec![Say::Thinking("hm".into()), Say::Text("b".into())];
    chat.mock.push(thinks());
    assert_eq!(chat.call(ask("a", &first), 1.0).await.unwrap().status, 200);
    let unmarked = json!({"system": [{"type": "text", "text": "s"}], "tools": [{"name": "look"}]});
    for (head, expected) in [
        (json!({"system": system, "tools": [{"name": "look"}]}), vec!["thinking", "text"]),
        (json!({"system": "t", "tools": [{"name": "look"}]}), vec!["text"]),
        (json!({"system": system}), vec!["text"]),
        (first.clone(), vec!["thinking", "text"]),
        (unmarked, vec!["thinking", "text"]),
    ] {
        chat.mock.push(said("c"));
        let answer = chat.call(ask("a", &head), 1.0).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(kinds(&chat), expected, "{head}");
    }
}

#[tokio::test]
async fn a_tool_loop_over_the_window_loses_its_thinking_if_the_provider_may_drop_it() {
    for drops in [false, true] {
        let budget = ContextBudget::tokens(400).reply_reserve(100).calibrate(false);
        let chat = Chat::of(HistoryOptions::new().context(budget));
        let behavior = if drops { "drop_block" } else { "error" };
        let call = async |round: u32, content: Value| {
            let says = vec![Say::Thinking(format!("hm {round}")), Say::call(format!("x{round}"), "look", json!({}))];
            chat.mock.push(says);
            let mut body: Value = serde_json::from_str(&body(&json!([{"role": "user", "content": content}]))).unwrap();
            body["thinking"] = json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": behavior}});
            chat.call(body.to_string(), 1.0).await
        };
        call(0, json!("u")).await.unwrap();
        for round in 1..40 {
            let id = format!("x{}", round - 1);
            let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "It is 20 degrees in Cologne."}]);
            match call(round, result).await {
                Ok(answer) => assert_eq!(answer.status, 200, "{}", answer.body),
                Err(error) => {
                    let Some(HistoryError::DoesNotFit(error)) = error.downcast_ref() else { panic!("{error}") };
                    assert!(!drops && error.turn_is_bound && error.to_string().contains("`drop_block`"), "{error}");
                    break;
                }
            }
            assert!(drops || round < 39, "the loop fits");
        }
        assert_eq!(chat.log().await.len() == 80, drops);
    }
}

/// Makes a call under this head, whose reply begins with thinking. Returns its status.
async fn think(chat: &Chat, thinking: &Value, streams: bool, content: Value, system: &str, then: Say) -> u16 {
    chat.mock.push(vec![Say::Thinking("hm".into()), then]);
    let body = json!({"model": "claude", "max_tokens": 2048, "thinking": thinking, "system": system,
        "messages": [{"role": "user", "content": content}], "stream": streams});
    chat.call(body.to_string(), 1.0).await.unwrap().status
}

fn look(id: &str) -> Say {
    Say::call(id, "look", json!({}))
}

#[tokio::test]
async fn a_round_that_lost_its_thinking_gets_a_constant_reply_before_a_question() {
    let budget = json!({"type": "enabled", "budget_tokens": 1024});
    let ask = |text: &str| json!({"role": "user", "content": text});
    for (streams, thinking) in
        [(false, &budget), (true, &budget), (false, &json!({"type": "adaptive"})), (true, &json!(null))]
    {
        let chat = Chat::new();
        let think = async |text: &str, system: &str, then: Say| {
            assert_eq!(think(&chat, thinking, streams, json!(text), system, then).await, 200);
            chat.sent().as_array().unwrap().clone()
        };
        think("a", "s", look("x")).await;
        let sent = think("b", "t", look("y")).await;
        assert_eq!(sent.len(), 5, "{thinking}");
        assert_eq!((&sent[0], sent.last()), (&ask("a"), Some(&ask("b"))));
        // The constant reply also follows a round whose thinking is valid. Later prompts begin in the same way.
        let again = think("c", "t", Say::Text("d".into())).await;
        assert_eq!((&again[..sent.len()], again.len()), (&sent[..], sent.len() + 4));
        assert_eq!(chat.log().await.len(), 6, "the log has everything");
    }
}

#[tokio::test]
async fn results_for_calls_that_lost_their_thinking_are_refused_if_thinking_has_a_budget() {
    let budget = json!({"type": "enabled", "budget_tokens": 1024});
    let results = || json!([{"type": "tool_result", "tool_use_id": "x", "content": "r"}]);
    let chat = Chat::new();
    assert_eq!(think(&chat, &budget, false, json!("a"), "s", look("x")).await, 200);
    assert_eq!(think(&chat, &budget, false, results(), "t", look("y")).await, 400);
    assert_eq!(chat.log().await.len(), 2);
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(think(&chat, &adaptive, false, results(), "t", look("y")).await, 200);
}

/// The first cut leaves out thinking, and keeps the result of a search, which is sealed, too.
#[tokio::test]
async fn thinking_that_a_cut_left_out_beside_a_search_stays_left_out() {
    let budget = json!({"type": "enabled", "budget_tokens": 50});
    let mut with_thinking = 0;
    for window in 120..240 {
        let chat = Chat::of(HistoryOptions::new().context(ContextBudget::tokens(window)));
        let call = async |content: Value, says: Vec<Say>| {
            chat.mock.push([&[Say::Thinking("hm".into())], &says[..]].concat());
            let body = json!({"model": "claude", "max_tokens": 99, "thinking": budget,
                "messages": [{"role": "user", "content": content}]});
            match chat.call(body.to_string(), 1.0).await {
                Ok(answer) => assert_eq!(answer.status, 200, "window of {window}: {}", answer.body),
                Err(error) => assert!(matches!(error.downcast_ref(), Some(HistoryError::DoesNotFit(_))), "{error}"),
            }
        };
        call(json!("and 0?"), vec![look("x"), Say::Search("s".into())]).await;
        call(json!("and 1?"), vec![Say::Search("t".into())]).await;
        call(json!("and 2?"), vec![look("y")]).await;
        call(json!([{"type": "tool_result", "tool_use_id": "y", "content": "r"}]), said("So.")).await;
        with_thinking += u32::from(chat.sent().to_string().contains("hm"));
    }
    assert!(with_thinking > 10);
}

#[tokio::test]
async fn marks_are_stored_and_at_most_four_are_sent() {
    let chat = Chat::new();
    let ask = json!([{"role": "user", "content": [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]);
    for _ in 0..6 {
        chat.say(&ask, said("b")).await;
    }
    let marked: Vec<bool> = chat.sent().as_array().unwrap().iter().step_by(2).map(is_marked).collect();
    assert_eq!(marked, [false, false, true, true, true, true]);
    let log: Vec<Value> = chat.log().await.iter().map(|it| serde_json::from_str(it.json()).unwrap()).collect();
    assert!(log.iter().step_by(2).all(is_marked));
}

fn is_marked(message: &Value) -> bool {
    !message["content"][0]["cache_control"].is_null()
}

#[tokio::test]
async fn an_error_of_the_provider_is_passed_on() {
    let chat = Chat::new();
    let answer = chat.call(r#"{"messages":[{"role":"user","content":"a"}]}"#.into(), 1.0).await.unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("model: Field required"), "{}", answer.body);
    assert!(matches!(chat.outcome(), TurnOutcome::NotStored(NotStored::CallFailed)), "{:?}", chat.outcome());
}
