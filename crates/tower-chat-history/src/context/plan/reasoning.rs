//! The rule for reasoning: it is sent only where the prompt before it is the one that it was made under.
//!
//! Some providers sign reasoning together with everything before it, and refuse it in any other place. The prompt is
//! therefore read from its beginning, and a digest of everything before each message is carried along. The reasoning
//! of a reply is sent if the digest before the reply equals the one that was [stored](PromptDigests) with its exchange.
//! Otherwise it is left out, and the rest of the reply is sent. No list of reasons for a changed prompt is needed: a
//! cut, another head, an exchange that came between, an edited log all lead to another digest.
//!
//! A provider may lose the ability to read its own replies, for example with a new key. The cut then has the position
//! before which everything that is bound to its origin is left out.
//!
//! If a message stands for everything before it, and can be sent, the prompt begins with it. The digest then begins
//! anew, as it did when the replies after it were made. Two such messages do not begin the prompt:
//!
//! - One that was made without an exchange before it, which another call stored in the meantime. It is left out, as it
//!   would hide that exchange.
//! - One of an open turn that already has reasoning which is bound to its prompts. The prompt begins with it after the
//!   turn has ended.
//!
//! The provider accepted what was in the input of a call, whoever made it. It is bound to the origin of that call. In
//! later prompts, reasoning of an input that is bound to its prompt is left out, because that prompt is not known.
//!
//! The rule depends only on earlier messages. With the same head, cut and origin, the prompt of a longer log therefore
//! begins with the prompt of the shorter one.

use tower_chat_history_core::{Bound, Cut, Digest, Exchange, Message, PromptDigests, Recorded, Seq};

use super::{
    item::Item,
    provenance::{self, Conditions, RENDERER, digest_after},
    restart::Restart,
    window_index::WindowIndex,
};
use crate::context::server_tools::needs_reply;

/// The result of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// The number of messages whose reasoning was left out of this prompt.
    pub left_out: usize,
    /// True if the newest reasoning that is bound to its prompt was made under another head.
    pub head_changed: bool,
    /// True if the prompt begins with a message that stands for everything before it.
    pub restarts: bool,
}

/// The items of a window, in which reasoning is left out where it is not valid.
pub(super) struct Rule<'a> {
    pub(super) call: Conditions<'a>,
    /// The message that is sent first, in place of the exchanges before the window.
    pub(super) summary: Option<&'a Message>,
    pub(super) exchanges: &'a [Recorded],
    pub(super) cut: &'a Cut,
    pub(super) log: &'a WindowIndex<'a>,
}

impl Rule<'_> {
    /// Applies the rule to the prompt under the cut, and removes the items before the newest message that stands for
    /// them. Items that the cut leaves out are not changed.
    pub(super) fn apply(&self, items: &mut Vec<Item>) -> Reasoning {
        let mut reasoning = Reasoning::default();
        if !items.iter().any(Item::is_ruled) {
            return reasoning;
        }
        let newest = self.exchanges.iter().rev().find_map(|recorded| digests_of_reply(&recorded.exchange));
        reasoning.head_changed = newest.is_some_and(|newest| newest.head != self.call.head);
        let (window, rounds) = (self.log.seq(self.log.base.window), self.log.seq(self.log.base.rounds));
        if !items.iter().any(Item::depends_on_prefix) {
            reasoning.left_out = self.apply_to_origins(items);
            return reasoning;
        }
        let open_turn = self.log.continues.then(|| self.log.seq(self.log.most.window));
        let mut is_turn_bound = false;
        let mut digest = digest_after(self.call.head, self.summary);
        let mut restart = Restart::default();
        let mut next = 0;
        while let Some(group) = Group::at(items, next) {
            let Group { start, reply, end } = group;
            next = end;
            let is_kept = |item: &Item| item.is_kept(window, rounds);
            let lead = items[start..reply].iter().filter_map(|item| item.message_in(window, rounds));
            let before = digest_after(digest, lead);
            let mut valid = self.validity(&items[reply..end], Some(before));
            let is_of_turn = |item: &Item| open_turn.is_some_and(|from| item.seq >= from);
            is_turn_bound |= items[reply..end].iter().any(|item| is_of_turn(item) && item.is_bound_reply());
            let may_restart = |item: &Item| valid.restarts && !(is_turn_bound && is_of_turn(item));
            if items[start..end].iter().any(|item| is_kept(item) && item.restarts(valid) && may_restart(item)) {
                // The next prompts begin anew within the reply, so its prompt is not the one that it was made under.
                valid.prefix = 0;
            }
            reasoning.left_out += leave_out(items, group, valid, is_kept);
            let read = |at: usize| {
                let item = &items[at];
                let is_sent = is_kept(item) && may_restart(item);
                let is_read = !item.is_left_out && item.is_kept(window, Seq::FIRST);
                is_read && restart.read(at, start, &item.message, is_sent)
            };
            let mut from = start;
            if (start..end).map(read).fold(false, |any, restarts| any | restarts) {
                (from, digest, reasoning.restarts) = (restart.start, self.call.head, true);
            }
            let left = items[from..end].iter().filter(|item| !item.is_left_out);
            let sent = left.filter_map(|item| item.message_in(window, rounds));
            digest = digest_after(digest, sent);
        }
        items.drain(..restart.start);
        items.retain(|item| !item.is_left_out);
        reasoning
    }

    /// Applies the rule to items that do not depend on the messages before them, so that no digest is needed. Returns
    /// the number of messages whose reasoning was left out.
    fn apply_to_origins(&self, items: &mut Vec<Item>) -> usize {
        let (window, rounds) = (self.log.seq(self.log.base.window), self.log.seq(self.log.base.rounds));
        let (mut left_out, mut next) = (0, 0);
        while let Some(group) = Group::at(items, after_unbound(items, next)) {
            let Group { start, reply, end } = group;
            next = end;
            if items[start..end].iter().any(|item| item.message.bound() != Bound::NONE) {
                let valid = self.validity(&items[reply..end], None);
                left_out += leave_out(items, group, valid, |item| item.is_kept(window, rounds));
            }
        }
        items.retain(|item| !item.is_left_out);
        left_out
    }

    /// Returns what is valid in a reply, or in an item of an input, if everything before it has this digest. The digest
    /// is `None` if nothing is bound to its prompt. Only the prompt of a reply is known.
    fn validity(&self, items: &[Item], before: Option<Digest>) -> Validity {
        let first = items.first().filter(|item| !item.is_recalled);
        let Some((Recorded { seq, exchange, .. }, first)) =
            first.and_then(|item| self.exchange(item.seq).zip(Some(item)))
        else {
            return Validity::default();
        };
        let provenance = exchange.provenance.as_ref().filter(|provenance| provenance.renderer == RENDERER);
        let Some(provenance) = provenance else { return Validity::UNKNOWN };
        let dialect = exchange.messages.first().and_then(Message::dialect);
        let is_readable = *seq >= self.cut.encrypted_from;
        let origin = is_readable && dialect.is_some_and(|dialect| dialect.reads(&provenance.origin, self.call.origin));
        // If another exchange was stored in the meantime, the prompt did not have it. The cut does not matter: it may
        // leave that exchange out, but the prompt would change once more after the cut.
        let has_all = provenance.made_at.is_some_and(|next| next >= *seq);
        let is_kept = before == Some(provenance.digests.prompt) && *seq >= self.cut.reasoning_from;
        let is_left_out = |item: &Item| !has_all && item.message.index().restarts;
        let prefix = if first.is_reply && origin && is_kept {
            let end = items.iter().position(is_left_out).unwrap_or(items.len());
            as_made(&items[..end], exchange.reply())
        } else {
            0
        };
        Validity { prefix, origin, restarts: has_all }
    }

    fn exchange(&self, seq: Seq) -> Option<&Recorded> {
        self.exchanges.get(self.log.index(seq)).filter(|recorded| recorded.seq == seq)
    }
}

/// The conditions that hold at a place of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Validity {
    /// The number of items, from the first one, in which reasoning that is bound to its prompt is valid.
    prefix: usize,
    /// True if reasoning that is bound to its origin is valid.
    origin: bool,
    /// True if a message that stands for everything before it does not hide another exchange.
    restarts: bool,
}

impl Validity {
    /// The conditions in an exchange of whose prompt nothing is known.
    const UNKNOWN: Self = Self { prefix: 0, origin: false, restarts: true };
}

/// Returns the digests of the prompt of an exchange whose reply is bound to it.
pub(super) fn digests_of_reply(exchange: &Exchange) -> Option<PromptDigests> {
    let provenance = exchange.provenance.as_ref().filter(|_| exchange.is_bound_to_prompt())?;
    Some(provenance.digests)
}

/// The part of a message that is left.
enum Left {
    All,
    Rest(Message),
    Nothing,
}

impl Item {
    /// Returns `true` if it depends on the prompt or the origin how the message is sent.
    pub(super) fn is_ruled(&self) -> bool {
        provenance::is_ruled(&self.message)
    }

    /// Returns `true` if it depends on the messages before it how the message is sent.
    fn depends_on_prefix(&self) -> bool {
        provenance::depends_on_prefix(&self.message)
    }

    /// Returns `true` for an element of a reply that has reasoning which is bound to its prompt.
    fn is_bound_reply(&self) -> bool {
        self.is_reply && self.message.bound().to_prefix
    }

    /// Returns `true` if the message stands for everything before it, and is sent.
    fn restarts(&self, valid: Validity) -> bool {
        self.message.index().restarts && (!self.message.bound().to_origin || valid.origin)
    }
}

/// Leaves out the reasoning of a message, unless what it is bound to is the same: its prompt, and its origin.
fn left_of(message: &Message, prefix: bool, origin: bool) -> Left {
    let bound = message.bound();
    if (!bound.to_prefix || prefix) && (!bound.to_origin || origin) {
        return Left::All;
    }
    let left = if origin { message.unbound_from_prompt() } else { message.unbound() };
    left.cloned().map_or(Left::Nothing, Left::Rest)
}

/// One item, or all items of one reply, with the instruction before it that needs the reply.
#[derive(Clone, Copy)]
struct Group {
    /// The index of the first item.
    start: usize,
    /// The index of the first item of the reply. It is that of the item if the group is no reply.
    reply: usize,
    /// The index after the last item.
    end: usize,
}

impl Group {
    /// Returns the group that starts at this index, or `None` at the end of the items.
    fn at(items: &[Item], start: usize) -> Option<Self> {
        let first = items.get(start)?;
        let leads = needs_reply(&first.message) && items.get(start + 1).is_some_and(|next| next.is_reply);
        let reply = if leads { start + 1 } else { start };
        let Item { seq, is_reply, .. } = items[reply];
        let is_more = |next: &&Item| is_reply && next.is_reply && next.seq == seq;
        let more = items[reply + 1..].iter().take_while(is_more).count();
        Some(Self { start, reply, end: reply + 1 + more })
    }
}

/// Returns the index of the first item, from this index on, that is bound to something or belongs to a reply.
fn after_unbound(items: &[Item], from: usize) -> usize {
    let is_unbound = |item: &&Item| !item.is_reply && item.message.bound() == Bound::NONE;
    from + items[from..].iter().take_while(is_unbound).count()
}

/// Returns the number of items, from the first one, whose reasoning is after what the provider made it after. Reasoning
/// after the first difference was made under another prompt. An item that was settled has no such reasoning, unless it
/// already differed before that.
fn as_made(items: &[Item], reply: &[Message]) -> usize {
    let equals = |(item, made): &(&Item, &Message)| item.message.digest() == made.digest();
    let equal = items.iter().zip(reply).take_while(equals).count();
    let is_as_made = |(item, made): (&Item, &Message)| item.is_settled && made.sendable().digest() == made.digest();
    equal + usize::from(items.get(equal).zip(reply.get(equal)).is_some_and(is_as_made))
}

/// Leaves out the reasoning that is not valid in the group, and the elements that must be followed by one that is left
/// out. The caller removes the items that are marked as left out. Items that are not `kept` are not changed. Returns
/// the number of messages whose reasoning was left out.
fn leave_out(items: &mut [Item], group: Group, valid: Validity, kept: impl Fn(&Item) -> bool) -> usize {
    let (mut left_out, mut is_followed, mut has_reply) = (0, false, false);
    for at in (group.start..group.end).rev() {
        let item = &mut items[at];
        if !kept(item) {
            continue;
        }
        let message = &item.message;
        // A message that hides another exchange is left out.
        let is_readable = valid.origin && (valid.restarts || !message.index().restarts);
        let is_in_prefix = at < group.reply + valid.prefix;
        // An element needs the very next one of its reply, and an instruction needs any part of the reply.
        let is_unfollowed =
            message.bound().to_next && if at < group.reply { !has_reply } else { item.is_reply && !is_followed };
        let left = if is_unfollowed { Left::Nothing } else { left_of(message, is_in_prefix, is_readable) };
        match left {
            Left::All => {}
            Left::Rest(rest) => {
                left_out += usize::from(has_reasoning(message) && has_lost_reasoning(message, &rest));
                item.message = rest;
            }
            Left::Nothing => {
                left_out += usize::from(has_reasoning(message));
                item.is_left_out = true;
            }
        }
        (is_followed, has_reply) = (!item.is_left_out, has_reply || !item.is_left_out);
    }
    left_out
}

/// Returns `true` if the rest of a message lacks reasoning that the message had. Other sealed parts may be left, such
/// as the result of a search.
fn has_lost_reasoning(whole: &Message, rest: &Message) -> bool {
    whole.bound().to_prefix && !rest.bound().to_prefix || !has_reasoning(rest)
}

/// Returns `true` if the message has reasoning, readable or sealed. A message that stands for everything before it is
/// no reasoning, and neither are ids.
fn has_reasoning(message: &Message) -> bool {
    let index = message.index();
    if index.bound.to_prefix || index.bound.to_next && message.is_reply() {
        return true;
    }
    !index.restarts && message.is_reply() && message.part_kinds().has_reasoning
}

/// Leaves out all reasoning that is bound to its prompt, because the prompt changes. Returns the number of messages
/// that had some.
pub(super) fn leave_out_bound_to_prefix(items: &mut Vec<Item>) -> usize {
    let (mut left_out, mut next) = (0, 0);
    while let Some(group) = Group::at(items, next) {
        next = group.end;
        left_out += leave_out(items, group, Validity { prefix: 0, origin: true, restarts: true }, |_| true);
    }
    items.retain(|item| !item.is_left_out);
    left_out
}

/// Returns `true` if the turn that the input continues has reasoning that is bound to its prompt.
pub(super) fn binds_turn(items: &[Item], log: &WindowIndex<'_>) -> bool {
    let from = log.seq(log.most.window);
    log.continues && items.iter().any(|item| item.seq >= from && item.is_bound_reply())
}
