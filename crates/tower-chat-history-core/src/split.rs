//! Splitting a list of messages into exchanges.

use crate::{
    exchange::{Exchange, Recorded},
    exchange_id::ExchangeId,
    message::Message,
    rounds::NewestRound,
    seq::Seq,
};

impl Recorded {
    /// Returns the log that results if these messages are [imported](crate::Conversation::import) into an empty
    /// conversation. The exchanges have generated ids, and the first one has position 0.
    #[must_use]
    pub fn log(messages: Vec<Message>) -> Vec<Self> {
        let (mut log, mut tail) = (Vec::new(), Tail::default());
        for messages in exchanges(messages) {
            let recorded = Self::new(Seq::new(log.len() as u64), tail.exchange(messages));
            tail.push(&recorded);
            log.push(recorded);
        }
        log
    }
}

/// Splits a log after each reply.
pub(crate) fn exchanges(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let mut exchanges: Vec<Vec<Message>> = Vec::new();
    // True if the next message begins an exchange, unless it is one more element of the reply.
    let mut has_ended = true;
    for message in messages {
        let is_reply = message.is_reply();
        match exchanges.last_mut().filter(|_| !has_ended || message.joins_reply()) {
            Some(exchange) => exchange.push(message),
            None => exchanges.push(vec![message]),
        }
        has_ended = is_reply;
    }
    exchanges
}

/// The part of a log's end that determines the turn of the next exchange.
///
/// An exchange that opens a turn must close all calls that are open before it, because a window may start there. An
/// exchange of only tool results and blank replies would not, so it belongs to the turn before it.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    newest: NewestRound,
    last: Option<Seq>,
}

impl Tail {
    /// Adds the log's next exchange.
    pub(crate) fn push(&mut self, recorded: &Recorded) {
        self.last = Some(recorded.seq);
        self.newest.push(recorded);
    }

    /// Creates an exchange of these messages, in the turn to which they belong.
    pub(crate) fn exchange(&self, messages: Vec<Message>) -> Exchange {
        let continues = self.continued_by(&messages);
        let mut exchange = Exchange::new(ExchangeId::generate(), messages);
        exchange.continues = continues;
        exchange
    }

    /// Returns the exchange that these messages continue, or `None` if they open a turn.
    fn continued_by(&self, messages: &[Message]) -> Option<Seq> {
        self.newest.continued_by(messages).or_else(|| {
            let closes = messages.iter().any(Message::closes_open_calls);
            self.newest.asked().or(self.last).filter(|_| !closes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Message {
        let calls: Vec<String> =
            ids.iter().map(|id| format!(r#"{{"id":"{id}","function":{{"name":"f","arguments":""}}}}"#)).collect();
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
        Message::from_json(json).unwrap()
    }

    /// Returns the position that each exchange of a list continues.
    fn continued(messages: &[Message]) -> Vec<Option<u64>> {
        let log = Recorded::log(messages.to_vec());
        log.iter().map(|recorded| recorded.exchange.continues.map(Seq::get)).collect()
    }

    fn user() -> Message {
        Message::user("u")
    }

    fn blank() -> Message {
        Message::assistant("")
    }

    #[test]
    fn an_exchange_ends_at_each_assistant_message() {
        let log = vec![Message::user("a"), Message::assistant("b"), Message::assistant("c"), Message::user("d")];
        let lens: Vec<usize> = exchanges(log).iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 1, 1]);
        assert!(exchanges(vec![]).is_empty());
    }

    #[test]
    fn results_of_open_calls_continue_the_exchange_that_asked() {
        let (x, y, done) = (Message::tool("x", "r"), Message::tool("y", "r"), Message::assistant("a"));
        let asked = [user(), calls(&["x", "y"])];
        let after = |rest: &[Message]| continued(&[&asked, rest].concat());
        assert_eq!(after(&[x.clone(), y.clone(), done.clone()]), [None, Some(0)]);
        assert_eq!(after(&[y.clone(), blank(), x.clone(), done.clone()]), [None, Some(0), Some(0)]);
        assert_eq!(after(&[blank(), x.clone(), calls(&["z"])]), [None, Some(0), Some(0)]);
        assert_eq!(after(&[x.clone(), y, blank(), done.clone()]), [None, Some(0), Some(0)], "the reply comes late");
        assert_eq!(after(&[user(), x, done]), [None, None], "they were closed by then");
    }

    #[test]
    fn an_exchange_that_leaves_calls_open_opens_no_turn() {
        let orphan = Message::tool("z", "r");
        let asked = [user(), calls(&["x"])];
        let after = |rest: &[Message]| continued(&[&asked, rest].concat());
        assert_eq!(after(&[orphan.clone(), blank()]), [None, Some(0)]);
        assert_eq!(after(&[blank(), blank(), Message::tool("x", "r")]), [None, Some(0), Some(0), Some(0)]);
        assert_eq!(after(std::slice::from_ref(&orphan)), [None, Some(0)]);
        assert_eq!(after(&[orphan.clone(), user(), blank()]), [None, None], "a question closes them");
        assert_eq!(continued(&[user(), Message::assistant("a"), blank()]), [None, Some(0)]);
        assert_eq!(continued(&[orphan, blank(), user()]), [None, None], "before it there is no turn");
    }

    #[test]
    fn calls_can_be_answered_again_after_an_interrupted_reply() {
        let mut log = Recorded::log(vec![user(), calls(&["x"])]);
        let mut partial = Exchange::new(ExchangeId::generate(), [Message::tool("x", "r"), Message::assistant("Let")]);
        (partial.continues, partial.incomplete) = (Some(Seq::FIRST), true);
        log.push(Recorded::new(Seq::new(1), partial));
        let mut tail = Tail::default();
        log.iter().for_each(|recorded| tail.push(recorded));
        let again = tail.exchange(vec![Message::tool("x", "r"), Message::assistant("a")]);
        assert_eq!(again.continues, Some(Seq::FIRST));
        assert_eq!(tail.exchange(vec![user(), Message::assistant("a")]).continues, None);
    }
}
