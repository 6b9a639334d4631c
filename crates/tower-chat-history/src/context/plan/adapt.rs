//! The items of a window, as their reader accepts them.
//!
//! [`adapt`] is a pure function, applied before sizes and digests are computed. Each message is rendered by itself and
//! by the messages before it, so the prompts for one reader begin with each other. The only exception is a round of
//! several calls for a reader of single calls: its results must be in the log before it can be split, because those of
//! an input are sent as the caller wrote them.
//!
//! # Constant messages
//!
//! They are sent as long as the message is for which they stand there. The reply that stands between two messages of
//! the user has the position of the first one, and the question that stands before a reply has that of the reply.

use std::{collections::VecDeque, sync::Arc};

use tower_chat_history_core::{Closes, Compat, MadeBy, Message, Provenance, Recorded, Role, Seq, SystemMessages};

use super::{
    item::{Extent, Item},
    media,
    reasoning::Conditions,
};
use crate::context::{
    bridge::{NO_REPLY, constant_reply, first_of, is_question},
    compat::made_by,
    view::NO_TEXT,
};

/// The surroundings of the items.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The exchanges of the items.
    pub(super) exchanges: &'a [Recorded],
    pub(super) call: Conditions<'a>,
    /// The messages after the items.
    pub(super) input: &'a [Message],
    /// True if a summary stands before the items.
    pub(super) has_summary: bool,
    /// The part of the items whose media count.
    pub(super) counted: Extent,
}

/// Returns the items as the reader of the call accepts them.
pub(super) fn adapt(mut items: Vec<Item>, around: Around<'_>) -> Vec<Item> {
    let compat = around.call.compat;
    let mut makers = Makers::new(around.exchanges, around.call);
    if !compat.is_default() {
        // Media that the reader does not accept become texts before anything else, as a text is easier to place.
        media::leave_out(&mut items, compat.media, around.input, around.counted);
        return arrange(around.each(items, &mut makers), around);
    }

    // Without flags, only the fields of other makers are left out.
    for item in &mut items {
        let may_change = item.is_reply && item.message.has_fields_of_maker();
        if may_change && makers.of(item.seq) == MadeBy::Other {
            let form = item.message.adapted(compat, MadeBy::Other);
            if let Some(message) = form.as_deref().and_then(<[Message]>::first) {
                item.message = message.clone();
            }
        }
    }
    items
}

/// Returns the forms of the messages of these exchanges that are not sent as they are, so that their tokens can be
/// counted before the call is planned.
pub(crate) fn forms_to_count(exchanges: &[Recorded], call: Conditions<'_>) -> Vec<Message> {
    let has_flags = !call.compat.is_default();
    let mut makers = Makers::new(exchanges, call);

    let mut forms = Vec::new();
    for Recorded { seq, exchange, .. } in exchanges {
        let reply_start = exchange.input().len();
        for (at, message) in exchange.messages.iter().enumerate() {
            let is_reply = at >= reply_start;
            let may_change = has_flags || is_reply && message.has_fields_of_maker();
            if !may_change {
                continue;
            }
            let made_by = if is_reply { makers.of(*seq) } else { MadeBy::Unknown };
            if has_flags || made_by == MadeBy::Other {
                forms.extend(message.adapted(call.compat, made_by).iter().flat_map(|form| form.iter().cloned()));
            }
        }
    }
    forms
}

/// The makers of replies. Most replies have the same one as the reply before.
struct Makers<'a> {
    exchanges: &'a [Recorded],
    call: Conditions<'a>,
    last: Option<(&'a Provenance, MadeBy)>,
}

impl<'a> Makers<'a> {
    const fn new(exchanges: &'a [Recorded], call: Conditions<'a>) -> Self {
        Self { exchanges, call, last: None }
    }

    fn of(&mut self, seq: Seq) -> MadeBy {
        let Self { exchanges, call, .. } = *self;
        let at = exchanges.binary_search_by_key(&seq, |recorded| recorded.seq);
        let exchange = at.ok().and_then(|at| exchanges.get(at)).map(|recorded| &recorded.exchange);
        let Some(made) = exchange.and_then(|exchange| exchange.provenance.as_ref()) else { return MadeBy::Unknown };

        if let Some((last, maker)) = self.last
            && last.origin == made.origin
            && last.host == made.host
        {
            return maker;
        }
        let maker = made_by(Some(made), call.origin, call.request.host.as_deref());
        self.last = Some((made, maker));
        maker
    }
}

impl Around<'_> {
    /// Adapts each message by itself.
    fn each(self, items: Vec<Item>, makers: &mut Makers<'_>) -> Vec<Item> {
        let compat = self.call.compat;
        let begins = self.begins() && !self.call.request.head.iter().any(Message::is_instruction);

        let mut adapted = Vec::with_capacity(items.len());
        let mut waiting = VecDeque::from(items);
        while let Some(mut item) = waiting.pop_front() {
            let mut own = *compat;
            if adapted.is_empty() && begins && compat.system == SystemMessages::First {
                own.system = SystemMessages::Anywhere;
            }
            own.single_calls &= are_answered(&item.message, &waiting);

            let Some(messages) = forms(&item, &own, makers) else {
                adapted.push(item);
                continue;
            };
            if let [message] = &*messages {
                adapted.push(with_message(item, message, &own));
                continue;
            }

            // Each of several calls is followed by its result.
            let mut results = Vec::new();
            while waiting.front().is_some_and(|next| next.message.is_tool_result()) {
                let Some(result) = waiting.pop_front() else { break };
                let form = forms(&result, &own, makers);
                let message = form.as_deref().and_then(<[Message]>::first).unwrap_or(&result.message).clone();
                results.push(Item { message, ..result });
            }
            for message in &*messages {
                let calls = message.tool_calls();
                let rest = item.rest.take();
                adapted.push(Item { message: message.clone(), rest, ..item.clone() });
                let is_of_call =
                    |result: &Item| calls.iter().any(|call| result.message.answers().first() == Some(call.call_id()));
                if let Some(at) = results.iter().position(is_of_call) {
                    adapted.push(results.remove(at));
                }
            }
            adapted.append(&mut results);
        }
        adapted
    }

    /// Returns `true` if nothing but instructions stands before the items.
    fn begins(self) -> bool {
        let head = &self.call.request.head;
        let says_head = self.call.compat.system == SystemMessages::Never && !head.is_empty();
        !self.has_summary && !says_head && head.iter().all(Message::is_instruction)
    }
}

/// Returns the messages in place of an item's message, or `None` if it stays.
fn forms(item: &Item, compat: &Compat, makers: &mut Makers<'_>) -> Option<Arc<[Message]>> {
    let made_by = if item.is_reply { makers.of(item.seq) } else { MadeBy::Unknown };
    item.message.adapted(compat, made_by)
}

/// Returns the item with this message, and with its rest as the reader accepts it.
fn with_message(item: Item, message: &Message, compat: &Compat) -> Item {
    let rest = item.rest.map(|rest| {
        let form = rest.adapted(compat, MadeBy::Unknown);
        form.as_deref().and_then(<[Message]>::first).cloned().unwrap_or(rest)
    });
    Item { message: message.clone(), rest, ..item }
}

/// Returns `true` if the results of all calls of a message directly follow it.
fn are_answered(message: &Message, next: &VecDeque<Item>) -> bool {
    let results = next.iter().take_while(|item| item.message.is_tool_result());
    let answers: usize = results.map(|item| item.message.answers().len()).sum();
    answers == message.tool_calls().len()
}

/// The kind of the message before another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The messages before the items. Whoever adds them decides what follows.
    Others,
    User,
    Reply,
    /// Calls or their results.
    Round,
}

/// Adds the constant messages that the reader needs between others.
fn arrange(items: Vec<Item>, around: Around<'_>) -> Vec<Item> {
    let compat = around.call.compat;
    if !compat.alternates && !compat.begins_with_user {
        return items;
    }

    let mut before = if around.begins() { Before::Nothing } else { Before::Others };
    let mut arranged: Vec<Item> = Vec::with_capacity(items.len() + 2);
    for item in items {
        let message = &item.message;
        match message.role() {
            Role::User => {
                if message.answers().is_empty() {
                    arranged.extend(reply_after(&arranged, before, compat));
                }
                before = Before::User;
            }
            Role::Assistant => {
                // A reply of several elements is one reply.
                let is_new = message.index().closes != Closes::AfterResult;
                let lacks_question = match before {
                    Before::Nothing => true,
                    Before::Reply => compat.alternates && is_new,
                    _ => false,
                };
                arranged.extend(question_before(&item).filter(|_| lacks_question));
                before = if message.tool_calls().is_empty() { Before::Reply } else { Before::Round };
            }
            Role::Tool | Role::Function => before = Before::Round,
            _ => {}
        }
        arranged.push(item);
    }

    if first_of(around.input).is_some_and(is_question) {
        arranged.extend(reply_after(&arranged, before, compat));
    }
    arranged
}

/// Returns the constant reply that must stand between the last item and a message of the user.
fn reply_after(items: &[Item], before: Before, compat: &Compat) -> Option<Item> {
    if !compat.alternates || !matches!(before, Before::User | Before::Round) {
        return None;
    }
    let is_before = |item: &&Item| !item.message.is_instruction();
    let last = items.iter().rev().find(is_before)?;
    let message = constant_reply(&last.message, NO_REPLY)?;
    let seq = last.round.map_or(last.seq, |round| round.asked);
    Some(Item { is_bridge: true, is_recalled: last.is_recalled, ..Item::new(message, seq) })
}

/// Returns the constant question that must stand before a reply.
fn question_before(item: &Item) -> Option<Item> {
    let message = Message::compose(item.message.dialect()?, &Role::User, NO_TEXT).ok()?;
    Some(Item::new(message, item.round.map_or(item.seq, |round| round.asked)))
}
