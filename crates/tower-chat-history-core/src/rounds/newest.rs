//! The newest round of a log, and the exchange with its calls.

use std::slice;

use super::{OpenCalls, Rounds, counts, with_rest};
use crate::{
    exchange::Recorded,
    message::{CallId, Message, ToolCall},
    seq::Seq,
};

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
        rounds.make_way(messages, |_| messages.first().is_some_and(Message::is_reply));
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
            let said = with_rest(&recorded.exchange.messages).filter(|(message, rest)| counts(message.index(), rest));
            let said: Vec<&ToolCall> = said.flat_map(|(message, _)| message.tool_calls()).collect();
            let said = said.into_iter().rev();
            calls.extend(said.filter(|call| open.pop_if(|id| *id == call.call_id()).is_some()).cloned());
        }
        calls.reverse();
        calls
    }
}
