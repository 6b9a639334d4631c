//! The assignment of tool results to calls: one fold over a log, from first to last message.
//!
//! The fold's state is the newest round: the last reply with calls, if only their results follow it. All code
//! that needs the calls of a log uses this fold: the view that is sent, the check of an input, the open calls, and the
//! turns of imported messages.
//!
//! The fold also decides which messages are sent at all. It leaves out [blank](Message::is_blank) ones, such as replies
//! without text and calls, and results that answer no open call (see [`Placed::Nowhere`]).
//!
//! # Decisions
//!
//! - **An exchange that opens a turn abandons the open calls before it.** A window may begin at any such exchange, so
//!   no exchange before one may still wait for results.
//! - **A repeated call replaces an earlier attempt.** The prompt of the repeated call didn't contain the attempt, so
//!   later prompts don't either. Each exchange with results stores the position of the calls that it answers, because
//!   providers reuse ids.
//! - **Two calls with the same id in one message need two results**: some providers send such calls, and agents answer
//!   each of them.

mod open;
#[cfg(test)]
mod plain_tests;

use std::{mem, slice};

pub use self::open::OpenCalls;
use crate::{
    exchange::{Exchange, Recorded},
    message::{CallId, Closes, Index, Message, Role, ToolCall},
    seq::Seq,
};

/// The place of a message in the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The message is not sent, and changes nothing. It says nothing, or it has only results that are late, repeated,
    /// or answer no call, or it must be [followed](crate::Bound) by an element that is missing.
    Nowhere,
    /// The message is sent.
    Sent {
        /// The form in which it is sent: without results that answer no open call.
        message: Message,
        /// The calls that the message closes, and that get a constant result before it. Usually there are none.
        closed: OpenCalls,
    },
}

/// The rounds of a log, folded message by message. It counts the messages that are sent: results that answer a
/// call, and messages that close calls.
///
/// The messages between [`begin`](Self::begin) and [`end`](Self::end) are those of one exchange. An unfinished attempt
/// to answer calls is replaced by the next exchange if that exchange answers the same calls again: the attempt's
/// messages no longer count. An exchange that [continues](Exchange::continues) another one than that with these calls
/// answers other calls, which may have the same ids. An attempt is unfinished if it has only tool results, or if its
/// reply was [interrupted](Exchange::incomplete) after tool results.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// The number of messages: those that are sent, and one substitute for each call without a result.
    len: usize,
    open: OpenCalls,
    newest: Newest,
    /// The position of the exchange whose messages are being added, if it is known.
    at: Option<Seq>,
}

/// The state at the end of a log.
#[derive(Clone, Debug, Default)]
enum Newest {
    /// No earlier message can still be answered, or answered again.
    #[default]
    Finished,
    /// A round, with only results after its calls. A reply that the model [paused](Exchange::is_paused) is a round
    /// without calls.
    Round(Asked),
    /// A round, and an exchange after it that continues it and whose reply was interrupted.
    Partial { asked: Asked, before: Mark, continues: Option<Seq> },
}

/// The reply with the calls.
#[derive(Clone, Debug)]
struct Asked {
    /// The position of the exchange with its last calls, if it is known.
    at: Option<Seq>,
    /// The number of messages up to and including the reply.
    len: usize,
    calls: OpenCalls,
}

/// A state to return to.
#[derive(Clone, Debug)]
struct Mark {
    len: usize,
    open: OpenCalls,
}

/// The calls that a message answers.
enum Answer {
    /// The message has no results.
    NoResults,
    /// Its results answer no open call, and it has nothing else.
    NoCall,
    /// Its results answer open calls.
    Calls,
    /// Some of its results answer no open call.
    Part {
        /// The rest of the message.
        message: Message,
        /// `true` if others answer open calls.
        answers_calls: bool,
    },
}

/// An exchange whose messages are being added.
#[derive(Debug)]
#[must_use = "the exchange has to be ended"]
pub struct ExchangeStart {
    /// If this exchange replaced an earlier attempt: the number of messages before it that still count.
    pub back_to: Option<usize>,
    partial: Option<Newest>,
    is_paused: bool,
}

impl Rounds {
    /// Adds the log's next message. `rest` has the messages after it in the same exchange.
    pub fn push(&mut self, message: &Message, rest: &[Message]) -> Placed {
        let index = message.index();
        if !may_be_sent(index, rest) {
            return Placed::Nowhere;
        }

        let (answering, answers_calls) = match self.answer(message) {
            Answer::NoResults => (None, false),
            Answer::NoCall => return Placed::Nowhere,
            Answer::Calls => (None, true),
            Answer::Part { message, answers_calls } => (Some(message), answers_calls),
        };

        let sent = answering.as_ref().unwrap_or(message).sendable().into_owned();
        let closed = if self.joins(index) {
            self.join(message, !answers_calls);
            OpenCalls::default()
        } else {
            self.close_by(message)
        };
        Placed::Sent { message: sent, closed }
    }

    /// Returns `true` if no earlier message can still be answered.
    fn is_finished(&self) -> bool {
        matches!(self.newest, Newest::Finished) && self.open.is_empty()
    }

    /// Adds the log's next exchange and returns `true` if the exchange only says something and no earlier message can
    /// still be answered. Most exchanges are like that. All their messages are [plain](Message::is_plain): they are sent
    /// as they are, and close no calls.
    ///
    /// Otherwise this returns `false` and changes nothing. Then use [`begin`](Self::begin), [`push`](Self::push) and
    /// [`end`](Self::end). They have the same outcome for a plain exchange, but take longer.
    ///
    /// Recalled messages are not looked at. If the exchange has some that are sent, use [`begin`](Self::begin).
    #[inline]
    pub fn push_plain_exchange(&mut self, Recorded { seq, exchange, .. }: &Recorded) -> bool {
        let is_plain = self.is_finished() && exchange.messages.iter().all(Message::is_plain) && !exchange.is_paused();
        if is_plain {
            self.at = Some(*seq);
            self.len += exchange.messages.len();
        }
        is_plain
    }

    /// Answers the open calls that a message has results for.
    fn answer(&mut self, message: &Message) -> Answer {
        let answers = message.answers();
        if answers.is_empty() && !message.is_tool_result() {
            return Answer::NoResults;
        }
        let known: Vec<CallId> = answers.iter().filter(|id| self.open.answer(id)).cloned().collect();
        if known.len() == answers.len() && !known.is_empty() {
            return Answer::Calls;
        }
        match message.answering(&known) {
            Some(message) => Answer::Part { message, answers_calls: !known.is_empty() },
            None if known.is_empty() => Answer::NoCall,
            None => Answer::Calls,
        }
    }

    /// Adds a message that closes no calls.
    fn join(&mut self, message: &Message, has_no_results: bool) {
        self.len += 1;
        if let Newest::Round(asked) = &mut self.newest
            && has_no_results
            && asked.calls.len() == self.open.len()
        {
            // It is a part of the reply with the calls.
            // Released first, so that the calls are not copied for each element.
            asked.calls = OpenCalls::default();
            self.open.add(message, self.at);
            // A text of another exchange, which was stored at the same time, has no calls that could be answered.
            let at = if message.tool_calls().is_empty() { asked.at } else { self.at };
            *asked = Asked { at, len: self.len, calls: self.open.clone() };
        }
    }

    /// Adds a message that closes the open calls, and returns these.
    fn close_by(&mut self, message: &Message) -> OpenCalls {
        let closed = self.close();
        self.len += 1;
        self.open.add(message, self.at);
        self.newest = if self.open.is_empty() {
            Newest::Finished
        } else {
            Newest::Round(Asked { at: self.at, len: self.len, calls: self.open.clone() })
        };
        closed
    }

    /// Returns `true` if a message leaves the open calls open.
    fn joins(&self, index: &Index) -> bool {
        match index.closes {
            Closes::Always => false,
            Closes::AfterResult => self.is_unanswered(),
            Closes::Never => index.opens.is_empty() || self.is_unanswered(),
        }
    }

    /// Returns `true` if the log ends with a round, and none of its calls has a result.
    fn is_unanswered(&self) -> bool {
        matches!(&self.newest, Newest::Round(asked) if asked.calls.len() == self.open.len())
    }

    /// Closes the open calls and returns them, as if a message other than a tool result followed. Each closed call
    /// counts as one message: the substitute for its missing result.
    pub fn close(&mut self) -> OpenCalls {
        if !self.open.is_empty() {
            self.newest = Newest::Finished;
        }
        self.len += self.open.len();
        mem::take(&mut self.open)
    }

    /// Begins the log's next exchange. It may replace the exchange before it.
    #[inline]
    pub fn begin(&mut self, Recorded { seq, exchange, .. }: &Recorded) -> ExchangeStart {
        let is_paused = exchange.is_paused();
        if matches!(self.newest, Newest::Finished) {
            // Most exchanges follow a finished one, which is not replaced and has no part.
            self.at = Some(*seq);
            return ExchangeStart { back_to: None, partial: None, is_paused };
        }
        let back_to = if self.continues_newest(exchange) {
            self.drop_attempt(&exchange.messages, |continues| {
                exchange.messages.first().is_some_and(Message::is_reply)
                    && continues.is_some_and(|seq| exchange.continues == Some(seq))
            })
        } else {
            None
        };
        self.at = Some(*seq);
        ExchangeStart { back_to, partial: self.partial_of(exchange), is_paused }
    }

    /// Returns `false` if the exchange continues another one than that with the newest calls.
    fn continues_newest(&self, exchange: &Exchange) -> bool {
        match (exchange.continues, self.asked()) {
            (Some(continued), Some(at)) => continued == at,
            _ => true,
        }
    }

    /// Ends the exchange.
    #[inline]
    pub fn end(&mut self, begun: ExchangeStart) {
        if !matches!(self.newest, Newest::Finished) {
            return;
        }
        if let Some(partial) = begun.partial {
            self.newest = partial;
        } else if begun.is_paused {
            self.newest = Newest::Round(Asked { at: self.at, len: self.len, calls: OpenCalls::default() });
        }
    }

    /// Adds the log's next exchange.
    pub fn push_exchange(&mut self, recorded: &Recorded) {
        let begun = self.begin(recorded);
        self.push_begun(begun, &recorded.exchange.messages);
    }

    /// Adds the messages of the exchange that was begun, and ends it.
    pub(crate) fn push_begun(&mut self, begun: ExchangeStart, messages: &[Message]) {
        for (message, rest) in with_rest(messages) {
            self.push(message, rest);
        }
        self.end(begun);
    }

    /// Removes the attempt that a call's input repeats, if there is one. Returns the number of messages before the
    /// input that still count, or `None` if no attempt was removed.
    pub fn drop_attempt_before(&mut self, input: &[Message]) -> Option<usize> {
        self.drop_attempt(input, |_| input.is_empty())
    }

    /// Returns the calls of the newest round that have no result yet.
    #[must_use]
    pub const fn open(&self) -> &OpenCalls {
        &self.open
    }

    /// Returns `true` if the log ends with a round: calls followed only by their results, or a reply that the model
    /// [paused](Exchange::is_paused).
    #[must_use]
    pub const fn ends_with_round(&self) -> bool {
        matches!(self.newest, Newest::Round(_))
    }

    /// Returns `true` if all calls of the newest round have their results, or the model [paused](Exchange::is_paused),
    /// and the model has not replied to that. A request then needs no input.
    #[must_use]
    pub fn awaits_reply(&self) -> bool {
        self.ends_with_round() && self.open.is_empty()
    }

    /// Returns the position of the exchange whose calls the next messages may answer, or answer again, or whose
    /// [paused](Exchange::is_paused) reply the next call may continue. Returns `None` if there is none, or if its
    /// position is not known.
    #[must_use]
    pub const fn asked(&self) -> Option<Seq> {
        match &self.newest {
            Newest::Finished => None,
            Newest::Round(asked) | Newest::Partial { asked, .. } => asked.at,
        }
    }

    /// Restores the state before the attempt that the next messages repeat, if there is one. Returns the number of
    /// messages that still count. `asks_again` is called if the next messages begin without a tool result. It returns
    /// `true` if they repeat a call without input, whose exchange continues the given position.
    fn drop_attempt(&mut self, next: &[Message], asks_again: impl Fn(Option<Seq>) -> bool) -> Option<usize> {
        let (asked, partial) = match &self.newest {
            Newest::Finished => return None,
            Newest::Round(asked) => (asked, None),
            Newest::Partial { asked, before, continues } => (asked, Some((before, *continues))),
        };
        let results = next.iter().take_while(|message| message.is_tool_result() || message.has_results()).count();
        let results = &next[..results];
        let mark = if results.is_empty() {
            partial
                .filter(|(before, continues)| before.open.is_empty() && asks_again(*continues))
                .map(|(before, _)| before.clone())
        } else if self.open.are_answered_by(results) {
            None
        } else {
            // An attempt is repeated as a whole: all calls that it answered are answered again.
            match partial {
                Some((before, _)) if before.open.are_all_answered_by(results) => Some(before.clone()),
                _ if asked.calls.are_all_answered_by(results) => {
                    Some(Mark { len: asked.len, open: asked.calls.clone() })
                }
                _ => None,
            }
        }?;

        self.newest = Newest::Round(asked.clone());
        self.open = mark.open;
        self.len = mark.len;
        Some(mark.len)
    }

    /// Returns the state after this exchange, if its reply was interrupted and it continues the newest round.
    fn partial_of(&self, exchange: &Exchange) -> Option<Newest> {
        let Newest::Round(asked) = &self.newest else { return None };
        // An exchange that closes no calls does not end the round.
        if !exchange.incomplete || !exchange.messages.iter().any(Message::may_close) {
            return None;
        }

        let first = exchange.messages.first()?;
        let continues =
            if self.open.is_empty() { first.is_reply() } else { self.open.are_answered_by(slice::from_ref(first)) };

        let before = Mark { len: self.len, open: self.open.clone() };
        continues.then(|| Newest::Partial { asked: asked.clone(), before, continues: exchange.continues })
    }
}

/// The newest round of a log: its last calls, as long as only their results follow them.
///
/// Build it by adding exchanges in the log's order. Start at the log's beginning, or at any exchange that [closes
/// open calls](crate::Exchange::closes_open_calls): the exchanges before it do not change the result.
#[derive(Clone, Debug, Default)]
pub struct NewestRound {
    rounds: Rounds,
}

impl NewestRound {
    /// Returns the newest round of these exchanges.
    pub fn of<'a>(log: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut newest = Self::default();
        log.into_iter().for_each(|recorded| newest.push(recorded));
        newest
    }

    /// Adds the log's next exchange.
    pub fn push(&mut self, recorded: &Recorded) {
        self.rounds.push_exchange(recorded);
    }

    /// Returns the calls that have no result yet.
    #[must_use]
    pub const fn open(&self) -> &OpenCalls {
        self.rounds.open()
    }

    /// Returns the position of the exchange whose calls the next messages may answer, or answer again, or whose
    /// [paused](crate::Exchange::is_paused) reply the next call may continue. Returns `None` if there is none.
    #[must_use]
    pub const fn asked(&self) -> Option<Seq> {
        self.rounds.asked()
    }

    /// Returns the exchange that these messages continue if they are added to the log next: they answer its calls, or
    /// reply to the results of its calls. If they [repeat](Rounds) an unfinished attempt, that attempt does not count.
    pub(crate) fn continued_by(&self, messages: &[Message]) -> Option<Seq> {
        let mut rounds = self.rounds.clone();
        rounds.drop_attempt(messages, |_| messages.first().is_some_and(Message::is_reply));

        let closing = messages.iter().position(Message::closes_open_calls);
        let before = &messages[..closing.unwrap_or(messages.len())];
        let answers = before.iter().any(|message| rounds.open().are_answered_by(slice::from_ref(message)));
        let replies = messages.iter().find(|message| message.may_close()).is_some_and(Message::is_reply);
        let continues = rounds.ends_with_round() && (answers || rounds.open().is_empty() && replies);
        rounds.asked().filter(|_| continues)
    }

    /// Returns the calls that have no result yet, with names and arguments. `log` must be the log that this was
    /// built from.
    #[must_use]
    pub fn open_calls(&self, log: &[Recorded]) -> Vec<ToolCall> {
        let asked = log.iter().rposition(|recorded| Some(recorded.seq) == self.asked());
        let mut open: Vec<&CallId> = self.open().ids().collect();
        let mut calls = Vec::with_capacity(open.len());

        // The calls of a round can be in several exchanges. Of several calls with the same id, the first ones were
        // answered first.
        for recorded in log[..asked.map_or(0, |asked| asked + 1)].iter().rev() {
            if open.is_empty() {
                break;
            }
            let mut asked: Vec<&ToolCall> = Vec::new();
            for (message, rest) in with_rest(&recorded.exchange.messages) {
                if may_be_sent(message.index(), rest) {
                    asked.extend(message.tool_calls());
                }
            }
            for call in asked.into_iter().rev() {
                if open.pop_if(|id| *id == call.call_id()).is_some() {
                    calls.push(call.clone());
                }
            }
        }

        calls.reverse();
        calls
    }
}

impl Message {
    /// Returns `true` if the message always [closes](Closes) the calls that are open before it. Messages before it then
    /// do not influence which calls are open after it. A message that [is blank](Self::is_blank) closes none.
    /// In chat completions, all other messages close them, except tool results.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        let index = self.index();
        index.closes == Closes::Always && !index.is_blank
    }

    /// Returns `true` if there is a state in which the message closes calls.
    fn may_close(&self) -> bool {
        self.index().closes != Closes::Never && !self.is_blank()
    }
}

/// Returns `true` if a message may be sent: it says something, and is followed if it must be. `rest` has the messages
/// after it in the same exchange. All other messages are left out, and change nothing.
#[inline]
fn may_be_sent(index: &Index, rest: &[Message]) -> bool {
    !index.is_blank && (!index.bound.to_next || is_followed(rest))
}

/// The largest number of elements in a row that must each be followed by the next one. More are not examined, so that
/// the work stays linear.
const LONGEST_CHAIN: usize = 64;

/// Returns `true` if the next element of a reply is sent after an element that must be followed. Messages that say
/// nothing are not sent, so they do not count. An element that must be followed itself is sent only if its next one is.
fn is_followed(rest: &[Message]) -> bool {
    let spoken = rest.iter().filter(|message| !message.is_blank());
    let elements = spoken.take_while(|next| next.is_reply() || matches!(next.role(), Role::Other(_)));
    elements.take(LONGEST_CHAIN).any(|next| !next.bound().to_next)
}

/// Returns each message, with the messages after it.
pub(crate) fn with_rest(messages: &[Message]) -> impl Iterator<Item = (&Message, &[Message])> {
    (1..).zip(messages).map(|(after, message)| (message, &messages[after..]))
}

impl Exchange {
    /// Returns `true` if the model paused its reply, and [continues](crate::Dialect::resumes_without_input) it without
    /// further input. If the finish reason is not known, a reply counts as paused if it waits for a [call that the
    /// provider executes itself](Index::server_calls), and for no other call.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let Some(last) = self.reply().last().filter(|_| !self.incomplete) else { return false };
        match &self.finish_reason {
            Some(reason) => last.dialect().is_some_and(|dialect| dialect.resumes_without_input(reason)),
            None => last.tool_calls().is_empty() && !last.index().server_calls.is_empty(),
        }
    }

    /// Returns `true` if the reply has reasoning that is [bound to its prompt](crate::Bound::to_prefix).
    #[must_use]
    pub fn is_bound_to_prompt(&self) -> bool {
        self.reply().iter().any(|message| message.bound().to_prefix)
    }

    /// Returns `true` if one of its messages [closes](Message::closes_open_calls) the calls that are open before
    /// it. An exchange that opens a turn does, except in edited logs, where it may have only tool results and blank
    /// replies.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        self.messages.iter().any(Message::closes_open_calls)
    }
}
