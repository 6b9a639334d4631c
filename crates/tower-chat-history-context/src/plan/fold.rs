//! The window as it would be sent, with the exchange and the round of each message.

use tower_chat_history_core::{Closes, Message, Recorded, Seq};

use super::linked;
use crate::{
    opening,
    server_tools::needs_reply,
    view::{Source, View},
};

/// A message of the [view](crate::view), with its exchange and its round.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) message: Message,
    /// The position of its exchange.
    pub(super) seq: Seq,
    /// The round that it belongs to: it is an element of a reply with calls, or has results. Substitutes for missing
    /// results belong to it too. A message that stands for everything before it belongs to a round only if it has
    /// calls.
    pub(super) round: Option<Round>,
    /// The message that stays if the round is left out: what the message says besides its results.
    pub(super) rest: Option<Message>,
    /// True for the recalled messages of its exchange.
    pub(super) is_recalled: bool,
    /// True for the elements of its exchange's reply.
    pub(super) is_reply: bool,
    /// True if [calls or results](crate::server_tools) of the provider are left out of the message.
    pub(super) is_settled: bool,
    /// True while the [rule for reasoning](super::reasoning) is applied, if it leaves out the item.
    pub(super) is_left_out: bool,
}

/// The positions of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// The exchange with its calls.
    pub(super) asked: Seq,
    /// The exchange of the message after its last result. For a round at the end of the log, it is the log's next
    /// exchange.
    ///
    /// A cut leaves out a round if this position is before the cut's `rounds_start`. A round at the end of the log has
    /// the position of an exchange that does not exist yet, so no stored cut leaves it out. The next exchange may still
    /// answer it, or answer it again.
    pub(super) followed: Seq,
}

impl Item {
    /// Returns `true` if the message is kept whole in a window that starts at `window` and leaves out the rounds that
    /// are followed by an exchange before `rounds`.
    pub(super) fn is_kept(&self, window: Seq, rounds: Seq) -> bool {
        self.seq >= window && self.round.is_none_or(|round| round.asked >= window && round.followed >= rounds)
    }

    /// Returns the message as it is sent in such a window: whole, only its rest, or `None` if nothing of it is kept.
    pub(super) fn message_in(&self, window: Seq, rounds: Seq) -> Option<&Message> {
        if self.is_kept(window, rounds) {
            Some(&self.message)
        } else {
            self.rest.as_ref().filter(|_| self.seq >= window)
        }
    }

    /// Returns the item in such a window: whole, only its rest, or `None` if nothing of it is kept.
    pub(super) fn kept(self, window: Seq, rounds: Seq) -> Option<Self> {
        if self.is_kept(window, rounds) { Some(self) } else { self.without_round().filter(|item| item.seq >= window) }
    }

    /// Returns the item without its round, or `None` if nothing is left.
    pub(super) fn without_round(self) -> Option<Self> {
        if self.round.is_none() {
            return Some(self);
        }
        let message = self.rest?;
        Some(Self {
            message,
            round: None,
            rest: None,
            seq: self.seq,
            is_recalled: self.is_recalled,
            is_reply: self.is_reply,
            is_settled: self.is_settled,
            is_left_out: self.is_left_out,
        })
    }
}

/// The view of a window. Whole rounds can be left out of it, and so can everything before a turn's opening: the
/// remaining messages are then the view of the remaining log, because the view depends only on the newest round.
#[derive(Debug)]
pub(super) struct Folded {
    view: View,
    places: Places,
    /// The position after the last exchange.
    next: Seq,
}

/// The places of the view's messages in the log.
#[derive(Debug, Default)]
struct Places {
    of_messages: Vec<Place>,
    rounds: Vec<Round>,
}

/// The exchange and the round of a message.
#[derive(Clone, Copy, Debug)]
struct Place {
    seq: Seq,
    /// The index of the round that the message belongs to.
    round: Option<usize>,
    /// The number of rounds that begin at or before the message. It may belong to none of them: another reply to the
    /// same results can be between calls and their results.
    rounds: usize,
    /// True for the recalled messages of the exchange.
    is_recalled: bool,
    is_reply: bool,
}

/// A message that was added to the view.
#[derive(Clone, Copy, Debug)]
struct Added {
    /// The position of its exchange.
    seq: Seq,
    source: Source,
    is_reply: bool,
    /// True for the elements of a reply with calls.
    is_of_round: bool,
}

impl Folded {
    /// Folds these exchanges, without the recalled messages of those before `recalled_from`. If there are none, `next`
    /// is the position of the log's next exchange.
    pub(super) fn of(exchanges: &[Recorded], next: Seq, recalled_from: Seq) -> Self {
        let messages = exchanges.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        let places = Places { of_messages: Vec::with_capacity(messages), rounds: Vec::new() };
        let mut folded = Self { view: View::with_capacity(messages), places, next };
        for recorded in exchanges {
            folded.push(recorded, recalled_from);
        }
        folded
    }

    fn push(&mut self, recorded: &Recorded, recalled_from: Seq) {
        let Recorded { seq, exchange, .. } = recorded;
        let Self { view, places, .. } = self;
        let recalled = exchange.recalled.as_ref().filter(|_| *seq >= recalled_from);
        let asks = exchange.reply().iter().any(|message| !message.tool_calls().is_empty());
        let reply_start = exchange.messages.len() - exchange.reply().len();
        view.push_exchange_with(recorded, recalled, |view, before, source| {
            let is_reply = matches!(source, Source::Log(index) if index >= reply_start);
            let added = Added { seq: *seq, source, is_reply, is_of_round: asks && is_reply };
            places.truncate(before);
            places.add(view, before, added);
        });
        // Even if no message was pushed, an earlier exchange may have given way.
        places.truncate(view.messages().len());
        self.next = seq.next();
    }

    /// Removes the exchange that the input of a call repeats, if the log ends with one.
    pub(super) fn make_way_for(&mut self, input: &[Message]) {
        self.view.make_way_for(input);
        self.places.truncate(self.view.messages().len());
    }

    pub(super) const fn view(&self) -> &View {
        &self.view
    }

    /// Returns the exchange whose calls, or whose paused reply, the next input may continue.
    pub(super) const fn asked_by(&self) -> Option<Seq> {
        self.view.rounds().asked()
    }

    /// Returns the index of the input message that repeats the open calls, if there is one.
    pub(super) fn open_calls_in(&self, input: &[Message]) -> Option<usize> {
        let asks = |message: &&Message| !message.tool_calls().is_empty();
        let open = self.view.messages().iter().rfind(asks).filter(|_| !self.view.open().is_empty())?;
        input.iter().position(|message| asks(&message) && message.tool_calls() == open.tool_calls())
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        self.view.close();
        let seq = self.places.rounds.last().map_or(Seq::FIRST, |round| round.asked);
        let place = self.places.of_substitute(seq);
        self.places.of_messages.resize(self.view.messages().len(), place);
    }

    /// Returns the items. If `continues`, the input has nothing but results, so that the model continues its turn.
    pub(super) fn into_items(self, continues: bool) -> Vec<Item> {
        let Self { view, places: Places { of_messages, rounds }, next, .. } = self;
        let round = |at: usize| rounds.get(at).map(|round| Round { followed: round.followed.min(next), ..*round });
        let items = view.into_unsettled().into_iter().zip(of_messages);
        let item = |(message, place): (Message, Place)| {
            let Place { seq, is_recalled, is_reply, .. } = place;
            // A message that stands for everything before it stays if its round is left out.
            let stays = message.index().restarts && message.tool_calls().is_empty();
            let round = place.round.and_then(round).filter(|_| !stays);
            let rest = round.filter(|_| !message.is_tool_result()).and_then(|_| rest_of(&message));
            Item { message, seq, round, rest, is_recalled, is_reply, is_settled: false, is_left_out: false }
        };
        let mut items: Vec<Item> = items.map(item).collect();
        linked::settle(&mut items, continues, next);
        bind_instructions(&mut items);
        open(&mut items);
        items
    }
}

/// Adds the message that must be sent before the first one, if there is one.
fn open(items: &mut Vec<Item>) {
    let Some(first) = items.first() else { return };
    let (seq, opening) = (first.seq, opening::before(Some(&first.message)));
    let item = |message| Item {
        message,
        seq,
        round: None,
        rest: None,
        is_recalled: false,
        is_reply: false,
        is_settled: false,
        is_left_out: false,
    };
    items.splice(..0, opening.map(item));
}

/// Makes each instruction that must be followed by a reply a part of the round of that reply.
fn bind_instructions(items: &mut [Item]) {
    for at in 1..items.len() {
        let [.., instruction, next] = &mut items[..=at] else { continue };
        if needs_reply(&instruction.message) {
            instruction.round = next.round.filter(|_| next.is_reply);
        }
    }
}

/// The position of a round that no message follows yet.
const NOT_FOLLOWED: Seq = Seq::new(u64::MAX);

/// Returns what a message says besides its results.
fn rest_of(message: &Message) -> Option<Message> {
    if message.answers().is_empty() { None } else { message.answering(&[]) }
}

impl Places {
    /// Removes the places of the messages from index `len` on, if there are any.
    fn truncate(&mut self, len: usize) {
        let Some(Place { seq: removed, .. }) = self.of_messages.get(len).copied() else { return };
        self.of_messages.truncate(len);
        self.rounds.truncate(self.of_messages.last().map_or(0, |place| place.rounds));
        // If the attempt to continue a paused reply is removed, an earlier exchange follows the newest round.
        if let Some(round) = self.rounds.last_mut().filter(|round| round.followed >= removed) {
            round.followed = NOT_FOLLOWED;
        }
    }

    /// Returns the index of the newest round.
    fn newest_round(&self) -> Option<usize> {
        self.rounds.len().checked_sub(1)
    }

    /// Returns the place of a substitute for a result of the newest round.
    fn of_substitute(&self, seq: Seq) -> Place {
        Place { seq, round: self.newest_round(), rounds: self.rounds.len(), is_recalled: false, is_reply: false }
    }

    /// Adds the places of the messages from index `before` on: a message, and before it the substitutes for the
    /// results of the calls that it closes.
    fn add(&mut self, view: &View, before: usize, added: Added) {
        let Added { seq, source, is_reply, is_of_round } = added;
        let Some((message, substitutes)) = view.messages()[before..].split_last() else { return };
        if !substitutes.is_empty() {
            let place = self.of_substitute(seq);
            self.of_messages.extend(substitutes.iter().map(|_| place));
        }
        let (calls, results) = (message.tool_calls().len(), message.answers().len());
        let asks = is_of_round || calls > 0;
        // The calls before the message stay open, also if it is the reply of an exchange that another one overtook.
        let leaves_open = substitutes.is_empty() && view.open().len() + results > calls;
        let joins =
            asks && substitutes.is_empty() && (leaves_open && results == 0 || self.joins_newest(view, before, added));
        if !message.is_tool_result()
            && !joins
            && !leaves_open
            && let Some(round) = self.rounds.last_mut()
        {
            round.followed = round.followed.min(seq);
        }
        let answered = self.newest_round().filter(|_| results > 0);
        if asks && !joins {
            self.rounds.push(Round { asked: seq, followed: NOT_FOLLOWED });
        }
        let (round, rounds) = (answered.or(self.newest_round().filter(|_| asks)), self.rounds.len());
        self.of_messages.push(Place { seq, round, rounds, is_recalled: source == Source::Recalled, is_reply });
    }

    /// Returns `true` if the message at index `at` is one more element of the reply that has the newest calls.
    fn joins_newest(&self, view: &View, at: usize, added: Added) -> bool {
        let Some(last) = self.of_messages.last() else { return false };
        let is_of_newest = last.round.is_some() && last.round == self.newest_round() && last.seq == added.seq;
        is_of_newest && if added.is_of_round { last.is_reply } else { joins_reply(view, at) }
    }
}

/// Returns `true` if the message at index `at` of the view is one more element of the reply that the message before it
/// belongs to.
fn joins_reply(view: &View, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| view.messages().get(before));
    before.is_some_and(Message::is_reply) && view.messages()[at].index().closes == Closes::AfterResult
}
