//! The fold of a window: the messages of the [view](crate::context::view), each with its exchange and its round.
//!
//! # Replies that belong together
//!
//! A reply can have the result of a [call](crate::context::server_tools) that the provider executed in an earlier
//! reply. The provider refuses one without the other. They are therefore one round, with everything between them: a cut
//! leaves out all of them or none. If none of them is in a round, nothing leaves out one of them alone.
//!
//! # Constant replies
//!
//! A [constant reply](crate::context::bridge) stands before a question where the last message is no reply. It is sent
//! as long as the messages around it are:
//!
//! - Usually, a question stands before the round without a reply, so the constant reply stays if the round is left out.
//! - If a reply stands before the round, the constant reply belongs to the round.
//! - The results of a round and a question can be in one input, which is sent as it is. If the round is left out, a
//!   constant reply takes the place of the last result.

use std::{collections::BTreeMap, mem, num::NonZeroU32};

use tower_chat_history_core::{Closes, Exchange, Message, OpenCalls, Placed, Positions, Recorded, Role, Rounds, Seq};

use super::item::{Item, Round};
use crate::context::{
    bridge::{NO_REPLY, constant_reply, first_of, is_question, waits_for_reply},
    server_tools::{Settlement, needs_reply},
    view::opening_before,
};

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
    /// The positions of the exchanges that another attempt to answer the same calls replaced.
    replaced: Vec<Seq>,
    /// True if a reply of the current exchange, after its last item, is not sent.
    has_gap: bool,
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
    /// Folds the exchanges of the window of a cut with these positions.
    pub(super) fn of(exchanges: &[Recorded], positions: Positions) -> Self {
        let messages = exchanges.iter().map(|recorded| recorded.exchange.messages.len()).sum();
        let mut folded = Self {
            state: Rounds::default(),
            items: Vec::with_capacity(messages),
            rounds: Vec::new(),
            members: Vec::new(),
            next: positions.window_start,
            replaced: Vec::new(),
            has_gap: false,
            has_only_plain_exchanges: true,
        };
        for recorded in exchanges {
            folded.push_exchange(recorded, positions);
        }
        folded
    }

    fn push_exchange(&mut self, recorded: &Recorded, positions: Positions) {
        let Recorded { seq, exchange, .. } = recorded;
        self.next = seq.next();

        let recalled = exchange.recalled.as_ref().filter(|_| positions.sends_recalled(*seq));
        if recalled.is_none() && self.state.push_plain_exchange(recorded) {
            self.push_plain_items(*seq, exchange);
            return;
        }

        self.has_only_plain_exchanges = false;
        self.has_gap = false;
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
        let is_reply = message.is_reply();
        let Placed::Sent { message, closed } = self.state.push(message, rest) else {
            self.has_gap |= is_reply;
            return;
        };

        let before = self.items.len();
        if !closed.is_empty() {
            self.push_substitutes(&closed, place.seq);
        }
        let has_substitutes = self.items.len() > before;

        if let Some(round) = self.place(&message, place, has_substitutes) {
            self.members.push(Member { item: self.items.len(), round });
        }

        let Place { seq, number, is_recalled, is_reply, .. } = place;
        let follows_gap = mem::take(&mut self.has_gap);
        self.items.push(Item { number, is_recalled, is_reply, follows_gap, ..Item::new(message, seq) });
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
        let calls = message.tool_calls().len();
        let results = message.answers().len();

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
        let (Some(last), Some(member), Some(newest)) = (self.items.last(), self.members.last(), self.rounds.last())
        else {
            return false;
        };
        let is_of_newest = member.item + 1 == self.items.len() && Some(member.round) == self.newest_round();
        if !is_of_newest || last.seq != place.seq {
            return false;
        }

        if place.is_of_round {
            last.is_reply && newest.round.asked == place.seq && newest.round.followed == NOT_FOLLOWED
        } else {
            last.message.is_reply() && message.index().closes == Closes::AfterResult
        }
    }

    /// Returns the index of the newest round.
    fn newest_round(&self) -> Option<usize> {
        self.rounds.len().checked_sub(1)
    }

    /// Removes the items from index `len` on, if there are any.
    fn truncate_to(&mut self, len: Option<usize>) {
        let Some(len) = len else { return };
        let Some(removed) = self.items.get(len).map(|item| item.seq) else { return };

        self.replaced.extend(self.items.drain(len..).map(|item| item.seq));
        while self.members.pop_if(|member| member.item >= len).is_some() {}
        while self.rounds.pop_if(|found| found.begins_at >= len).is_some() {}

        // If the attempt to continue a paused reply is removed, an earlier exchange follows the newest round.
        if let Some(Found { round, .. }) = self.rounds.last_mut().filter(|found| found.round.followed >= removed) {
            round.followed = NOT_FOLLOWED;
        }
    }

    /// Removes the exchange that the input of a call repeats, if the log ends with one.
    pub(super) fn drop_attempt_before(&mut self, input: &[Message]) {
        let remaining = self.state.drop_attempt_before(input);
        self.truncate_to(remaining);
    }

    /// Returns the positions of the exchanges that another attempt to answer the same calls replaced.
    pub(super) fn replaced(&self) -> &[Seq] {
        &self.replaced
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
        let mut calls = self.items.iter().map(|item| item.message.tool_calls());
        let open = calls.rfind(|calls| !calls.is_empty())?;
        input.iter().position(|message| message.sendable().tool_calls() == open)
    }

    /// Gives the open calls their constant result.
    pub(super) fn close(&mut self) {
        let closed = self.state.close();
        let seq = self.rounds.last().map_or(Seq::FIRST, |found| found.round.asked);
        self.push_substitutes(&closed, seq);
    }

    /// Returns the items before an input, which `answers` the open calls or opens a turn.
    pub(super) fn into_items_before(mut self, input: &[Message], answers: bool) -> Vec<Item> {
        if !answers {
            self.close();
        }
        let mut items = self.into_items(answers && input.iter().all(Message::is_tool_result));
        if first_of(input).is_some_and(is_question) {
            let reply = bridge(&mut items, false);
            items.extend(reply);
        }
        items
    }

    /// Returns the items. If `continues`, the input has nothing but results, so that the model continues its turn.
    pub(super) fn into_items(self, continues: bool) -> Vec<Item> {
        let Self { mut items, rounds, members, next, has_only_plain_exchanges, .. } = self;
        for Member { item, round } in members {
            let item = &mut items[item];
            // A message that stands for everything before it stays if its round is left out.
            if item.message.index().restarts && item.message.tool_calls().is_empty() {
                continue;
            }
            let Round { asked, followed } = rounds[round].round;
            item.round = Some(Round { asked, followed: followed.min(next) });
            item.rest = rest_of(&item.message);
        }

        if !has_only_plain_exchanges {
            settle(&mut items, continues, next);
            bind_instructions(&mut items);
        }
        add_bridges(&mut items);
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
    if let Some(opening) = opening_before(Some(&first.message)) {
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

/// Joins the rounds of replies that belong together, and leaves out what the provider would refuse. If `continues`, the
/// model continues its turn after the items. `next` is the position of the log's next exchange.
fn settle(items: &mut Vec<Item>, continues: bool, next: Seq) {
    let Settlement { changes, links } = Settlement::of(items.iter().map(|item| &item.message), continues);
    join(items, &links, next);

    if changes.is_empty() {
        return;
    }

    let mut changes = changes.into_iter().peekable();
    let mut at = 0;
    let mut is_gap = false;
    items.retain_mut(|item| {
        item.follows_gap |= mem::take(&mut is_gap);
        let change = changes.next_if(|change| change.at == at);
        at += 1;
        let Some(change) = change else { return true };
        let Some(message) = change.left else {
            is_gap = true;
            return false;
        };
        item.message = message;
        item.is_settled = true;
        true
    });

    for at in (0..items.len()).rev() {
        if needs_reply(&items[at].message) && !items.get(at + 1).is_some_and(|next| next.is_reply) {
            items.remove(at);
        }
    }
}

/// Makes the items from the first to the last index of each link one round.
fn join(items: &mut [Item], links: &[(usize, usize)], next: Seq) {
    let spans = spans(links).into_iter();
    let spans: Vec<Span> = spans.filter_map(|(first, last)| Span::of(items, first, last, next)).collect();

    let mut joined = BTreeMap::new();
    for Span { first, last, round } in spans {
        for item in &mut items[first..=last] {
            if let Some(before) = item.round.replace(round) {
                joined.insert(positions(before), round);
            }
        }
    }

    // A round can begin before the span, and its results come after it.
    for item in items {
        item.round = item.round.map(|round| *joined.get(&positions(round)).unwrap_or(&round));
    }
}

/// The items of replies that belong together, and their round.
struct Span {
    first: usize,
    last: usize,
    round: Round,
}

impl Span {
    /// Returns `None` if none of the items is in a round.
    fn of(items: &[Item], first: usize, last: usize, next: Seq) -> Option<Self> {
        let between = &items[first..=last];
        if between.iter().all(|item| item.round.is_none()) {
            return None;
        }
        let asked = between.iter().map(|item| item.round.map_or(item.seq, |round| round.asked)).min()?;
        // The last reply can have calls of its own. Otherwise the next item follows the round.
        let followed = match items[last].round {
            Some(round) => round.followed,
            None => items.get(last + 1).map_or(next, |item| item.seq),
        };
        Some(Self { first, last, round: Round { asked, followed } })
    }
}

fn positions(round: Round) -> (Seq, Seq) {
    (round.asked, round.followed)
}

/// Returns the first and the last index of links that overlap. The links are in the order of their last index.
fn spans(links: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (mut first, last) in links.iter().copied() {
        while let Some((before, _)) = spans.pop_if(|(_, end)| *end >= first) {
            first = first.min(before);
        }
        spans.push((first, last));
    }
    spans
}

/// Adds the constant replies before questions.
fn add_bridges(items: &mut Vec<Item>) {
    let mut added = Vec::new();
    for at in 1..items.len() {
        let (before, next) = items.split_at_mut(at);
        let Some(next) = next.first() else { break };
        let (message, rest) = (&next.message, next.rest.as_ref());
        if is_question(message) {
            let is_own = before.last().is_some_and(|last| is_of_one_input(last, next));
            added.extend(bridge(before, is_own).map(|reply| (at, reply)));
        } else if rest.is_some_and(is_question) && before.last().is_some_and(|last| last.round == next.round) {
            // The message has results, and a question that stays if their round is left out.
            bridge(before, true);
        }
    }

    // Most logs need none.
    if added.is_empty() {
        return;
    }
    let mut added = added.into_iter().peekable();
    let whole = mem::replace(items, Vec::with_capacity(items.len() + added.len()));
    for (at, item) in whole.into_iter().enumerate() {
        items.extend(added.next_if(|(before, _)| *before == at).map(|(_, reply)| reply));
        items.push(item);
    }
}

/// Returns `true` if a caller sent two messages one after the other, as its input.
fn is_of_one_input(last: &Item, next: &Item) -> bool {
    let is_of_log = last.number.is_some() && !last.is_recalled;
    is_of_log && last.seq == next.seq && !next.follows_gap
}

/// Returns the constant reply to the last of these items before a question, if it needs one. `is_own` if the question
/// is the caller's own next message. If the question needs the reply only without the last item's round, the reply is
/// what stays of the item.
fn bridge(before: &mut [Item], is_own: bool) -> Option<Item> {
    let asks_without_rounds = ends_with_question(before.iter());
    let last = before.last_mut()?;
    let is_missing = waits_for_reply(&last.message) && !is_own;
    let Some(round) = last.round else { return if is_missing { Item::bridge(last, None) } else { None } };

    if is_missing {
        return Item::bridge(last, Some(round).filter(|_| !asks_without_rounds));
    }
    if asks_without_rounds && last.rest.is_none() {
        let reply = constant_reply(&last.message, NO_REPLY);
        leave_reply(before, round, reply);
    }
    None
}

/// Lets the constant reply stay in place of this round, which is at the end of these items. It is the rest of the last
/// item that has none. Reasoning can leave before the round does, so an item that has nothing else keeps no reply.
pub(super) fn leave_reply(items: &mut [Item], round: Round, reply: Option<Message>) {
    let of_round = |item: &Item| item.is_left_out || item.round == Some(round) && item.rest.is_none();
    let before = items.iter().rposition(|item| !of_round(item));
    let Some(items) = items.get_mut(before.map_or(0, |before| before + 1)..) else { return };

    let stays = items.iter().rposition(|item| !item.is_left_out && item.outlasts_reasoning());
    let last = items.len().checked_sub(1);
    if let Some(item) = stays.or(last).and_then(|at| items.get_mut(at)) {
        item.rest = reply;
        item.rests_as_bridge = true;
    }
}

/// Returns `true` if a message that waits for a reply would be the last one without the rounds at the end.
pub(super) fn ends_with_question<'a>(items: impl DoubleEndedIterator<Item = &'a Item>) -> bool {
    let mut items = items.rev();
    let last = items.find_map(|item| if item.round.is_none() { Some(&item.message) } else { item.rest.as_ref() });
    last.is_some_and(waits_for_reply)
}
