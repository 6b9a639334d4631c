//! The fold of a window: the messages of the [view](crate::context::view), each with its exchange and its round.

use std::num::NonZeroU32;

use tower_chat_history_core::{Closes, Exchange, Message, OpenCalls, Placed, Recorded, Role, Rounds, Seq};

use super::{
    item::{Item, Round},
    linked,
};
use crate::context::{opening, server_tools::needs_reply};

/// The view of a window. Whole rounds can be left out of it, and so can everything before a turn's opening: the
/// remaining messages are then the view of the remaining log, because the view depends only on the newest round.
#[derive(Debug)]
pub(super) struct Folded {
    state: Rounds,
    /// The messages so far. Their rounds are set at the end, because it is known only then what follows a round.
    items: Vec<Item>,
    rounds: Vec<Found>,
    /// The items that belong to rounds, in order.
    members: Vec<Member>,
    /// The position after the last exchange.
    next: Seq,
    /// The positions of the exchanges that gave way to another attempt to answer the same calls.
    gave_way: Vec<Seq>,
    /// True if every exchange was added as a plain one. No item then has calls or results of the provider, and no
    /// instruction needs a reply.
    has_only_plain_exchanges: bool,
}

/// A round, and the index of the item with its first calls.
#[derive(Debug)]
struct Found {
    round: Round,
    begins_at: usize,
}

/// An item that belongs to a round.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The index of the item.
    item: usize,
    /// The index of the round.
    round: usize,
}

/// The place of a message in the log.
#[derive(Clone, Copy, Debug)]
struct Place {
    seq: Seq,
    number: Option<NonZeroU32>,
    is_recalled: bool,
    is_reply: bool,
    /// True for the elements of a reply with calls, except messages of the user.
    is_of_round: bool,
}

/// The position of a round that no message follows yet.
const NOT_FOLLOWED: Seq = Seq::new(u64::MAX);

impl Folded {
    /// Folds these exchanges, without the recalled messages of those before `recalled_from`. If there are none, `next`
    /// is the position of the log's next exchange.
    pub(super) fn of(exchanges: &[Recorded], next: Seq, recalled_from: Seq) -> Self {
        let messages = exchanges.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        let items = Vec::with_capacity(messages);
        let mut folded = Self {
            state: Rounds::default(),
            items,
            rounds: Vec::new(),
            members: Vec::new(),
            next,
            gave_way: Vec::new(),
            has_only_plain_exchanges: true,
        };
        for recorded in exchanges {
            folded.push_exchange(recorded, recalled_from);
        }
        folded
    }

    fn push_exchange(&mut self, recorded: &Recorded, recalled_from: Seq) {
        let Recorded { seq, exchange, .. } = recorded;
        self.next = seq.next();
        let recalled = exchange.recalled.as_ref().filter(|_| *seq >= recalled_from);
        if recalled.is_none() && self.state.push_plain_exchange(recorded) {
            self.push_plain_items(*seq, exchange);
            return;
        }
        self.has_only_plain_exchanges = false;
        let begun = self.state.begin(recorded);
        self.truncate_to(begun.back_to);
        if let Some(recalled) = recalled {
            let place = Place { seq: *seq, number: None, is_recalled: true, is_reply: false, is_of_round: false };
            self.push(&recalled.message, &[], place);
        }
        let asks = exchange.reply().iter().any(|message| !message.tool_calls().is_empty());
        let reply_start = exchange.input().len();
        for (at, message) in exchange.messages.iter().enumerate() {
            let is_reply = at >= reply_start;
            let is_of_round = asks && is_reply && *message.role() != Role::User;
            let place = Place { seq: *seq, number: number(at), is_recalled: false, is_reply, is_of_round };
            self.push(message, &exchange.messages[at + 1..], place);
        }
        self.state.end(begun);
    }

    /// Adds the messages of a plain exchange.
    fn push_plain_items(&mut self, seq: Seq, exchange: &Exchange) {
        if !exchange.messages.is_empty() {
            self.end_newest_round(seq);
        }
        let reply_start = exchange.input().len();
        for (at, message) in exchange.messages.iter().enumerate() {
            let is_reply = at >= reply_start;
            self.items.push(Item { number: number(at), is_reply, ..Item::new(message.clone(), seq) });
        }
    }

    /// Adds a message of the log, if it is sent, and before it the substitutes for the results of the calls that it
    /// closes.
    fn push(&mut self, message: &Message, rest: &[Message], place: Place) {
        let Placed::Sent { message, closed } = self.state.push(message, rest) else { return };
        let before = self.items.len();
        if !closed.is_empty() {
            self.push_substitutes(&closed, place.seq);
        }
        let has_substitutes = self.items.len() > before;
        if let Some(round) = self.place(&message, place, has_substitutes) {
            self.members.push(Member { item: self.items.len(), round });
        }
        let Place { seq, number, is_recalled, is_reply, .. } = place;
        self.items.push(Item { number, is_recalled, is_reply, ..Item::new(message, seq) });
    }

    /// Adds the constant results of calls of the newest round.
    fn push_substitutes(&mut self, closed: &OpenCalls, seq: Seq) {
        for substitute in closed.abandoned() {
            let item = self.items.len();
            self.members.extend(self.newest_round().map(|round| Member { item, round }));
            self.items.push(Item::new(substitute, seq));
        }
    }

    /// Returns the index of the round that the next item belongs to. It may be a new one.
    fn place(&mut self, message: &Message, place: Place, has_substitutes: bool) -> Option<usize> {
        let (calls, results) = (message.tool_calls().len(), message.answers().len());
        // An element with results belongs to the round of their calls, also within a reply that has calls.
        let asks = place.is_of_round && results == 0 || calls > 0;
        // The calls before the message stay open, also if it is the reply of an exchange that another one overtook.
        let leaves_open = !has_substitutes && self.open().len() + results > calls;
        let joins =
            asks && !has_substitutes && (leaves_open && results == 0 || self.joins_newest_round(message, place));
        if !message.is_tool_result() && !joins && !leaves_open {
            self.end_newest_round(place.seq);
        }
        let answered = self.newest_round().filter(|_| results > 0);
        if asks && !joins {
            let round = Round { asked: place.seq, followed: NOT_FOLLOWED };
            self.rounds.push(Found { round, begins_at: self.items.len() });
        }
        answered.or(self.newest_round().filter(|_| asks))
    }

    /// Notes that a message of the exchange at this position follows the newest round.
    fn end_newest_round(&mut self, seq: Seq) {
        if let Some(Found { round, .. }) = self.rounds.last_mut() {
            round.followed = round.followed.min(seq);
        }
    }

    /// Returns `true` if the message is one more element of the reply that has the newest calls.
    fn joins_newest_round(&self, message: &Message, place: Place) -> bool {
        let Some(last) = self.items.last() else { return false };
        let round = self.members.last().filter(|member| member.item + 1 == self.items.len()).map(|member| member.round);
        let is_of_newest = round.is_some() && round == self.newest_round() && last.seq == place.seq;
        let joins_reply = || last.message.is_reply() && message.index().closes == Closes::AfterResult;
        let is_begun_here = |Found { round, .. }: &Found| round.asked == place.seq && round.followed == NOT_FOLLOWED;
        let joins_calls = || last.is_reply && self.rounds.last().is_some_and(is_begun_here);
        is_of_newest && if place.is_of_round { joins_calls() } else { joins_reply() }
    }

    /// Returns the index of the newest round.
    fn newest_round(&self) -> Option<usize> {
        self.rounds.len().checked_sub(1)
    }

    /// Removes the items from index `len` on, if there are any.
    fn truncate_to(&mut self, len: Option<usize>) {
        let Some((len, removed)) = len.and_then(|len| Some((len, self.items.get(len)?.seq))) else { return };
        self.gave_way.extend(self.items.drain(len..).map(|item| item.seq));
        while self.members.pop_if(|member| member.item >= len).is_some() {}
        while self.rounds.pop_if(|found| found.begins_at >= len).is_some() {}
        // If the attempt to continue a paused reply is removed, an earlier exchange follows the newest round.
        if let Some(Found { round, .. }) = self.rounds.last_mut().filter(|found| found.round.followed >= removed) {
            round.followed = NOT_FOLLOWED;
        }
    }

    /// Removes the exchange that the input of a call repeats, if the log ends with one.
    pub(super) fn make_way_for(&mut self, input: &[Message]) {
        let remaining = self.state.make_way_for(input);
        self.truncate_to(remaining);
    }

    /// Returns the positions of the exchanges that gave way to another attempt to answer the same calls.
    pub(super) fn gave_way(&self) -> &[Seq] {
        &self.gave_way
    }

    /// Returns the state after the last exchange.
    pub(super) const fn state(&self) -> &Rounds {
        &self.state
    }

    /// Returns the calls that have no result yet.
    pub(super) const fn open(&self) -> &OpenCalls {
        self.state.open()
    }

    /// Returns the index of the input message that repeats the open calls, if there is one.
    pub(super) fn open_calls_in(&self, input: &[Message]) -> Option<usize> {
        if self.open().is_empty() {
            return None;
        }
        let asks = |message: &Message| !message.tool_calls().is_empty();
        let open = &self.items.iter().rfind(|item| asks(&item.message))?.message;
        input.iter().position(|message| asks(message) && message.tool_calls() == open.tool_calls())
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        let closed = self.state.close();
        let seq = self.rounds.last().map_or(Seq::FIRST, |found| found.round.asked);
        self.push_substitutes(&closed, seq);
    }

    /// Returns the items. If `continues`, the input has nothing but results, so that the model continues its turn.
    pub(super) fn into_items(self, continues: bool) -> Vec<Item> {
        let Self { mut items, rounds, members, next, has_only_plain_exchanges, .. } = self;
        for Member { item, round } in members {
            let (Item { message, round: of_item, rest, .. }, Round { asked, followed }) =
                (&mut items[item], rounds[round].round);
            // A message that stands for everything before it stays if its round is left out.
            if !message.index().restarts || !message.tool_calls().is_empty() {
                *of_item = Some(Round { asked, followed: followed.min(next) });
                *rest = rest_of(message);
            }
        }
        if !has_only_plain_exchanges {
            linked::settle(&mut items, continues, next);
            bind_instructions(&mut items);
        }
        open(&mut items);
        items
    }
}

/// Returns the number of the message at this index of an exchange.
fn number(index: usize) -> Option<NonZeroU32> {
    NonZeroU32::MIN.checked_add(u32::try_from(index).ok()?)
}

/// Adds the message that must be sent before the first one, if there is one.
fn open(items: &mut Vec<Item>) {
    let Some(first) = items.first() else { return };
    if let Some(opening) = opening::before(Some(&first.message)) {
        items.insert(0, Item::new(opening, first.seq));
    }
}

/// Makes each instruction that must be followed by a reply a part of the round of that reply. The reply may be in an
/// exchange's input.
fn bind_instructions(items: &mut [Item]) {
    for at in 1..items.len() {
        let [.., instruction, next] = &mut items[..=at] else { continue };
        if needs_reply(&instruction.message) {
            instruction.round = next.round.filter(|_| next.is_reply || next.message.is_reply());
        }
    }
}

/// Returns what a message says besides its results.
fn rest_of(message: &Message) -> Option<Message> {
    if message.is_tool_result() || message.answers().is_empty() { None } else { message.answering(&[]) }
}
