//! Checks of a stored exchange: it must have its task's input and reply, element by element.

use serde_json::Value;
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tower_chat_history::{Exchange, Message, Role, dialect::Digest};

use super::{input, script};
use crate::{
    exchange::Task,
    text::{Part, read},
};

/// Returns the task of an exchange, if it is intact. Signatures are not checked, because they depend on the prompt.
///
/// # Errors
///
/// Returns a description of the damage.
pub(crate) fn task(exchange: &Exchange) -> Result<Task, String> {
    let id = exchange.id.as_str();
    let Some((task, Part::Numbered(0))) = exchange.messages.iter().find_map(first_text) else {
        return Err(format!("{id} has a damaged text instead of its first one"));
    };
    if task.name.to_string() != id {
        return Err(format!("{id} has an input of {}", task.name));
    }
    let (input, script) = (input(task).map_err(to_text)?, script(task).map_err(to_text)?);
    if !input.iter().map(Message::json).eq(exchange.input().iter().map(Message::json)) {
        return Err(format!("{id} has another input, of {} elements", exchange.input().len()));
    }
    let Some(provenance) = &exchange.provenance else { return Err(format!("{id} has no provenance")) };
    let said = said_by(provenance.origin.provider.as_deref().unwrap_or_default(), &script)?;
    if !said.iter().map(unsigned).eq(exchange.reply().iter().map(unsigned)) {
        return Err(format!("{id} has another reply, of {} elements", exchange.reply().len()));
    }
    if exchange.opens_turn() == task.kind.continues() {
        return Err(format!("{id} is not a {}", task.kind.as_str()));
    }
    Ok(task)
}

/// Returns the first text of an element of the user.
fn first_text(message: &Message) -> Option<(Task, Part)> {
    let element: Value = serde_json::from_str(message.json()).ok()?;
    let text = element.pointer("/results/0/text").or_else(|| element.get("text"))?;
    read(text.as_str()?)
}

/// Returns the elements that a provider makes of a script, after another prompt.
fn said_by(provider: &str, script: &[Say]) -> Result<Vec<Message>, String> {
    let prompt = Message::compose(&SigningDialect, &Role::User, "?").map_err(to_text)?;
    SigningProvider::new(provider).reply(Digest::default(), &[prompt], script).map_err(to_text)
}

/// Returns the JSON of an element before and after its signature, or twice the whole JSON.
fn unsigned(message: &Message) -> (&str, &str) {
    // Within a text, the quotation marks would be escaped.
    let Some((before, after)) = message.json().split_once(r#","signature":""#) else {
        return (message.json(), message.json());
    };
    (before, after.split_once('"').map_or("", |(_, rest)| rest))
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use tower_chat_history::ExchangeId;

    use super::*;
    use crate::{
        exchange::{Kind, Name},
        signed::exchange,
    };

    fn of(kind: Kind, number: u32) -> Task {
        Task { name: Name { worker: 1, number }, conversation: 1, kind }
    }

    #[test]
    fn intact_exchanges_are_accepted() {
        for kind in [Kind::Plain, Kind::Call, Kind::Step, Kind::Result] {
            for number in 1..50 {
                assert_eq!(task(&exchange(of(kind, number))), Ok(of(kind, number)));
            }
        }
    }

    #[test]
    fn damaged_exchanges_are_rejected() {
        let found = |damage: &dyn Fn(&mut Exchange), what: &str| {
            let mut damaged = exchange(of(Kind::Result, 4));
            damage(&mut damaged);
            let error = task(&damaged).unwrap_err();
            assert!(error.contains(what), "{what}: {error}");
        };
        found(&|exchange| drop(exchange.messages.pop()), "another input");
        found(&|exchange| drop(exchange.messages.remove(0)), "instead of its first one");
        found(&|exchange| exchange.reply_len += 1, "another input");
        found(&|exchange| exchange.messages.push(exchange.messages[1].clone()), "another input");
        let swap = |exchange: &mut Exchange| {
            let last = exchange.messages.len() - 1;
            exchange.messages.swap(last, last - 1);
        };
        found(&swap, "another reply");
        let of_another = |exchange: &mut Exchange| {
            let last = exchange.messages.len() - 1;
            exchange.messages[last] = Message::compose(&SigningDialect, &Role::Assistant, "x").unwrap();
        };
        found(&of_another, "another reply");
        found(&|exchange| exchange.provenance = None, "has no provenance");
        found(&|exchange| exchange.continues = None, "is not a result");
        found(&|exchange| exchange.id = ExchangeId::new("w1-5").unwrap(), "has an input of w1-4");
    }
}
