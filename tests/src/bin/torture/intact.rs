//! Checks of a stored exchange: it must have its task's question and reply, both complete.

use tower_chat_history::{Exchange, Message, Role};

use crate::{
    exchange::{Kind, Task, is_signed},
    signed,
    text::{Part, read},
};

/// Returns the task of an exchange, if it is intact.
///
/// # Errors
///
/// Returns a description of the damage.
pub(crate) fn task(exchange: &Exchange) -> Result<Task, String> {
    let is_chat = exchange.dialect.is_chat_completions();
    let task = if is_chat { chat_task(exchange) } else { signed::task(exchange) }?;
    if is_signed(task.conversation) == is_chat {
        return Err(format!("{} of c{} is in {}", task.name, task.conversation, exchange.dialect));
    }
    Ok(task)
}

fn chat_task(exchange: &Exchange) -> Result<Task, String> {
    let id = exchange.id.as_str();
    let [asked, answered] = exchange.messages.as_slice() else {
        return Err(format!("{id} is incomplete: it has {} messages", exchange.messages.len()));
    };
    let of = |part, message: &Message| match text(message).as_deref().and_then(read) {
        Some((task, read)) if read == part => Ok(task),
        Some((task, read)) => Err(format!("{id} has the text {read:?} of {} instead of {part:?}", task.name)),
        None => Err(format!("{id} has a damaged text instead of {part:?}")),
    };
    let (task, of_answer) = (of(Part::Asked, asked)?, of(Part::Answered, answered)?);
    if task.name.to_string() != id || of_answer != task {
        return Err(format!("{id} has a question of {} and a reply of {}", task.name, of_answer.name));
    }
    let (role, results, calls) = match task.kind {
        Kind::Plain => (Role::User, None, None),
        Kind::Call => (Role::User, None, Some(task.name.call_id())),
        Kind::Step => (Role::Tool, Some(task.name.before().call_id()), Some(task.name.call_id())),
        Kind::Result => (Role::Tool, Some(task.name.before().call_id()), None),
    };
    let has_calls: Vec<&str> = answered.tool_calls().iter().map(tower_chat_history::store::ToolCall::id).collect();
    let is_of_its_kind = *asked.role() == role
        && *answered.role() == Role::Assistant
        && asked.tool_call_id() == results.as_deref()
        && has_calls == Vec::from_iter(calls.as_deref());
    if !is_of_its_kind || exchange.opens_turn() == task.kind.continues() {
        return Err(format!("{id} is not a {}", task.kind.as_str()));
    }
    Ok(task)
}

/// Returns the text of a message, or of the arguments of its call.
pub(crate) fn text(message: &Message) -> Option<String> {
    let Some(call) = message.tool_calls().first() else { return Some(message.text().into_owned()) };
    let arguments: serde_json::Value = serde_json::from_str(call.arguments()).ok()?;
    Some(arguments.get("text")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tower_chat_history::{ExchangeId, store::Seq};

    use super::*;
    use crate::exchange::Name;

    fn of(kind: Kind, number: u32) -> Task {
        Task { name: Name { worker: 1, number }, conversation: 2, kind }
    }

    fn message(task: Task, part: Part) -> Message {
        let text = task.text(part);
        match (task.kind, part) {
            (Kind::Step | Kind::Result, Part::Asked) => Message::tool(task.name.before().call_id(), text),
            (_, Part::Asked) => Message::user(text),
            (Kind::Call | Kind::Step, Part::Answered) => {
                let arguments = json!({"text": text}).to_string();
                let call = json!({"id": task.name.call_id(), "type": "function",
                    "function": {"name": "look", "arguments": arguments}});
                Message::from_json(json!({"role": "assistant", "tool_calls": [call]}).to_string()).unwrap()
            }
            (_, Part::Answered | Part::Numbered(_)) => Message::assistant(text),
        }
    }

    fn exchange(of: Task) -> Exchange {
        let messages = [message(of, Part::Asked), message(of, Part::Answered)];
        let exchange = Exchange::new(ExchangeId::new(of.name.to_string()).unwrap(), messages);
        if of.kind.continues() { exchange.continuing(Seq::FIRST) } else { exchange }
    }

    #[test]
    fn intact_exchanges_are_accepted() {
        for kind in [Kind::Plain, Kind::Call, Kind::Step, Kind::Result] {
            assert_eq!(task(&exchange(of(kind, 4))), Ok(of(kind, 4)));
        }
    }

    #[test]
    fn damaged_exchanges_are_rejected() {
        let (one, other) = (of(Kind::Plain, 4), of(Kind::Plain, 5));
        let mut torn = exchange(one);
        torn.messages.truncate(1);
        assert!(task(&torn).unwrap_err().contains("incomplete"));
        let mut mixed = exchange(one);
        mixed.messages[1] = message(other, Part::Answered);
        assert!(task(&mixed).unwrap_err().contains("a reply of w1-5"));
        let mut turned = exchange(one);
        turned.messages.reverse();
        assert!(task(&turned).unwrap_err().contains("instead of"));
        let mut renamed = exchange(one);
        renamed.id = ExchangeId::new("w1-5").unwrap();
        assert!(task(&renamed).is_err());
        let mut cut = exchange(one);
        cut.messages[0] = Message::user(&one.text(Part::Asked)[..40]);
        assert!(task(&cut).unwrap_err().contains("damaged"));
        let mut opening = exchange(of(Kind::Result, 4));
        opening.continues = None;
        assert!(task(&opening).unwrap_err().contains("is not a result"));
        let mut another_call = exchange(of(Kind::Result, 4));
        another_call.messages[0] = Message::tool("call-w1-2", of(Kind::Result, 4).text(Part::Asked));
        assert!(task(&another_call).is_err());
    }
}
