//! The rows of a prompt, from the items at each stage of its making.

use std::collections::HashMap;

use tower_chat_history_core::{Message, Provenance, Recorded, Seq};

use super::{
    super::item::Item,
    ExplainInput,
    row::{Fate, Row, SizedMessage, Subject, Why},
};

/// The items of a prompt at each stage of its making.
pub(super) struct Stages {
    /// The exchanges that gave way to another attempt.
    pub(super) gave_way: Vec<Seq>,
    /// The items of the fold.
    pub(super) folded: Vec<Item>,
    /// The same items, with cleared results.
    pub(super) cleared: Vec<Item>,
    /// Those that the rule for reasoning leaves.
    pub(super) ruled: Vec<Item>,
    /// Those that the cut leaves.
    pub(super) sent: Vec<Item>,
    /// True if a message stands for everything before it.
    pub(super) restarts: bool,
}

/// The place of a message: its exchange, and its number there. Recalled messages have the number 0.
type Key = (Seq, u32);

/// Returns the place of an item's message in the log, or `None` if it is not in the log.
fn key(item: &Item) -> Option<Key> {
    match item.number {
        Some(number) => Some((item.seq, number.get())),
        None => item.is_recalled.then_some((item.seq, 0)),
    }
}

/// A message of the log.
struct LogMessage<'a> {
    key: Key,
    subject: Subject,
    message: &'a Message,
}

/// Returns the rows of a prompt that was made at these stages, when the log's next exchange was `next`.
pub(super) fn rows(input: &ExplainInput<'_>, provenance: &Provenance, next: Seq, stages: &Stages) -> Vec<Row> {
    let mut rows = before_window(input, provenance);
    let fates = Fates::of(stages);

    let mut log = log_messages(input).peekable();
    for item in &stages.sent {
        let Some(place) = key(item) else {
            let subject = Subject::StoodIn { seq: item.seq };
            rows.push(Row { subject, fate: Fate::Sent, stored: None, sent: Some(sized(input, &item.message)) });
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
fn before_window(input: &ExplainInput<'_>, provenance: &Provenance) -> Vec<Row> {
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
    }
    rows
}

/// Returns the rows of everything after the window.
fn after_window<'a>(input: &'a ExplainInput<'_>, next: Seq) -> impl Iterator<Item = Row> + 'a {
    let Recorded { seq, exchange, .. } = input.explained;
    let meanwhile = (next < *seq).then(|| {
        let subject = Subject::Meanwhile { from: next, to: *seq };
        Row { subject, fate: Fate::LeftOut(Why::Later), stored: None, sent: None }
    });
    let as_stored = |subject: Subject, message: &Message| {
        let message = Some(sized(input, message));
        Row { subject, fate: Fate::Sent, stored: message.clone(), sent: message }
    };
    let recalled = exchange.recalled.iter();
    let recalled = recalled.map(move |recalled| as_stored(Subject::Recalled { seq: *seq }, &recalled.message));
    let messages = exchange.input().iter().enumerate();
    let messages = messages.map(move |(index, message)| as_stored(Subject::Input { index }, message));
    meanwhile.into_iter().chain(recalled).chain(messages)
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
    gave_way: &'a [Seq],
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
            gave_way: &stages.gave_way,
            folded: by_key(&stages.folded),
            cleared: by_key(&stages.cleared),
            ruled: by_key(&stages.ruled),
            begins_with: stages.ruled.iter().find_map(key).filter(|_| stages.restarts),
        }
    }

    /// Returns what became of a message that was sent as `sent`.
    fn of_sent(&self, logged: &LogMessage<'_>, sent: &Message) -> Fate {
        let [folded, cleared] = [&self.folded, &self.cleared].map(|stage| stage.get(&logged.key).copied());
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

        if self.gave_way.contains(&seq) {
            Why::OtherAttempt
        } else if number == 0 {
            Why::Recalled
        } else if message.is_blank_reply() {
            Why::Blank
        } else if message.is_tool_result() || !message.answers().is_empty() {
            Why::NoOpenCall
        } else {
            Why::Unpaired
        }
    }
}
