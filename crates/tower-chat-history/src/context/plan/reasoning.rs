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
//!
//! # Decisions
//!
//! - **No cut is stored when a message arrives that stands for everything before it.** The cut would hide messages that
//!   another provider needs. So a change of the provider loses nothing.

use tower_chat_history_core::{
    Bound, Compat, Cut, Digest, Exchange, Message, Origin, Positions, PromptDigests, Provenance, Recorded, Seq,
};

use super::{
    fold::{ends_with_question, leave_reply},
    item::{Extent, Item},
    window_index::WindowIndex,
};
use crate::context::{
    bridge::{NO_REPLY, constant_reply, reply_to_summary, waits_for_reply},
    request::RequestInfo,
    server_tools::needs_reply,
};

/// The version of the code that renders prompts. It changes whenever the same log leads to another prompt, because
/// digests of different versions cannot be compared.
pub(crate) const RENDERER: u32 = 2;

/// The conditions of a call under which reasoning may be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions<'a> {
    pub(crate) request: &'a RequestInfo,
    /// The [digest](RequestInfo::digest) of the request's head.
    pub(crate) head: Digest,
    pub(crate) origin: &'a Origin,
    /// The description of what the reader of the prompt accepts.
    pub(crate) compat: &'a Compat,
    /// The number of finished turns whose unsigned reasoning stays, if old reasoning is left out.
    pub(crate) old_reasoning: Option<u32>,
}

impl Conditions<'static> {
    /// Returns the conditions of a call of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            request: &UNKNOWN_REQUEST,
            head: Digest::default(),
            origin: &UNKNOWN_ORIGIN,
            compat: &EVERYTHING,
            old_reasoning: None,
        }
    }
}

static UNKNOWN_REQUEST: RequestInfo = RequestInfo::new();
static UNKNOWN_ORIGIN: Origin = Origin::UNKNOWN;
static EVERYTHING: Compat = Compat::new();

/// The facts about the prompt of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPrompt<'a> {
    /// All messages after the head.
    pub(crate) messages: &'a [Message],
    /// The positions of the cut.
    pub(crate) under: Positions,
    /// The position of the log's next exchange when the prompt was made. `None` if the log was not loaded.
    pub(crate) next: Option<Seq>,
    /// The estimated size of the prompt in tokens, if it was counted.
    pub(crate) tokens: Option<u64>,
}

/// Returns the provenance of a reply that was made after this prompt.
pub(crate) fn provenance(call: Conditions<'_>, prompt: SentPrompt<'_>) -> Provenance {
    let digests = PromptDigests::new(call.head, digest_after(call.head, prompt.messages));
    Provenance::new(RENDERER, prompt.under, digests, call.origin.clone())
        .made_at(prompt.next)
        .tokens(prompt.tokens)
        .reader(call.compat.key())
        .host(call.request.host.clone())
}

/// Returns the digest of a prompt that continues with these messages.
pub(super) fn digest_after<'m>(digest: Digest, messages: impl IntoIterator<Item = &'m Message>) -> Digest {
    messages.into_iter().fold(digest, |digest, message| digest.then(message.digest()))
}

/// The result of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasoning {
    /// The number of messages whose reasoning was left out of this prompt.
    pub(crate) left_out: usize,
    /// True if the newest reasoning that is bound to its prompt was made under another head.
    pub(crate) head_changed: bool,
    /// True if the prompt begins with a message that stands for everything before it.
    pub(crate) restarts: bool,
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
        if !items.iter().any(Item::depends_on_prefix) {
            reasoning.left_out = self.apply_to_origins(items);
            return reasoning;
        }

        let extent = self.log.extent(self.log.base);
        let open_turn = self.log.continues.then(|| self.log.seq(self.log.most.window));
        // The start of the open turn, after an element of it that is bound to its prompt.
        let mut bound_turn = None;
        let first = items.iter().find_map(|item| item.message_in(extent));
        let reply = self.summary.and_then(|summary| reply_to_summary(summary, first));
        let mut digest = digest_after(self.call.head, self.summary.into_iter().chain(&reply));
        let mut restart = Restart::default();
        let mut next = 0;

        while let Some(group) = Group::at(items, next) {
            let Group { start, reply, end } = group;
            next = end;

            let lead = items[start..reply].iter().filter_map(|item| item.message_in(extent));
            let mut valid = self.validity(&items[reply..end], Some(digest_after(digest, lead)));
            if let Some(from) = open_turn
                && items[reply..end].iter().any(|item| item.seq >= from && item.is_bound_reply())
            {
                bound_turn = open_turn;
            }

            let begins_within = items[start..end]
                .iter()
                .any(|item| item.is_kept(extent) && item.restarts(valid) && item.may_begin_prompt(valid, bound_turn));
            if begins_within {
                // The next prompts begin anew within the reply, so its prompt is not the one that it was made under.
                valid.prefix = 0;
            }
            reasoning.left_out += leave_out(items, group, valid, extent);
            if end < items.len() || !self.log.continues {
                stand_in(items, group, extent);
            }

            let mut from = start;
            for (at, item) in (start..end).zip(&items[start..end]) {
                if item.is_left_out || !item.is_kept(Extent { rounds: Seq::FIRST, ..extent }) {
                    continue;
                }
                let is_sent = item.is_kept(extent) && item.may_begin_prompt(valid, bound_turn);
                if restart.read(at, start, &item.message, is_sent) {
                    reasoning.restarts = true;
                    from = restart.start;
                    digest = self.call.head;
                }
            }

            let left = items[from..end].iter().filter(|item| !item.is_left_out);
            digest = digest_after(digest, left.filter_map(|item| item.message_in(extent)));
        }

        items.drain(..restart.start);
        items.retain(|item| !item.is_left_out);
        reasoning
    }

    /// Applies the rule to items that do not depend on the messages before them, so that no digest is needed. Returns
    /// the number of messages whose reasoning was left out.
    fn apply_to_origins(&self, items: &mut Vec<Item>) -> usize {
        let extent = self.log.extent(self.log.base);
        let mut left_out = 0;
        let mut next = 0;
        while let Some(group) = Group::at(items, after_unbound(items, next)) {
            let Group { start, reply, end } = group;
            next = end;
            if items[start..end].iter().any(|item| item.message.bound() != Bound::NONE) {
                let valid = self.validity(&items[reply..end], None);
                left_out += leave_out(items, group, valid, extent);
                if end < items.len() || !self.log.continues {
                    stand_in(items, group, extent);
                }
            }
        }

        items.retain(|item| !item.is_left_out);
        left_out
    }

    /// Returns what is valid in a reply, or in an item of an input, if everything before it has this digest. The digest
    /// is `None` if nothing is bound to its prompt. Only the prompt of a reply is known.
    fn validity(&self, items: &[Item], before: Option<Digest>) -> Validity {
        let Some(first) = items.first().filter(|item| !item.is_recalled) else { return Validity::default() };
        let Some(Recorded { seq, exchange, .. }) = self.exchange(first.seq) else { return Validity::default() };
        let provenance = exchange.provenance.as_ref().filter(|provenance| provenance.renderer == RENDERER);
        let Some(provenance) = provenance else { return Validity::UNKNOWN };

        let dialect = exchange.messages.first().and_then(Message::dialect);
        let reads = dialect.is_some_and(|dialect| dialect.reads(&provenance.origin, self.call.origin));
        let origin = reads && self.cut.sends_encrypted(*seq);

        // If another exchange was stored in the meantime, the prompt did not have it. The cut does not matter: it may
        // leave that exchange out, but the prompt would change once more after the cut.
        let has_all = provenance.made_at.is_some_and(|next| next >= *seq);

        let mut prefix = 0;
        let is_same_prompt = before == Some(provenance.digests.prompt);
        if first.is_reply && origin && is_same_prompt && self.cut.sends_reasoning(*seq) {
            let mut made = items;
            if !has_all && let Some(hides) = items.iter().position(|item| item.message.index().restarts) {
                made = &items[..hides];
            }
            prefix = as_made(made, exchange.reply());
        }
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
        self.message.bound().can_be_removed() || self.message.index().restarts
    }

    /// Returns `true` if something is left of the message without everything that the rule can leave out of it.
    pub(super) fn outlasts_reasoning(&self) -> bool {
        !self.message.bound().to_next && self.message.unbound().is_some()
    }

    /// Returns `true` if it depends on the messages before it how the message is sent.
    fn depends_on_prefix(&self) -> bool {
        self.message.bound().to_prefix || self.message.index().restarts
    }

    /// Returns `true` for an element of a reply that has reasoning which is bound to its prompt.
    fn is_bound_reply(&self) -> bool {
        self.is_reply && self.message.bound().to_prefix
    }

    /// Returns `true` if the message stands for everything before it, and is sent.
    fn restarts(&self, valid: Validity) -> bool {
        self.message.index().restarts && (!self.message.bound().to_origin || valid.origin)
    }

    /// Returns `true` if the prompt may begin with the message: it hides no exchange, and is not in an open turn whose
    /// reasoning is bound to its prompts. That turn starts at `bound_turn`.
    fn may_begin_prompt(&self, valid: Validity, bound_turn: Option<Seq>) -> bool {
        valid.restarts && bound_turn.is_none_or(|from| self.seq < from)
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

        let mut end = reply + 1;
        while is_reply && items.get(end).is_some_and(|next| next.is_reply && next.seq == seq) {
            end += 1;
        }
        Some(Self { start, reply, end })
    }
}

/// Returns the index of the first item, from this index on, that is bound to something or belongs to a reply.
fn after_unbound(items: &[Item], from: usize) -> usize {
    let mut rest = items[from..].iter();
    let bound = rest.position(|item| item.is_reply || item.message.bound() != Bound::NONE);
    bound.map_or(items.len(), |bound| from + bound)
}

/// Returns the number of items, from the first one, whose reasoning is after what the provider made it after. Reasoning
/// after the first difference was made under another prompt. An item of which server calls or results were left out has
/// no such reasoning, unless it already differed before that.
fn as_made(items: &[Item], reply: &[Message]) -> usize {
    let mut equal = 0;
    for (item, made) in items.iter().zip(reply) {
        if item.message.digest() != made.digest() && !has_only_other_arguments(&item.message, made) {
            let is_only_settled = item.is_settled && made.sendable().digest() == made.digest();
            return equal + usize::from(is_only_settled);
        }
        equal += 1;
    }
    equal
}

/// Leaves out the reasoning that is not valid in the group, and the elements that must be followed by one that is left
/// out. The caller removes the items that are marked as left out. Items that a prompt with this extent does not contain
/// are not changed. Returns the number of messages whose reasoning was left out.
fn leave_out(items: &mut [Item], group: Group, valid: Validity, extent: Extent) -> usize {
    let mut left_out = 0;
    let mut is_followed = false;
    let mut has_reply = false;
    for at in (group.start..group.end).rev() {
        let item = &mut items[at];
        if !item.is_kept(extent) {
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

        is_followed = !item.is_left_out;
        has_reply |= is_followed;
    }
    left_out
}

/// Puts a constant reply in place of a reply that is left out as a whole, if the message before it waits for one. If
/// that is so only with the round before it, or only without it, the constant reply is sent only then.
fn stand_in(items: &mut [Item], group: Group, extent: Extent) {
    let (before, rest) = items.split_at_mut(group.reply);
    let Some(reply) = rest.get(..group.end - group.reply) else { return };
    if !reply.iter().all(|item| item.is_reply && item.is_left_out) {
        return;
    }

    let is_sent = |item: &&Item| !item.is_left_out && item.message_in(extent).is_some();
    let Some(last) = before.iter().rfind(is_sent) else { return };
    let Some(message) = last.message_in(extent) else { return };
    let Some(constant) = constant_reply(message, NO_REPLY) else { return };
    let round = last.round.filter(|_| last.is_kept(extent));
    let asks_without_rounds = round.is_some() && ends_with_question(before.iter().filter(is_sent));

    if waits_for_reply(message) {
        let Some(first) = rest.first_mut() else { return };
        // A result can be after a later exchange than its call, and without the call there is nothing to reply to.
        let seq = round.filter(|_| last.rest.is_none()).map_or(first.seq, |round| round.asked);
        let round = round.filter(|_| !asks_without_rounds);
        *first = Item { seq, round, ..first.clone().stand_in(constant) };
    } else if let Some(round) = round.filter(|_| asks_without_rounds && last.rest.is_none()) {
        leave_reply(before, round, Some(constant));
    }
}

/// Returns `true` if a message is sent as it was made, but for the form of the arguments of calls. That does not change
/// the parts before its reasoning.
fn has_only_other_arguments(sent: &Message, made: &Message) -> bool {
    let sendable = made.sendable();
    sent.digest() == sendable.digest() && parts(&sendable) == parts(made)
}

fn parts(message: &Message) -> usize {
    let mut parts = 0;
    message.parts(&mut |_| parts += 1);
    parts
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
/// that had some. If `continues`, the model continues its turn after the items.
pub(super) fn leave_out_bound_to_prefix(items: &mut Vec<Item>, continues: bool) -> usize {
    let valid = Validity { prefix: 0, origin: true, restarts: true };
    let mut left_out = 0;
    let mut next = 0;
    while let Some(group) = Group::at(items, next) {
        next = group.end;
        left_out += leave_out(items, group, valid, Extent::ALL);
        if next < items.len() || !continues {
            stand_in(items, group, Extent::ALL);
        }
    }

    items.retain(|item| !item.is_left_out);
    left_out
}

/// Returns `true` if the turn that the input continues has reasoning that is bound to its prompt.
pub(super) fn binds_turn(items: &[Item], log: &WindowIndex<'_>) -> bool {
    let from = log.seq(log.most.window);
    log.continues && items.iter().any(|item| item.seq >= from && item.is_bound_reply())
}

/// The start of a prompt, found by reading the messages in order: the newest message that stands for everything before
/// it.
///
/// If calls before it have no result yet, because it is between the elements of their reply, the prompt begins with
/// this reply. So no result is without its call.
///
/// The start does not depend on the rounds that a cut leaves out. Otherwise prompts under one cut would not begin with
/// each other: the call that stores a cut knows the start before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    /// The index of the first item of the prompt.
    pub(super) start: usize,
    /// The number of calls without a result.
    open: usize,
    /// The index of the first item of the reply with the first of these calls.
    opened: usize,
}

impl Restart {
    /// Reads the message of the item at index `at`, also if its round is left out. `reply` is the index of the first
    /// item of its reply. Returns `true` if the prompt begins anew.
    pub(super) fn read(&mut self, at: usize, reply: usize, message: &Message, is_sent: bool) -> bool {
        let before = self.start;
        if message.index().restarts && is_sent {
            self.start = self.start.max(if self.open == 0 { at } else { self.opened });
        }
        let open = (self.open + message.tool_calls().len()).saturating_sub(message.answers().len());
        if self.open == 0 && open > 0 {
            self.opened = reply.max(self.start);
        }
        self.open = open;
        self.start > before
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::OpenAiResponses;

    use super::*;

    const USER: &str = r#"{"role":"user","content":"u"}"#;
    const CALL: &str = r#"{"type":"function_call","call_id":"x","name":"f","arguments":""}"#;
    const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"x","output":"r"}"#;
    const COMPACTION: &str = r#"{"type":"compaction","encrypted_content":"s"}"#;
    const REASONING: &str = r#"{"type":"reasoning","summary":[]}"#;

    /// Returns the start after these items. Each list is a reply, or an item outside of replies.
    fn start(groups: &[&[&str]]) -> usize {
        let mut restart = Restart::default();
        let mut at = 0;
        for group in groups {
            let reply = at;
            for json in *group {
                restart.read(at, reply, &Message::in_dialect(&OpenAiResponses, *json).unwrap(), true);
                at += 1;
            }
        }
        restart.start
    }

    #[test]
    fn the_prompt_begins_with_the_newest_compaction() {
        assert_eq!(start(&[&[USER], &[CALL], &[OUTPUT], &[USER]]), 0);
        assert_eq!(start(&[&[USER], &[REASONING, COMPACTION], &[USER]]), 2);
        assert_eq!(start(&[&[USER], &[COMPACTION], &[USER], &[CALL], &[OUTPUT], &[COMPACTION], &[USER]]), 5);
    }

    #[test]
    fn calls_of_the_same_reply_stay_before_their_results() {
        assert_eq!(start(&[&[USER], &[REASONING, CALL, COMPACTION, CALL], &[OUTPUT], &[OUTPUT]]), 1);
        assert_eq!(start(&[&[USER], &[COMPACTION, CALL, COMPACTION], &[OUTPUT]]), 1);
        assert_eq!(start(&[&[USER], &[CALL, COMPACTION], &[OUTPUT], &[COMPACTION]]), 4, "the call has its result");
    }
}
