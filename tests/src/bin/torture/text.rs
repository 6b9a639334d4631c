//! The texts of exchanges. Each text names its conversation, its exchange and its part in it, and has a checksum.

use std::{fmt, str::FromStr};

use crate::{
    exchange::Task,
    rng::{SeededRng, hash},
};

/// A text of an exchange. Chat completions have the first two. The signing dialect numbers its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The input.
    Asked,
    /// The reply: its text, or the arguments of its call.
    Answered,
    /// The text with this number, in the order of the elements.
    Numbered(u8),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked"),
            Self::Answered => f.write_str("answered"),
            Self::Numbered(number) => write!(f, "text{number}"),
        }
    }
}

impl FromStr for Part {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let part = match text.strip_prefix("text") {
            Some(number) => Self::Numbered(number.parse().map_err(drop)?),
            None => [Self::Asked, Self::Answered].into_iter().find(|part| part.to_string() == text).ok_or(())?,
        };
        if part.to_string() == text { Ok(part) } else { Err(()) }
    }
}

impl Task {
    /// Returns a text of the exchange: `c<conversation> <name> <kind> <part> <checksum> <filler>`.
    pub(crate) fn text(&self, part: Part) -> String {
        let Self { name, conversation, kind } = self;
        let kind = kind.as_str();
        let head = format!("c{conversation} {name} {kind} {part}");
        let filler = filler(hash([head.as_str()]));
        let sum = hash([head.as_str(), &filler]);
        format!("{head} {sum:016x} {filler}")
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
    let part = part.parse().ok()?;
    (sum == true_sum).then_some((task, part))
}

/// Returns the tasks and parts of texts that are joined by line feeds, if each is complete.
pub(crate) fn read_joined(mut text: &str) -> Option<Vec<(Task, Part)>> {
    let mut found = Vec::new();
    loop {
        let mut words = text.splitn(5, ' ');
        let mut word = || words.next();
        let (conversation, name, kind, part) = (word()?, word()?, word()?, word()?);
        let conversation = conversation.strip_prefix('c')?.parse().ok()?;
        let task = Task { name: name.parse().ok()?, conversation, kind: kind.parse().ok()? };
        let part = part.parse().ok()?;
        found.push((task, part));
        // A text may have line feeds, so its end is known only from its task.
        text = text.strip_prefix(task.text(part).as_str())?;
        if text.is_empty() {
            return Some(found);
        }
        text = text.strip_prefix('\n')?;
    }
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
    use crate::exchange::{Kind, Name};

    fn task(kind: Kind) -> Task {
        Task { name: Name { worker: 3, number: 17 }, conversation: 5, kind }
    }

    #[test]
    fn a_text_identifies_its_task_and_part() {
        for kind in [Kind::Plain, Kind::Call, Kind::Step, Kind::Result] {
            for part in [Part::Asked, Part::Answered, Part::Numbered(0), Part::Numbered(12)] {
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
    fn joined_texts_are_read() {
        let of = |number| (task(Kind::Step), Part::Numbered(number));
        let joined = [0, 1, 2].map(|number| task(Kind::Step).text(Part::Numbered(number))).join("\n");
        assert_eq!(read_joined(&joined), Some(vec![of(0), of(1), of(2)]));
        assert_eq!(read_joined(&joined[..joined.len() - 1]), None, "cut off");
        assert_eq!(read_joined(&joined.replacen("text1", "text2", 1)), None, "another part");
        assert_eq!(read_joined(&format!("{joined}\n")), None, "longer");
    }

    #[test]
    fn texts_have_many_sizes() {
        let sizes: Vec<usize> = (0..3_000).map(|seed| filler(hash([seed.to_string().as_str()])).len()).collect();
        assert!(
            sizes.iter().any(|size| *size >= 100 << 10) && sizes.iter().filter(|size| **size < 400).count() > 2_500
        );
    }
}
