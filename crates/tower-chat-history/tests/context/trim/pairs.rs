//! Tool calls and their results.

use serde_json::json;
use tower_chat_history::{
    Message,
    tokens::MessageCount,
    trim::{Speaker, Trim},
};

use super::{as_langchain, assert_unchanged, by_dummy_count, calls, dummy_count, message};

fn by_default<S>(messages: &[Message], trim: &Trim<S>) -> Vec<Message> {
    assert_unchanged(messages, |messages| trim.apply(messages, &MessageCount::new()))
}

/// Returns a question, two parallel calls, both results, an answer and the next question.
fn parallel() -> [Message; 6] {
    [
        Message::user("q1"),
        calls(&["x", "y"]),
        Message::tool("y", "r"),
        Message::tool("x", "r"),
        Message::assistant("a1"),
        Message::user("q2"),
    ]
}

#[test]
fn a_result_is_left_out_with_its_call_unlike_langchain() {
    let messages =
        [Message::user("q"), calls(&["x"]), Message::tool("x", "r"), Message::assistant("a"), Message::user("q")];
    assert_eq!(as_langchain(&messages, &Trim::last(3), &MessageCount::new()), messages[2..]);
    assert_eq!(by_default(&messages, &Trim::last(3)), messages[3..]);
    assert_eq!(by_default(&messages, &Trim::last(4)), messages[1..]);
}

#[test]
fn parallel_calls_are_kept_with_all_results_or_left_out() {
    let messages = parallel();
    for (max_tokens, last, first) in [(0, 6, 0), (1, 5, 1), (2, 4, 1), (3, 4, 1), (4, 4, 4), (5, 1, 5), (6, 0, 6)] {
        assert_eq!(by_default(&messages, &Trim::last(max_tokens)), messages[last..], "last {max_tokens}");
        assert_eq!(by_default(&messages, &Trim::first(max_tokens)), messages[..first], "first {max_tokens}");
    }
}

#[test]
fn results_after_the_last_allowed_speaker_are_left_out_with_their_call() {
    let messages = parallel();
    let to_end_on = |speaker| Trim::last(9).end_on([speaker]);
    assert_eq!(by_default(&messages[..4], &to_end_on(Speaker::Assistant)), []);
    assert_eq!(as_langchain(&messages[..4], &to_end_on(Speaker::Assistant), &MessageCount::new()), messages[..2]);
    assert_eq!(by_default(&messages[..4], &to_end_on(Speaker::Tool)), messages[..4]);
    assert_eq!(by_default(&messages, &to_end_on(Speaker::Tool)), messages[..4]);
    assert_eq!(by_default(&messages, &Trim::first(3).end_on([Speaker::Tool])), []);
    assert_eq!(by_default(&messages, &Trim::first(3).end_on([Speaker::User])), messages[..1]);
}

#[test]
fn a_result_that_does_not_follow_its_call_is_left_out_and_costs_nothing() {
    let messages = [
        Message::tool("x", "orphan"),
        Message::user("q1"),
        calls(&["x", "y"]),
        Message::tool("x", "r"),
        Message::tool("x", "again"),
        Message::user("q2"),
        Message::tool("y", "late"),
        Message::assistant("a2"),
    ];
    let valid = [&messages[1..4], &messages[5..6], &messages[7..]].concat();
    assert_eq!(by_default(&messages, &Trim::last(9)), valid);
    assert_eq!(by_default(&messages, &Trim::first(9)), valid);
    for max_tokens in [0, 1, 2, 4, 5] {
        let kept = usize::try_from(max_tokens).unwrap();
        assert_eq!(by_default(&messages, &Trim::last(max_tokens)), valid[5 - kept..], "{max_tokens}");
    }
    for max_tokens in [0, 1, 3, 4, 5] {
        let kept = usize::try_from(max_tokens).unwrap();
        assert_eq!(by_default(&messages, &Trim::first(max_tokens)), valid[..kept], "{max_tokens}");
    }
    assert_eq!(as_langchain(&messages, &Trim::last(9), &MessageCount::new()), messages);
}

#[test]
fn an_orphaned_result_does_not_count_as_the_end() {
    let messages = [Message::user("q"), Message::tool("x", "orphan"), Message::user("q")];
    assert_eq!(by_default(&messages, &Trim::first(1)), messages[..1]);
    let end = Trim::last(9).end_on([Speaker::User, Speaker::Tool]);
    let messages = [Message::user("q"), Message::assistant("a"), Message::tool("x", "orphan")];
    assert_eq!(by_default(&messages, &end), messages[..1]);
    let start = Trim::last(9).start_on([Speaker::Tool]);
    assert_eq!(by_default(&messages, &start), []);
}

#[test]
fn an_unanswered_call_is_kept() {
    let messages = [Message::user("q"), calls(&["x", "y"]), Message::tool("x", "r")];
    assert_eq!(by_default(&messages, &Trim::last(2)), messages[1..]);
    assert_eq!(by_default(&messages[..2], &Trim::last(1)), messages[1..2]);
    assert_eq!(by_default(&messages[..2], &Trim::first(2)), messages[..2]);
    let abandoned = [messages[1].clone(), Message::user("never mind")];
    assert_eq!(by_default(&abandoned, &Trim::first(1)), abandoned[..1]);
}

#[test]
fn calls_and_results_are_never_kept_in_part() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let content = [text("let me"), text("see")];
    let messages = [
        message(json!({"role": "assistant", "content": content, "tool_calls": [call]})),
        message(json!({"role": "tool", "content": content, "tool_call_id": "x"})),
    ];
    let counter = tower_chat_history::tokens::per_message(dummy_count);
    // Each has 14 tokens, and a part of it has 10.
    for (max_tokens, kept) in [(10, 0), (24, 0), (27, 0), (28, 2)] {
        let first = Trim::first(max_tokens).allow_partial();
        assert_eq!(assert_unchanged(&messages, |messages| first.apply(messages, &counter)), messages[..kept]);
        let last = Trim::last(max_tokens).allow_partial();
        assert_eq!(assert_unchanged(&messages, |messages| last.apply(messages, &counter)), messages[..kept]);
    }
    let torn = as_langchain(&messages, &Trim::first(24).allow_partial(), &counter);
    assert_eq!((torn.len(), &*torn[1].text()), (2, "let me"));
    let torn = as_langchain(&messages, &Trim::last(10).allow_partial(), &counter);
    assert_eq!((torn.len(), &*torn[0].text()), (1, "see"));
}

#[test]
fn a_part_next_to_whole_rounds_is_kept() {
    let parts = [json!({"type": "text", "text": "q1"}), json!({"type": "text", "text": "q2"})];
    let messages = [message(json!({"role": "user", "content": parts})), calls(&["x"]), Message::tool("x", "r")];
    let part = message(json!({"role": "user", "content": parts[1..]}));
    let counter = tower_chat_history::tokens::per_message(dummy_count);
    let kept = assert_unchanged(&messages, |messages| Trim::last(30).allow_partial().apply(messages, &counter));
    assert_eq!(kept, [part, messages[1].clone(), messages[2].clone()]);
}

#[test]
fn tool_rounds_are_whole_under_the_conditions_that_a_chat_needs() {
    let messages = [&[Message::system("s")], &parallel()[..], &[Message::assistant("a2")]].concat();
    let trim = |max_tokens| Trim::last(max_tokens).include_system().start_on([Speaker::User]);
    assert_eq!(by_dummy_count(&messages[..1], &trim(10)), messages[..1]);
    let expected = [&messages[..1], &messages[6..]].concat();
    for max_tokens in 3..8 {
        assert_eq!(by_default(&messages, &trim(max_tokens)), expected, "{max_tokens}");
    }
    assert_eq!(by_default(&messages, &trim(8)), messages);
}
