//! Making a log of a list of messages.

use crate::{Exchange, ExchangeId, Message, Recorded, Role, Seq};

impl Recorded {
    /// The log that these messages would be if they were [imported](crate::Conversation::import): an exchange ends at each
    /// assistant message, and tool results that answer the calls of the exchange before continue its turn. The exchanges have
    /// generated ids, and the first one has position 0.
    #[must_use]
    pub fn log(messages: Vec<Message>) -> Vec<Self> {
        let mut log: Vec<Self> = Vec::new();
        for messages in exchanges(messages) {
            let mut exchange = Exchange::new(ExchangeId::generate(), messages);
            exchange.continues = log.last().filter(|last| answers(&exchange, &last.exchange)).map(|last| last.seq);
            log.push(Self::new(Seq::new(log.len() as u64), exchange));
        }
        log
    }
}

/// Splits a log after each assistant message.
pub(crate) fn exchanges(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let mut exchanges = vec![Vec::new()];
    for message in messages {
        let ends = *message.role() == Role::Assistant;
        if let Some(exchange) = exchanges.last_mut() {
            exchange.push(message);
        }
        if ends {
            exchanges.push(Vec::new());
        }
    }
    exchanges.retain(|exchange| !exchange.is_empty());
    exchanges
}

/// Whether an exchange begins with a result of the calls that the one before ended with.
pub(crate) fn answers(exchange: &Exchange, before: &Exchange) -> bool {
    let calls = before.messages.last().map(Message::tool_calls).unwrap_or_default();
    let first = exchange.messages.first().filter(|message| message.is_tool_result());
    first.and_then(Message::tool_call_id).is_some_and(|id| calls.iter().any(|call| call.id() == id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_ends_at_each_assistant_message() {
        let log = vec![Message::user("a"), Message::assistant("b"), Message::assistant("c"), Message::user("d")];
        let lens: Vec<usize> = exchanges(log).iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 1, 1]);
        assert!(exchanges(vec![]).is_empty());
    }

    #[test]
    fn only_results_of_the_last_calls_continue_a_turn() {
        let calls =
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":""}}]}"#;
        let exchange = |message| Exchange::new(ExchangeId::generate(), [message]);
        let before = exchange(Message::from_json(calls).unwrap());
        assert!(answers(&exchange(Message::tool("x", "r")), &before));
        assert!(!answers(&exchange(Message::tool("y", "r")), &before));
        assert!(!answers(&exchange(Message::user("x")), &before));
        assert!(!answers(&exchange(Message::tool("x", "r")), &exchange(Message::assistant("hi"))));
    }
}
