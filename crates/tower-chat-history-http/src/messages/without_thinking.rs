//! Rounds of tool calls that the API refuses because they have lost their thinking.
//!
//! If a request enables thinking with a budget, the API refuses results for a reply without thinking, as of November
//! 2026. The results of the last reply count even if a question follows them. A round loses its thinking, for example,
//! when a cut or another head changes the prompt before it. If the model has replied after the round, the API accepts
//! it. Otherwise, a new question ends its turn, and it is left out from then on: that depends only on messages before
//! the question, so prompts stay prefixes of each other.

use tower_chat_history::{
    Message,
    dialect::{AnthropicMessages, Dialect as _},
};

use crate::json::{self, Object};
use crate::list::range;

/// Returns the window without such rounds, or `None` if it has none. `is_question` is true if the input opens a turn.
pub(super) fn leave_out(window: &[Message], is_question: bool) -> Option<Vec<Message>> {
    let mut sent: Vec<Message> = Vec::with_capacity(window.len());
    let mut has_some = false;
    for message in window {
        if is_asked(message) {
            has_some |= end_turn(&mut sent);
        }
        sent.push(message.clone());
    }
    if is_question {
        has_some |= end_turn(&mut sent);
    }
    has_some.then_some(sent)
}

/// Returns `true` for a message of the user without results.
pub(super) fn is_asked(message: &Message) -> bool {
    !message.is_reply() && message.answers().is_empty() && !message.is_tool_result()
}

/// Leaves out the rounds at the end that have no thinking. Returns `false` if there are none.
fn end_turn(sent: &mut Vec<Message>) -> bool {
    let mut has_some = false;
    while let Some(last) = sent.iter().rposition(Message::is_reply) {
        let first = sent[..last].iter().rposition(|message| !message.is_reply()).map_or(0, |before| before + 1);
        let is_round = sent[last + 1..].iter().any(|message| !message.answers().is_empty());
        if !is_round || sent[first..=last].iter().any(has_thinking) {
            break;
        }
        let others: Vec<Message> = sent.drain(first..).filter_map(|message| without_round(&message)).collect();
        let is_left = others.iter().any(Message::is_reply);
        sent.extend(others);
        has_some = true;
        if is_left {
            break;
        }
    }
    has_some
}

fn has_thinking(reply: &Message) -> bool {
    let blocks = blocks(reply.json()).map(|(_, blocks)| blocks).unwrap_or_default();
    blocks.into_iter().any(|block| kind(block).is_some_and(|kind| matches!(&*kind, "thinking" | "redacted_thinking")))
}

/// Returns what a message says besides calls and results, or `None` if that is nothing.
fn without_round(message: &Message) -> Option<Message> {
    let json = if message.is_reply() {
        let (content, blocks) = blocks(message.json())?;
        let is_call = |block: &&str| kind(block).is_some_and(|kind| kind == "tool_use");
        let others: Vec<&str> = blocks.into_iter().filter(|block| !is_call(block)).collect();
        let place = range(message.json(), content);
        [&message.json()[..place.start], "[", &others.join(","), "]", &message.json()[place.end..]].concat()
    } else if message.answers().is_empty() {
        return Some(message.clone());
    } else {
        AnthropicMessages.answering(message, &[])?
    };
    let rest = Message::in_dialect(&AnthropicMessages, json).ok()?;
    (!rest.index().says_nothing).then_some(rest)
}

/// Returns the content of a message if it is a list, and its blocks.
fn blocks(message: &str) -> Option<(&str, Vec<&str>)> {
    let content = Object::read(message)?.get("content")?;
    Some((content, json::entries(content)?))
}

fn kind(block: &str) -> Option<String> {
    Object::read(block)?.text("type")
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::{Value, json};

    use super::*;

    fn message(role: &str, content: &Value) -> Message {
        let json = json!({"role": role, "content": content}).to_string();
        Message::in_dialect(&AnthropicMessages, json).unwrap()
    }

    fn user(content: &Value) -> Message {
        message("user", content)
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "look", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "r"})
    }

    fn thinking() -> Value {
        json!({"type": "thinking", "thinking": "hm", "signature": "s"})
    }

    fn reply(blocks: &[Value]) -> Message {
        message("assistant", &json!(blocks))
    }

    #[test]
    fn a_round_without_thinking_before_a_question_is_left_out() {
        let (ask, answer) = (user(&json!("u")), user(&json!([result("x")])));
        let bare = reply(&[call("x")]);
        let round = [ask.clone(), bare.clone(), answer.clone()];
        assert_eq!(leave_out(&round, true), Some(vec![ask.clone()]));
        assert_eq!(leave_out(&round, false), None, "the model continues the turn");
        let later = [&round[..], &[ask.clone(), reply(&[text("a")])]].concat();
        let kept = leave_out(&later, false).unwrap();
        assert_eq!(kept, [ask.clone(), ask.clone(), reply(&[text("a")])], "as it was sent for the question");
        assert_eq!(leave_out(&later, true).unwrap(), kept);

        let followed = [&round[..], &[reply(&[text("a")]), ask.clone()]].concat();
        assert_eq!(leave_out(&followed, true), None, "the model has replied");
        let thought = [ask.clone(), reply(&[text("a"), thinking(), call("x")]), answer.clone()];
        assert_eq!(leave_out(&thought, true), None);
        let redacted = json!({"type": "redacted_thinking", "data": "d"});
        assert_eq!(leave_out(&[ask.clone(), reply(&[redacted, call("x")]), answer], true), None);
        assert_eq!(leave_out(&[ask.clone(), reply(&[text("a")])], true), None);
        assert_eq!(leave_out(&[], true), None);
    }

    #[test]
    fn earlier_rounds_are_left_out_up_to_one_with_thinking_or_text() {
        let ask = user(&json!("u"));
        let round = |blocks: &[Value]| [reply(&[blocks, &[call("x")]].concat()), user(&json!([result("x")]))];
        let after = |first: &[Value]| [slice::from_ref(&ask), &round(first), &round(&[]), &round(&[])].concat();
        assert_eq!(leave_out(&after(&[]), true), Some(vec![ask.clone()]));
        let thought = [slice::from_ref(&ask), &round(&[thinking()])].concat();
        assert_eq!(leave_out(&after(&[thinking()]), true), Some(thought));
        let said = vec![ask.clone(), reply(&[text("a")])];
        assert_eq!(leave_out(&after(&[text("a")]), true), Some(said));
    }

    #[test]
    fn what_is_said_beside_calls_and_results_stays() {
        let ask = user(&json!("u"));
        let mixed = user(&json!([result("x"), text("b")]));
        let window = [ask.clone(), reply(&[text("a"), call("x")]), mixed, ask.clone()];
        let kept = [ask.clone(), reply(&[text("a")]), user(&json!([text("b")])), ask.clone()];
        assert_eq!(leave_out(&window, true).unwrap(), kept);
        let paused = [ask.clone(), reply(&[thinking()]), reply(&[call("x")]), user(&json!([result("x")]))];
        assert_eq!(leave_out(&paused, true), None, "consecutive replies are one message of the API");
    }
}
