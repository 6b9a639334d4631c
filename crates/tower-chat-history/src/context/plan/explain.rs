//! Explaining a past prompt: it is made again from the log and the [provenance](Provenance) of its reply, and the
//! digests are compared.
//!
//! The provenance has the positions under which the prompt was made, so nothing is fitted again: the functions
//! of the planner clear results, leave out reasoning and cut the window. The rules for clearing are those of the
//! options.
//!
//! # Decisions
//!
//! - **No prompt is stored.** A conversation would grow with the square of its length. A list of what was left out
//!   would have to be right for every rule of the planner, and nothing would prove it.

use std::{collections::HashMap, fmt, iter};

use tower_chat_history_core::{Compat, Cut, Exchange, Message, Provenance, Recalled, Recorded, Seq};

use super::{
    adapt::{Around, adapt},
    clearing,
    fit::{WholeWindow, kept},
    fold::Folded,
    input::check_input,
    item::{Extent, Item},
    reasoning::{Conditions, RENDERER, digest_after},
    thoughts,
    window_index::WindowIndex,
};
use crate::context::{
    bridge::{UNDERSTOOD, constant_reply, first_of, is_question, reply_to_summary},
    budget::ClearResults,
    request::RequestInfo,
};

/// The data to make a prompt again.
#[derive(Clone, Copy)]
pub(crate) struct ExplainInput<'a> {
    /// The exchange whose prompt is explained, as it is stored.
    pub(crate) explained: &'a Recorded,
    /// The exchanges of the log from the start of the window to the [time](Provenance::made_at) of the prompt, in the
    /// dialect of the explained exchange.
    pub(crate) exchanges: &'a [Recorded],
    /// The positions of those that were translated, in order.
    pub(crate) translated: &'a [Seq],
    /// The position of the log's first exchange.
    pub(crate) first: Seq,
    /// The message of the summary that the provenance names, if it is still stored. `None` if the provenance names no
    /// summary.
    pub(crate) summary: Option<&'a Message>,
    /// The description of what the reader of the prompt accepted.
    pub(crate) compat: &'a Compat,
    /// The options for clearing results.
    pub(crate) clear: Option<&'a ClearResults>,
    /// Counts the tokens of a message.
    pub(crate) cost: &'a dyn Fn(&Message) -> u64,
}

impl fmt::Debug for ExplainInput<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExplainInput")
            .field("explained", self.explained)
            .field("exchanges", &self.exchanges.len())
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}

/// The reason why a prompt is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKnown {
    /// No model made the exchange, or an erasing prune removed its provenance.
    #[error("nothing is stored about a prompt: no model made the exchange, or it was erased")]
    NoProvenance,
    /// The prompt was made by another version of this library, which may render the same log in another way.
    #[error("the prompt was made by version {made_by} of the renderer, and this is version {this}")]
    OtherRenderer {
        /// The version that made it.
        made_by: u32,
        /// The version of this library.
        this: u32,
    },
    /// The reader of the prompt accepted less than the log has, and what it accepted is not known any more. The table
    /// of readers has changed, or what the conversation had learned about the reader is not stored any more.
    #[error("what the reader of the prompt accepted is not known any more")]
    OtherReader,
    /// The history could not be loaded for the call, so its prompt was made without the log.
    #[error("the prompt was made without the log, which could not be loaded")]
    NotLoaded,
    /// The prompt had a summary that was replaced since.
    #[error("the summary of the exchanges before {covers_to} is not stored any more")]
    SummaryGone {
        /// The end of the exchanges that it covers.
        covers_to: Seq,
    },
    /// Exchanges of the prompt are not in the log any more.
    #[error("the exchanges before {first} are not stored any more")]
    Pruned {
        /// The position of the first exchange that is stored.
        first: Seq,
    },
    /// The log leads to another prompt. Other options may be in use now than when it was made, another input may be
    /// stored than was sent, another summary of the same exchanges may have been sent, or a trimmer may have chosen the
    /// turns.
    #[error("the log leads to another prompt: options, input or summary differed, or a trimmer chose its turns")]
    Differs,
}

/// One message of the log, of the input, or of the prompt alone, and what became of it in a prompt. Exchanges that were
/// not read are one row together.
///
/// `Debug` shows positions and sizes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The subject of the row.
    pub subject: Subject,
    /// The treatment of it.
    pub fate: Fate,
    /// The message as it is in the log, in the dialect of the prompt. `None` if it is not in the log, and for exchanges
    /// that were not read.
    pub stored: Option<SizedMessage>,
    /// The message as it was sent. `None` if it was left out.
    pub sent: Option<SizedMessage>,
}

/// The subject of a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// All exchanges before the window. They were not read.
    Before {
        /// The position of the first one that is stored.
        from: Seq,
        /// The position after the last one.
        to: Seq,
        /// The end of those that the summary in the prompt covers. `None` if there was no summary.
        covers_to: Option<Seq>,
    },
    /// The summary.
    Summary {
        /// The end of the exchanges that it covers.
        covers_to: Seq,
    },
    /// A message of the log.
    Logged {
        /// The position of its exchange.
        seq: Seq,
        /// Its index in the exchange. If the exchange is in another dialect, it is the index in its translation.
        index: usize,
        /// True if its exchange is in another dialect, so that a translation is sent.
        translated: bool,
    },
    /// The earlier messages that were shown again with an exchange.
    Recalled {
        /// The position of the exchange. It can be the exchange whose prompt is explained.
        seq: Seq,
    },
    /// A constant message that the log does not have: the result of an abandoned call, a reply before a question that
    /// would follow another question or a result, or the beginning that a provider requires.
    StoodIn {
        /// The position of the exchange that it was sent for.
        seq: Seq,
    },
    /// All exchanges that were stored after the prompt was made and before its reply was.
    Meanwhile {
        /// The position of the first one.
        from: Seq,
        /// The position after the last one.
        to: Seq,
    },
    /// A message of the input.
    Input {
        /// Its index in the exchange.
        index: usize,
    },
}

/// The treatment of a message in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was sent as it is.
    Sent,
    /// A part of it was sent: for example, without reasoning or without results.
    InPart,
    /// It was sent with a placeholder in place of old results.
    Cleared,
    /// It was left out.
    LeftOut(Why),
}

/// The reason why a message was left out of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is before the window.
    BeforeWindow,
    /// It was stored after the prompt was made.
    Later,
    /// Its round of calls and results was left out to make the prompt smaller.
    Round,
    /// It has nothing but reasoning that is not valid in the prompt.
    Reasoning,
    /// It was recalled for an earlier call, and was left out to make the prompt smaller.
    Recalled,
    /// A message that the provider made stands for everything before it.
    StoodFor,
    /// Its exchange was replaced by another attempt to answer the same calls.
    OtherAttempt,
    /// It says nothing.
    Blank,
    /// It has results of calls that are not open: they are late, repeated, or answer no call.
    NoOpenCall,
    /// It belongs to a message that is missing: a call of the provider without its result, a result without its call,
    /// or an element that must be followed by another one.
    Unpaired,
}

/// A message and its size.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SizedMessage {
    /// The message.
    pub message: Message,
    /// Its size in tokens, by the token counter.
    pub tokens: u64,
}

impl SizedMessage {
    /// Returns its size in bytes of JSON.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.message.bytes()
    }
}

/// Returns the provenance of an exchange, and the position of the log's next exchange when its prompt was made.
///
/// # Errors
///
/// Returns the reason if the prompt cannot be known, whatever else is stored.
pub(crate) fn provenance_of(exchange: &Exchange) -> Result<(&Provenance, Seq), NotKnown> {
    let provenance = exchange.provenance.as_ref().ok_or(NotKnown::NoProvenance)?;
    if provenance.renderer != RENDERER {
        return Err(NotKnown::OtherRenderer { made_by: provenance.renderer, this: RENDERER });
    }
    let next = provenance.made_at.ok_or(NotKnown::NotLoaded)?;

    Ok((provenance, next))
}

/// Makes the prompt of an exchange again. Returns what became of each message in it.
///
/// # Errors
///
/// Returns the reason if the prompt is not known: if its digest is not the stored one.
pub(crate) fn explain(input: &ExplainInput<'_>) -> Result<Vec<Row>, NotKnown> {
    let (provenance, next) = provenance_of(&input.explained.exchange)?;
    let covers_to = provenance.cut.covers_to;
    if covers_to > Seq::FIRST && input.summary.is_none() {
        return Err(NotKnown::SummaryGone { covers_to });
    }

    let mut request = RequestInfo::new();
    request.host.clone_from(&provenance.host);
    if let Some(stages) = stages(input, provenance, &request) {
        return Ok(rows(input, provenance, next, &stages));
    }

    if provenance.cut.window_start.min(next) < input.first {
        return Err(NotKnown::Pruned { first: input.first });
    }
    Err(NotKnown::Differs)
}

/// Makes the prompt again, for a request like this one. Returns `None` if it is not the one that was sent.
fn stages(input: &ExplainInput<'_>, provenance: &Provenance, request: &RequestInfo) -> Option<Stages> {
    let ExplainInput { exchanges, summary, compat, clear, cost, .. } = *input;
    let explained = &input.explained.exchange;
    let cut = Cut::at(provenance.cut);

    let mut folded = Folded::of(exchanges, cut.positions);
    folded.drop_attempt_before(explained.input());
    let answers = check_input(folded.state(), explained.input()).ok()?;
    let continues = folded.state().asked().filter(|_| answers);
    let replaced = folded.replaced().to_vec();
    let folded = folded.into_items_before(explained.input(), answers);

    let Provenance { digests, origin, .. } = provenance;
    let conditions = Conditions { request, head: digests.head, origin, compat, old_reasoning: None };
    // Unlike those of a window index, these positions can be after the last exchange: then its round was left out, too.
    let extent = Extent::of(cut.positions);
    let has_summary = summary.is_some();
    let around = Around { exchanges, call: conditions, input: explained.input(), has_summary, counted: extent };
    let mut folded = adapt(folded, around);
    thoughts::leave_out(&mut folded, cut.thoughts_from, compat);

    let mut items = folded.clone();
    if let Some(clear) = clear {
        clearing::apply(&mut items, clear, cost, cut.cleared_before);
    }
    let cleared = items.clone();

    let log = WindowIndex::of(exchanges, &cut, continues);
    let mut window = WholeWindow { items, exchanges, cut: &cut, continues, summary, conditions };
    let reasoning = window.apply_rule(&log);
    let ruled = window.items;

    let sent = kept(ruled.clone(), extent);

    let next = sent.first().map(|item| &item.message).or(first_of(explained.input()));
    let reply_to_summary = summary.and_then(|summary| reply_to_summary(summary, next));
    let recalled = recalled(explained);
    let before = summary.into_iter().chain(&reply_to_summary).chain(sent.iter().map(|item| &item.message));
    let digest = digest_after(provenance.digests.head, before.chain(&recalled).chain(explained.input()));
    if digest != provenance.digests.prompt {
        return None;
    }
    Some(Stages { replaced, folded, cleared, ruled, sent, reply_to_summary, restarts: reasoning.restarts })
}

/// The items of a prompt at each stage of its making.
struct Stages {
    /// The exchanges that another attempt replaced.
    replaced: Vec<Seq>,
    /// The items of the fold.
    folded: Vec<Item>,
    /// The same items, with cleared results.
    cleared: Vec<Item>,
    /// Those that the rule for reasoning leaves.
    ruled: Vec<Item>,
    /// Those that the cut leaves.
    sent: Vec<Item>,
    /// The constant reply to the summary.
    reply_to_summary: Option<Message>,
    /// True if a message stands for everything before it.
    restarts: bool,
}

/// The place of a message: its exchange, and its number there. Recalled messages have the number 0.
type Key = (Seq, u32);

/// Returns the messages that were recalled for an exchange, and the constant reply to them.
fn recalled(exchange: &Exchange) -> Vec<Message> {
    let Some(Recalled { message, .. }) = &exchange.recalled else { return Vec::new() };
    let reply = first_of(exchange.input()).filter(|first| is_question(first));
    let reply = reply.and_then(|_| constant_reply(message, UNDERSTOOD));
    iter::once(message.clone()).chain(reply).collect()
}

/// Returns the place of an item's message in the log, or `None` if it is not in the log.
fn key(item: &Item) -> Option<Key> {
    match item.number {
        Some(number) => Some((item.seq, number.get())),
        None => (item.is_recalled && !item.is_bridge).then_some((item.seq, 0)),
    }
}

/// A message of the log.
struct LogMessage<'a> {
    key: Key,
    subject: Subject,
    message: &'a Message,
}

/// Returns the rows of a prompt that was made at these stages, when the log's next exchange was `next`.
fn rows(input: &ExplainInput<'_>, provenance: &Provenance, next: Seq, stages: &Stages) -> Vec<Row> {
    let mut rows = before_window(input, provenance, stages.reply_to_summary.as_ref());
    let fates = Fates::of(stages);

    let mut log = log_messages(input).peekable();
    for item in &stages.sent {
        let Some(place) = key(item) else {
            rows.push(stood_in(input, item.seq, &item.message));
            continue;
        };
        while let Some(before) = log.next_if(|logged| logged.key < place) {
            rows.push(left_out(input, &before, fates.why(&before)));
        }
        if let Some(logged) = log.next_if(|logged| logged.key == place) {
            let fate = fates.of_sent(&logged, &item.message);
            let stored = Some(sized(input, logged.message));
            let sent = Some(sized(input, &item.message));
            rows.push(Row { subject: logged.subject, fate, stored, sent });
        }
    }
    rows.extend(log.map(|logged| left_out(input, &logged, fates.why(&logged))));

    rows.extend(after_window(input, next));
    rows
}

/// Returns the rows of everything before the window.
fn before_window(input: &ExplainInput<'_>, provenance: &Provenance, reply: Option<&Message>) -> Vec<Row> {
    let start = provenance.cut.window_start;
    let covers_to = provenance.cut.covers_to;

    let mut rows = Vec::new();
    if input.first < start {
        let covers_to = input.summary.map(|_| covers_to);
        let subject = Subject::Before { from: input.first, to: start, covers_to };
        rows.push(Row { subject, fate: Fate::LeftOut(Why::BeforeWindow), stored: None, sent: None });
    }
    if let Some(summary) = input.summary {
        let subject = Subject::Summary { covers_to };
        rows.push(Row { subject, fate: Fate::Sent, stored: None, sent: Some(sized(input, summary)) });
        rows.extend(reply.map(|reply| stood_in(input, start, reply)));
    }
    rows
}

/// Returns the rows of everything after the window.
fn after_window(input: &ExplainInput<'_>, next: Seq) -> Vec<Row> {
    let Recorded { seq, exchange, .. } = input.explained;

    let mut rows = Vec::new();
    if next < *seq {
        let subject = Subject::Meanwhile { from: next, to: *seq };
        rows.push(Row { subject, fate: Fate::LeftOut(Why::Later), stored: None, sent: None });
    }
    if let [message, reply @ ..] = recalled(exchange).as_slice() {
        rows.push(sent_as_stored(input, Subject::Recalled { seq: *seq }, message));
        rows.extend(reply.iter().map(|reply| stood_in(input, *seq, reply)));
    }
    for (index, message) in exchange.input().iter().enumerate() {
        rows.push(sent_as_stored(input, Subject::Input { index }, message));
    }
    rows
}

fn stood_in(input: &ExplainInput<'_>, seq: Seq, message: &Message) -> Row {
    let subject = Subject::StoodIn { seq };
    Row { subject, fate: Fate::Sent, stored: None, sent: Some(sized(input, message)) }
}

fn sent_as_stored(input: &ExplainInput<'_>, subject: Subject, message: &Message) -> Row {
    let message = Some(sized(input, message));
    Row { subject, fate: Fate::Sent, stored: message.clone(), sent: message }
}

/// Returns the messages of the window's exchanges, in their order.
fn log_messages<'a>(input: &ExplainInput<'a>) -> impl Iterator<Item = LogMessage<'a>> {
    let translated = input.translated;
    input.exchanges.iter().flat_map(move |Recorded { seq, exchange, .. }| {
        let seq = *seq;
        let is_translated = translated.binary_search(&seq).is_ok();
        let recalled = exchange.recalled.iter().map(move |recalled| LogMessage {
            key: (seq, 0),
            subject: Subject::Recalled { seq },
            message: &recalled.message,
        });
        let messages = exchange.messages.iter().zip(0..).map(move |(message, index)| LogMessage {
            key: (seq, index + 1),
            subject: Subject::Logged { seq, index: index as usize, translated: is_translated },
            message,
        });
        recalled.chain(messages)
    })
}

fn left_out(input: &ExplainInput<'_>, logged: &LogMessage<'_>, why: Why) -> Row {
    let stored = Some(sized(input, logged.message));
    Row { subject: logged.subject, fate: Fate::LeftOut(why), stored, sent: None }
}

fn sized(input: &ExplainInput<'_>, message: &Message) -> SizedMessage {
    SizedMessage { message: message.clone(), tokens: (input.cost)(message) }
}

/// The messages of the log at each stage.
struct Fates<'a> {
    replaced: &'a [Seq],
    folded: HashMap<Key, &'a Message>,
    cleared: HashMap<Key, &'a Message>,
    ruled: HashMap<Key, &'a Message>,
    /// The first message of the prompt, if it stands for everything before it.
    begins_with: Option<Key>,
}

impl<'a> Fates<'a> {
    fn of(stages: &'a Stages) -> Self {
        fn by_key(items: &[Item]) -> HashMap<Key, &Message> {
            items.iter().filter_map(|item| Some((key(item)?, &item.message))).collect()
        }
        Self {
            replaced: &stages.replaced,
            folded: by_key(&stages.folded),
            cleared: by_key(&stages.cleared),
            ruled: by_key(&stages.ruled),
            begins_with: stages.ruled.iter().find_map(key).filter(|_| stages.restarts),
        }
    }

    /// Returns what became of a message that was sent as `sent`.
    fn of_sent(&self, logged: &LogMessage<'_>, sent: &Message) -> Fate {
        let folded = self.folded.get(&logged.key).copied();
        let cleared = self.cleared.get(&logged.key).copied();
        if sent == logged.message {
            Fate::Sent
        } else if cleared != folded && cleared == Some(sent) {
            Fate::Cleared
        } else {
            Fate::InPart
        }
    }

    /// Returns why a message was not sent.
    fn why(&self, logged: &LogMessage<'_>) -> Why {
        let LogMessage { key: (seq, number), message, .. } = *logged;
        if self.ruled.contains_key(&logged.key) {
            return Why::Round;
        }
        if self.folded.contains_key(&logged.key) {
            let is_before = self.begins_with.is_some_and(|first| logged.key < first);
            return if is_before { Why::StoodFor } else { Why::Reasoning };
        }

        if self.replaced.contains(&seq) {
            Why::OtherAttempt
        } else if number == 0 {
            Why::Recalled
        } else if message.is_blank() {
            Why::Blank
        } else if message.is_tool_result() || !message.answers().is_empty() {
            Why::NoOpenCall
        } else {
            Why::Unpaired
        }
    }
}
