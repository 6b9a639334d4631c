//! Which tool results belong to which calls: one fold over a log, from left to right.
//!
//! Its only state is the newest round: the last assistant message with calls, as long as nothing but its results stands
//! after it. All that looks at a log's calls goes by it: what is sent, what an input may answer, which calls are open,
//! and to which turn imported messages belong.

mod newest;
mod open;

use std::mem;

pub use self::{newest::NewestRound, open::OpenCalls};
use crate::{
    exchange::Exchange,
    message::{Message, Role},
    seq::Seq,
};

/// A message's part in the rounds of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A reply that says nothing. It changes nothing.
    Blank,
    /// A tool result that answers an open call.
    Answer,
    /// A tool result that answers none: late, repeated, or without its call. It changes nothing.
    Orphan,
    /// Any other message. The calls that were open until then stay without a result; its own, if it has any, are open
    /// now.
    Closes(OpenCalls),
}

/// The rounds of a log, folded message by message. It counts the messages that stay: results that answer, and what
/// closes.
///
/// Between [`begin`](Self::begin) and [`end`](Self::end) stand the messages of an exchange. Then an exchange whose
/// reply [broke off](Exchange::incomplete) after tool results, or one that has nothing but tool results, *gives way* to
/// the next one if that answers the same calls again.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// Tells how many messages there are: those that stay, and a result for each call that was left without one.
    len: usize,
    open: OpenCalls,
    newest: Newest,
}

/// Tells what stands at the end of a log.
#[derive(Clone, Debug, Default)]
enum Newest {
    /// Nothing that can still change.
    #[default]
    Settled,
    /// A round, and nothing but results after its calls.
    Round(Asked),
    /// A round, and an exchange after it that continues it and whose reply broke off.
    Partial { asked: Asked, before: Mark, continues: Option<Seq> },
}

/// The message that asks.
#[derive(Clone, Debug)]
struct Asked {
    /// Tells how many messages there were with it.
    len: usize,
    calls: OpenCalls,
}

/// A state to go back to.
#[derive(Clone, Debug)]
struct Mark {
    len: usize,
    open: OpenCalls,
}

/// An exchange whose messages are being taken.
#[derive(Debug)]
#[must_use = "the exchange has to be ended"]
pub struct Begun {
    /// Tells how many messages stay of those before it, if an attempt gave way to it.
    pub back_to: Option<usize>,
    partial: Option<Newest>,
}

impl Rounds {
    /// Takes the log's next message.
    pub fn push(&mut self, message: &Message) -> Part {
        if !message.closes_open_calls() {
            if message.is_blank_reply() {
                return Part::Blank;
            }
            if !self.open.answer(message) {
                return Part::Orphan;
            }
            self.len += 1;
            return Part::Answer;
        }
        let left = self.close();
        self.len += 1;
        self.open = OpenCalls::of(message);
        self.newest = if self.open.is_empty() {
            Newest::Settled
        } else {
            Newest::Round(Asked { len: self.len, calls: self.open.clone() })
        };
        Part::Closes(left)
    }

    /// Closes the open calls, as the next message that is no tool result would, and returns them. Each counts as a
    /// message: a result that stands in for the one that never came.
    pub fn close(&mut self) -> OpenCalls {
        if !self.open.is_empty() {
            self.newest = Newest::Settled;
        }
        self.len += self.open.len();
        mem::take(&mut self.open)
    }

    /// Begins the log's next exchange. What stands before it may give way to it.
    pub fn begin(&mut self, exchange: &Exchange) -> Begun {
        let back_to = self.make_way(&exchange.messages, |continues| {
            exchange.messages.first().is_some_and(|first| *first.role() == Role::Assistant)
                && continues.is_some_and(|seq| exchange.continues == Some(seq))
        });
        Begun { back_to, partial: self.partial_of(exchange) }
    }

    /// Ends the exchange.
    pub fn end(&mut self, begun: Begun) {
        if let (Newest::Settled, Some(partial)) = (&self.newest, begun.partial) {
            self.newest = partial;
        }
    }

    /// Takes the log's next exchange.
    pub fn push_exchange(&mut self, exchange: &Exchange) {
        let begun = self.begin(exchange);
        for message in &exchange.messages {
            self.push(message);
        }
        self.end(begun);
    }

    /// Makes way for a call's input, if it repeats an attempt, and returns how many messages stay.
    pub fn make_way_for(&mut self, input: &[Message]) -> Option<usize> {
        self.make_way(input, |_| input.is_empty())
    }

    /// The calls of the newest round that have no result yet.
    #[must_use]
    pub const fn open(&self) -> &OpenCalls {
        &self.open
    }

    /// Tells whether the log ends with a round: calls, and nothing but results of them.
    #[must_use]
    pub const fn ends_with_round(&self) -> bool {
        matches!(self.newest, Newest::Round(_))
    }

    /// Tells whether nothing of the log's end can still change: no round is there to be answered, or to be answered
    /// again.
    const fn is_settled(&self) -> bool {
        matches!(self.newest, Newest::Settled)
    }

    /// Goes back to before the attempt that the next messages repeat, if they do. `asks_again` tells whether they
    /// repeat a call that had no input, of an exchange that continues the given one.
    fn make_way(&mut self, next: &[Message], asks_again: impl Fn(Option<Seq>) -> bool) -> Option<usize> {
        let (asked, partial) = match &self.newest {
            Newest::Settled => return None,
            Newest::Round(asked) => (asked, None),
            Newest::Partial { asked, before, continues } => (asked, Some((before, *continues))),
        };
        let results = next.iter().take_while(|message| message.is_tool_result()).count();
        let results = &next[..results];
        let mark = if results.is_empty() {
            partial
                .filter(|(before, continues)| before.open.is_empty() && asks_again(*continues))
                .map(|(before, _)| before.clone())
        } else if self.open.are_answered_by(results) {
            None
        } else {
            // An attempt is repeated whole: what it answered is answered again.
            let repeats = |open: &OpenCalls| open.len() == results.len() && open.are_answered_by(results);
            let before = partial.map(|(before, _)| before).filter(|before| repeats(&before.open)).cloned();
            before.or_else(|| repeats(&asked.calls).then(|| Mark { len: asked.len, open: asked.calls.clone() }))
        }?;
        self.newest = Newest::Round(asked.clone());
        self.open = mark.open;
        self.len = mark.len;
        Some(mark.len)
    }

    /// Tells what to go on with after this exchange, if its reply broke off and it continues the newest round.
    fn partial_of(&self, exchange: &Exchange) -> Option<Newest> {
        let Newest::Round(asked) = &self.newest else { return None };
        let first = exchange.messages.first().filter(|_| exchange.incomplete)?;
        let continues = if self.open.is_empty() {
            *first.role() == Role::Assistant
        } else {
            self.open.are_answered_by(std::slice::from_ref(first))
        };
        let before = Mark { len: self.len, open: self.open.clone() };
        continues.then(|| Newest::Partial { asked: asked.clone(), before, continues: exchange.continues })
    }
}

impl Message {
    /// Tells whether it closes the calls that are open before it, as all messages do but tool results and [blank
    /// replies](Self::is_blank_reply). What stands in a log before such a message has no part in what is open after it.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        !self.is_tool_result() && !self.is_blank_reply()
    }
}

impl Exchange {
    /// Tells whether one of its messages [closes](Message::closes_open_calls) the calls that are open before it. An
    /// exchange that opens a turn does, but for edited logs: there it may have only tool results and blank replies.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        self.messages.iter().any(Message::closes_open_calls)
    }
}
