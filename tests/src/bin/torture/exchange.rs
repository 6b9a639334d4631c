//! The texts of the workers. Each text names its conversation, its exchange and its part in it, and has a
//! checksum.

use std::{fmt, str::FromStr};

use tower_chat_history::{
    ConversationId, ExchangeId,
    store::{ConversationIdError, ExchangeIdError},
};

use crate::rng::{SeededRng, hash};

/// The number of a conversation.
pub(crate) type Conversation = u32;

/// Returns the id of a conversation.
pub(crate) fn conversation_id(conversation: Conversation) -> Result<ConversationId, ConversationIdError> {
    ConversationId::new(["torture", &format!("c{conversation}")])
}

/// The unique name of an exchange: `w<worker>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) worker: u32,
    pub(crate) number: u32,
}

impl Name {
    pub(crate) fn exchange_id(self) -> Result<ExchangeId, ExchangeIdError> {
        ExchangeId::new(self.to_string())
    }

    /// Returns the name of the exchange before it by the same worker. A tool result answers the call of that
    /// exchange.
    pub(crate) const fn before(self) -> Self {
        Self { worker: self.worker, number: self.number.saturating_sub(1) }
    }

    /// Returns the id of the call that this exchange makes.
    pub(crate) fn call_id(self) -> String {
        format!("call-{self}")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}-{}", self.worker, self.number)
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (worker, number) = text.strip_prefix('w').and_then(|rest| rest.split_once('-')).ok_or(())?;
        let name = Self { worker: worker.parse().map_err(drop)?, number: number.parse().map_err(drop)? };
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

/// The kind of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A question and its reply.
    Plain,
    /// A question that is answered by a tool call.
    Call,
    /// The result of the call in the exchange [before](Name::before), and the final reply.
    Result,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Call => "call",
            Self::Result => "result",
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Plain, Self::Call, Self::Result].into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// An exchange to be stored. Its name determines its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) name: Name,
    pub(crate) conversation: Conversation,
    pub(crate) kind: Kind,
}

impl Task {
    /// Returns a text of the exchange: `c<conversation> <name> <kind> <part> <checksum> <filler>`.
    pub(crate) fn text(&self, part: Part) -> String {
        let Self { name, conversation, kind } = self;
        let (kind, part) = (kind.as_str(), part.as_str());
        let head = format!("c{conversation} {name} {kind} {part}");
        let filler = filler(hash([head.as_str()]));
        let sum = hash([head.as_str(), &filler]);
        format!("{head} {sum:016x} {filler}")
    }
}

impl FromStr for Task {
    type Err = ();

    /// Parses a line between the processes: `<name> <conversation> <kind>`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or(());
        let (name, conversation, kind) = (word()?.parse()?, word()?.parse().map_err(drop)?, word()?.parse()?);
        if words.next().is_some() { Err(()) } else { Ok(Self { name, conversation, kind }) }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.conversation, self.kind.as_str())
    }
}

/// One of the two texts of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The input.
    Asked,
    /// The reply: its text, or the arguments of its call.
    Answered,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Answered => "answered",
        }
    }
}

/// Returns the task and part of a text, if the text is complete and its checksum is right.
pub(crate) fn read(text: &str) -> Option<(Task, Part)> {
    let mut words = text.splitn(6, ' ');
    let mut word = || words.next();
    let (conversation, name, kind, part, sum, filler) = (word()?, word()?, word()?, word()?, word()?, word()?);
    let head = format!("{conversation} {name} {kind} {part}");
    let true_sum = format!("{:016x}", hash([head.as_str(), filler]));
    let conversation = conversation.strip_prefix('c')?.parse().ok()?;
    let task = Task { name: name.parse().ok()?, conversation, kind: kind.parse().ok()? };
    let part = [Part::Asked, Part::Answered].into_iter().find(|known| known.as_str() == part)?;
    (sum == true_sum).then_some((task, part))
}

/// Returns filler words: usually few, sometimes some KB, rarely 100 KB.
fn filler(seed: u64) -> String {
    let mut rng = SeededRng::new(seed);
    let bytes = match rng.below(300) {
        0 => 100 << 10,
        1..20 => 1_000 + rng.index(6_000),
        _ => 10 + rng.index(300),
    };
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        // Some characters have several bytes, and some need JSON escapes.
        match rng.below(40) {
            0 => text.push_str("größer\n"),
            1 => text.push_str("\"\\\u{1F41F} "),
            _ => text.push_str(&format!("{:x} ", rng.next() >> 32)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: Kind) -> Task {
        Task { name: Name { worker: 3, number: 17 }, conversation: 5, kind }
    }

    #[test]
    fn a_text_identifies_its_task_and_part() {
        for kind in [Kind::Plain, Kind::Call, Kind::Result] {
            for part in [Part::Asked, Part::Answered] {
                assert_eq!(read(&task(kind).text(part)), Some((task(kind), part)));
            }
        }
    }

    #[test]
    fn changed_texts_are_rejected() {
        let text = task(Kind::Plain).text(Part::Asked);
        assert_eq!(read(&text[..text.len() - 1]), None, "cut off");
        assert_eq!(read(&format!("{text}x")), None, "longer");
        assert_eq!(read(&text.replacen("c5", "c6", 1)), None, "of another conversation");
        assert_eq!(read(&text.replacen("w3-17", "w3-18", 1)), None, "of another exchange");
        assert_eq!(read(&text.replacen("asked", "answered", 1)), None, "another part");
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_task_round_trips_as_one_line() {
        assert_eq!(task(Kind::Call).to_string(), "w3-17 5 call");
        assert_eq!("w3-17 5 call".parse(), Ok(task(Kind::Call)));
        for wrong in ["", "w3-17 5", "w3-17 5 call x", "w03-17 5 call", "3-17 5 call"] {
            assert_eq!(wrong.parse::<Task>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn texts_have_many_sizes() {
        let sizes: Vec<usize> = (0..3_000).map(|seed| filler(hash([seed.to_string().as_str()])).len()).collect();
        assert!(
            sizes.iter().any(|size| *size >= 100 << 10) && sizes.iter().filter(|size| **size < 400).count() > 2_500
        );
    }
}
