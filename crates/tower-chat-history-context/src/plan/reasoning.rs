//! The rule for reasoning: it is sent only where the prompt before it is the one that it was made under.
//!
//! Some providers sign reasoning together with everything before it, and refuse it in any other place. The prompt is
//! therefore read from its beginning, and a digest of everything before each message is carried along. The reasoning
//! of a reply is sent if the digest before the reply equals the one that was [stored](Provenance) with its exchange.
//! Otherwise it is left out, and the rest of the reply is sent. No list of reasons for a changed prompt is needed: a
//! cut, another head, an exchange that came between, an edited log all lead to another digest.
//!
//! If a message stands for everything before it, and can be sent, the prompt begins with it. The digest then begins
//! anew, as it did when the replies after it were made.
//!
//! The rule depends only on earlier messages. With the same head, cut and origin, the prompt of a longer log therefore
//! begins with the prompt of the shorter one.

use std::{
    iter::{self, Peekable},
    vec::IntoIter,
};

use tower_chat_history_core::{Cut, Digest, Message, Origin, Positions, Provenance, Recorded, Seq};

use super::{fold::Item, restart::Restart, window_index::WindowIndex};
use crate::request::RequestInfo;

/// The version of the code that renders prompts. It changes whenever the same log leads to another prompt, because
/// digests of different versions cannot be compared.
pub const RENDERER: u32 = 1;

/// The conditions of a call under which reasoning may be sent.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    pub request: &'a RequestInfo,
    pub origin: &'a Origin,
}

impl Conditions<'static> {
    /// The conditions of a call of which nothing is known.
    pub const UNKNOWN: Self = Self { request: &UNKNOWN_REQUEST, origin: &UNKNOWN_ORIGIN };
}

static UNKNOWN_REQUEST: RequestInfo = RequestInfo::new();
static UNKNOWN_ORIGIN: Origin = Origin::UNKNOWN;

/// The result of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// The number of messages whose reasoning was left out of this prompt.
    pub left_out: usize,
    /// True if the newest reasoning was made under another head.
    pub head_changed: bool,
}

/// Returns the provenance of a reply to this prompt: `sent` has all messages after the head. Returns `None` if no
/// part of the reply is bound to its prompt or its origin.
#[must_use]
pub fn provenance(reply: &[Message], sent: &[Message], call: Conditions<'_>, cut: Positions) -> Option<Provenance> {
    if !reply.iter().any(|message| message.bound().can_be_removed()) {
        return None;
    }
    let head = call.request.digest();
    let prompt = sent.iter().fold(head, |digest, message| digest.then(message.digest()));
    Some(Provenance::new(RENDERER, head, prompt, cut, call.origin.clone()))
}

/// The items of a window, in which reasoning is left out where it is not valid.
pub(super) struct Rule<'a> {
    pub(super) call: Conditions<'a>,
    /// The message that is sent first, in place of the exchanges before the window.
    pub(super) summary: Option<&'a Message>,
    pub(super) exchanges: &'a [Recorded],
    pub(super) cut: &'a Cut,
    pub(super) log: &'a WindowIndex,
}

impl Rule<'_> {
    /// Applies the rule to the prompt under the cut, and removes the items before the newest message that stands for
    /// them. Items that the cut leaves out are not changed.
    pub(super) fn apply(&self, items: &mut Vec<Item>) -> Reasoning {
        let mut reasoning = Reasoning::default();
        if !items.iter().any(Item::is_ruled) {
            return reasoning;
        }
        let head = self.call.request.digest();
        let newest = self.exchanges.iter().rev().find_map(|recorded| recorded.exchange.provenance.as_deref());
        reasoning.head_changed = newest.is_some_and(|newest| newest.head != head);
        let (window, rounds) = (self.log.seq(self.log.base.window), self.log.seq(self.log.base.rounds));
        let mut digest = self.summary.iter().fold(head, |digest, summary| digest.then(summary.digest()));
        let mut all = std::mem::take(items).into_iter().peekable();
        let mut restart = Restart::default();
        while let Some(start) = move_group(&mut all, items) {
            let is_kept = |item: &Item| item.is_kept(window, rounds);
            let mut valid = self.validity(&items[start..], digest);
            if items[start..].iter().any(|item| is_kept(item) && item.restarts(valid)) {
                // The next prompts begin anew within the reply, so its prompt is not the one that it was made under.
                valid.prefix = 0;
            }
            reasoning.left_out += leave_out(items, start, valid, is_kept);
            let read = |at: usize| {
                let item = &items[at];
                item.is_kept(window, Seq::FIRST) && restart.read(at, start, &item.message, is_kept(item))
            };
            let mut from = start;
            if (start..items.len()).map(read).fold(false, |any, restarts| any | restarts) {
                (from, digest) = (restart.start, head);
            }
            let sent = items[from..].iter().filter_map(|item| item.message_in(window, rounds));
            digest = sent.fold(digest, |digest, message| digest.then(message.digest()));
        }
        items.drain(..restart.start);
        reasoning
    }

    /// Returns what is valid in a [group](move_group), if everything before it has this digest. Outside of a reply
    /// nothing is valid, because only the prompt of a reply is known.
    fn validity(&self, group: &[Item], before: Digest) -> Validity {
        let recorded = group.first().filter(|item| item.is_reply).and_then(|item| self.exchange(item.seq));
        let Some(Recorded { seq, exchange, .. }) = recorded else { return Validity::default() };
        let provenance = exchange.provenance.as_ref().filter(|provenance| provenance.renderer == RENDERER);
        let Some(provenance) = provenance else { return Validity::default() };
        let dialect = exchange.messages.first().and_then(Message::dialect);
        let origin = dialect.is_some_and(|dialect| dialect.reads(&provenance.origin, self.call.origin));
        let is_same = provenance.prompt == before && *seq >= self.cut.reasoning_from;
        Validity { origin, prefix: if origin && is_same { as_made(group, exchange.reply()) } else { 0 } }
    }

    fn exchange(&self, seq: Seq) -> Option<&Recorded> {
        let at = self.exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok()?;
        self.exchanges.get(at)
    }
}

/// The conditions that hold at a place of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Validity {
    /// The number of items, from the first one, in which reasoning that is bound to its prompt is valid.
    prefix: usize,
    /// True if reasoning that is bound to its origin is valid.
    origin: bool,
}

/// The part of a message that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    All,
    Rest,
    Nothing,
}

impl Item {
    /// Returns `true` if it depends on the prompt or the origin how the message is sent.
    pub(super) fn is_ruled(&self) -> bool {
        let index = self.message.index();
        index.bound.can_be_removed() || index.restarts
    }

    /// Returns `true` if the message stands for everything before it, and is sent.
    fn restarts(&self, valid: Validity) -> bool {
        self.message.index().restarts && (!self.message.bound().to_origin || valid.origin)
    }

    /// Leaves out the reasoning of the message, unless what it is bound to is the same: its prompt, and its origin.
    fn left_with(&mut self, prefix: bool, origin: bool) -> Left {
        let bound = self.message.bound();
        if (!bound.to_prefix || prefix) && (!bound.to_origin || origin) {
            return Left::All;
        }
        let left = if origin { self.message.unbound_from_prompt() } else { self.message.unbound() };
        match left.cloned() {
            Some(message) => {
                self.message = message;
                Left::Rest
            }
            None => Left::Nothing,
        }
    }
}

/// Moves the next group to the end of `to`: one item, or all items of one reply. Returns the index of its first item.
/// Returns `None` if there is no group left.
fn move_group(from: &mut Peekable<IntoIter<Item>>, to: &mut Vec<Item>) -> Option<usize> {
    let first = from.next()?;
    let (start, seq, is_reply) = (to.len(), first.seq, first.is_reply);
    to.push(first);
    to.extend(iter::from_fn(|| from.next_if(|next| is_reply && next.is_reply && next.seq == seq)));
    Some(start)
}

/// Returns the number of items, from the first one, whose reasoning is after what the provider made it after. Reasoning
/// after the first difference was made under another prompt. An item that was settled has no such reasoning.
fn as_made(items: &[Item], reply: &[Message]) -> usize {
    let equals = |(item, made): &(&Item, &Message)| item.message.digest() == made.digest();
    let equal = items.iter().zip(reply).take_while(equals).count();
    equal + usize::from(items.get(equal).is_some_and(|item| item.is_settled))
}

/// Leaves out the reasoning that is not valid in the group that begins at index `start`, and the elements that must be
/// followed by one that is left out. Items that are not `kept` are not changed. Returns the number of messages whose
/// reasoning was left out.
fn leave_out(items: &mut Vec<Item>, start: usize, valid: Validity, kept: impl Fn(&Item) -> bool) -> usize {
    let (mut left_out, mut is_followed) = (0, false);
    for at in (start..items.len()).rev() {
        let item = &mut items[at];
        if !kept(item) {
            continue;
        }
        let left = item.left_with(at - start < valid.prefix, valid.origin);
        let is_unfollowed = item.is_reply && item.message.bound().to_next && !is_followed;
        left_out += usize::from(left != Left::All || is_unfollowed);
        if left == Left::Nothing || is_unfollowed {
            items.remove(at);
        } else {
            is_followed = true;
        }
    }
    left_out
}

/// Leaves out all reasoning that is bound to its prompt, because the prompt changes. Returns the number of messages
/// that had some.
pub(super) fn leave_out_bound_to_prefix(items: &mut Vec<Item>) -> usize {
    let mut left_out = 0;
    let mut all = std::mem::take(items).into_iter().peekable();
    while let Some(start) = move_group(&mut all, items) {
        left_out += leave_out(items, start, Validity { prefix: 0, origin: true }, |_| true);
    }
    left_out
}

/// Returns `true` if the turn that the input continues has reasoning that is bound to its prompt.
pub(super) fn binds_turn(items: &[Item], log: &WindowIndex) -> bool {
    let from = log.seq(log.most.window);
    log.continues && items.iter().any(|item| item.seq >= from && item.is_reply && item.message.bound().to_prefix)
}
