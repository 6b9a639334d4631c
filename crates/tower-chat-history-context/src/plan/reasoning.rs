//! The rule for reasoning: it is sent only where the prompt before it is the one that it was made under.
//!
//! Some providers sign reasoning together with everything before it, and refuse it in any other place. The prompt is
//! therefore read from its beginning, and a digest of everything before each message is carried along. The reasoning
//! of a reply is sent if the digest before the reply equals the one that was [stored](Provenance) with its exchange.
//! Otherwise it is left out, and the rest of the reply is sent. No list of reasons for a changed prompt is needed: a
//! cut, another head, an exchange that came between, an edited log all lead to another digest.
//!
//! The rule depends only on earlier messages. With the same head, cut and origin, the prompt of a longer log therefore
//! begins with the prompt of the shorter one.

use tower_chat_history_core::{Cut, Digest, Message, Origin, Positions, Provenance, Recorded, Seq};

use super::{fold::Item, window_index::WindowIndex};
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
    /// Applies the rule to the prompt under the cut. Items that the cut leaves out are not changed.
    pub(super) fn apply(&self, items: &mut Vec<Item>) -> Reasoning {
        let mut reasoning = Reasoning::default();
        if !items.iter().any(|item| item.message.bound().can_be_removed()) {
            return reasoning;
        }
        let head = self.call.request.digest();
        let newest = self.exchanges.iter().rev().find_map(|recorded| recorded.exchange.provenance.as_ref());
        reasoning.head_changed = newest.is_some_and(|newest| newest.head != head);
        let (window, rounds) = (self.log.seq(self.log.base.window), self.log.seq(self.log.base.rounds));
        let mut digest = self.summary.iter().fold(head, |digest, summary| digest.then(summary.digest()));
        let mut reply: Option<(Seq, Validity)> = None;
        items.retain_mut(|item| {
            if item.is_reply && reply.is_none_or(|(seq, _)| seq != item.seq) {
                reply = Some((item.seq, self.validity(item.seq, digest)));
            }
            let kept = if item.is_kept(window, rounds) {
                let valid = reply.filter(|(seq, _)| *seq == item.seq).map_or(Validity::default(), |(_, valid)| valid);
                match item.left_with(valid) {
                    Left::All => Some(&item.message),
                    Left::Rest => {
                        reasoning.left_out += 1;
                        Some(&item.message)
                    }
                    Left::Nothing => {
                        reasoning.left_out += 1;
                        return false;
                    }
                }
            } else {
                item.rest.as_ref().filter(|_| item.seq >= window)
            };
            digest = kept.iter().fold(digest, |digest, message| digest.then(message.digest()));
            true
        });
        leave_out_unfollowed(items);
        reasoning
    }

    /// Returns what is valid in the reply of an exchange, if everything before it has this digest.
    fn validity(&self, seq: Seq, before: Digest) -> Validity {
        let provenance = self.exchange(seq).and_then(|recorded| recorded.exchange.provenance.as_ref());
        let provenance = provenance.filter(|provenance| provenance.renderer == RENDERER);
        let Some(provenance) = provenance else {
            return Validity::default();
        };
        let dialect = self.exchange(seq).and_then(|recorded| recorded.exchange.messages.first()?.dialect());
        let origin = dialect.is_some_and(|dialect| dialect.reads(&provenance.origin, self.call.origin));
        let is_same = provenance.prompt == before && seq >= self.cut.reasoning_from;
        Validity { origin, prefix: origin && is_same && self.is_sent_whole(seq) }
    }

    /// Returns `true` if the reply of an exchange is sent as the provider made it. Otherwise an earlier element of
    /// the reply may be missing before its reasoning.
    fn is_sent_whole(&self, seq: Seq) -> bool {
        let reply = self.exchange(seq).map(|recorded| recorded.exchange.reply()).unwrap_or_default();
        reply.iter().all(|message| !message.is_blank_reply() && !message.index().is_rewritten)
    }

    fn exchange(&self, seq: Seq) -> Option<&Recorded> {
        let at = self.exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok()?;
        self.exchanges.get(at)
    }
}

/// The conditions that hold at a place of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Validity {
    /// True if reasoning that is bound to its prompt is valid.
    prefix: bool,
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
    /// Leaves out the reasoning of the message unless it is valid. Outside of a reply it never is, because only the
    /// prompt of a reply is known.
    fn left_with(&mut self, valid: Validity) -> Left {
        let (bound, valid) = (self.message.bound(), if self.is_reply { valid } else { Validity::default() });
        if (!bound.to_prefix || valid.prefix) && (!bound.to_origin || valid.origin) {
            return Left::All;
        }
        match self.message.unbound().cloned() {
            Some(message) => {
                self.message = message;
                Left::Rest
            }
            None => Left::Nothing,
        }
    }
}

/// Leaves out all reasoning that is bound to its prompt, because the prompt changes. Returns the number of messages
/// that had some.
pub(super) fn leave_out_bound_to_prefix(items: &mut Vec<Item>) -> usize {
    let mut left_out = 0;
    items.retain_mut(|item| {
        if !item.message.bound().to_prefix {
            return true;
        }
        let left = item.left_with(Validity { prefix: false, origin: true });
        left_out += usize::from(left != Left::All);
        left != Left::Nothing
    });
    leave_out_unfollowed(items);
    left_out
}

/// Leaves out the elements that must be followed by the next element of their reply, if that element was left out.
fn leave_out_unfollowed(items: &mut Vec<Item>) {
    let mut next: Option<Seq> = None;
    let mut is_sent: Vec<bool> = Vec::with_capacity(items.len());
    for item in items.iter().rev() {
        let is_followed = !item.is_reply || !item.message.bound().to_next || next == Some(item.seq);
        is_sent.push(is_followed);
        if is_followed {
            next = Some(item.seq).filter(|_| item.is_reply);
        }
    }
    let mut is_sent = is_sent.into_iter().rev();
    items.retain(|_| is_sent.next().unwrap_or(true));
}

/// Returns `true` if the turn that the input continues has reasoning that is bound to its prompt.
pub(super) fn binds_turn(items: &[Item], log: &WindowIndex) -> bool {
    let from = log.seq(log.most.window);
    log.continues && items.iter().any(|item| item.seq >= from && item.is_reply && item.message.bound().to_prefix)
}
