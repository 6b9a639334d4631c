//! The gate: whether an input recalls anything.

use std::{collections::HashSet, sync::Arc};

use super::analyzer::{Analyzer, Term};

/// The part of a log that may have the words of an input by chance: one in this many passages.
const BY_CHANCE: f64 = 50.0;

/// Decides if an input recalls anything. Small talk should not.
///
/// The words of the input that are neither stop words nor in a list of about 200 words of small talk are evidence.
/// The *information* of a passage, in bits, is the sum of `log2(passages / passages with the word)` over its
/// evidence. The need is 5.6 bits: words that chance puts into one of 50 passages. In a log of fewer than 50
/// passages, it is the information of a word that only one of them has.
///
/// The gate opens if the input asks something, by a question mark or a question word at its beginning, and a passage
/// reaches the need. It also opens if a passage with two words of evidence reaches twice the need.
///
/// The list is English. In other languages, small talk that asks nothing still has to reach twice the need.
#[derive(Clone, Debug)]
pub struct Gate {
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Open,
    Evidence { small_talk: Arc<HashSet<Term>>, need: f64 },
}

/// The decision of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// `true` if the hits are to be shown.
    pub open: bool,
    /// The most information of a passage, in bits.
    pub information: f64,
    /// The information that was needed, in bits.
    pub needed: f64,
}

/// The most information of a passage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    any: f64,
    /// Of passages with two words of evidence.
    two: f64,
}

impl Gate {
    /// Creates the gate for queries of this analyzer.
    #[must_use]
    pub fn new(analyzer: &Analyzer) -> Self {
        let small_talk = analyzer.terms(SMALL_TALK).into_iter().collect();
        Self { rule: Rule::Evidence { small_talk: Arc::new(small_talk), need: BY_CHANCE.log2() } }
    }

    /// Creates a gate that is always open.
    #[must_use]
    pub const fn always_open() -> Self {
        Self { rule: Rule::Open }
    }

    /// Sets the information that a passage needs, in bits. The default is 5.6. An open gate stays open.
    #[must_use]
    pub fn need(mut self, bits: f64) -> Self {
        if let Rule::Evidence { need, .. } = &mut self.rule {
            *need = bits;
        }
        self
    }

    /// Returns `true` if a term is evidence.
    pub(crate) fn counts(&self, term: Term) -> bool {
        match &self.rule {
            Rule::Open => true,
            Rule::Evidence { small_talk, .. } => !small_talk.contains(&term),
        }
    }

    pub(crate) fn outcome(&self, evidence: &Evidence, documents: u32, asks: bool) -> Decision {
        let Rule::Evidence { need, .. } = &self.rule else {
            return Decision { open: true, information: evidence.any, needed: 0.0 };
        };
        let need = need.min(f64::from(documents.max(1)).log2());
        let twice = need * 2.0;
        let asked = asks && evidence.any > 0.0 && evidence.any >= need;
        let stated = evidence.two > 0.0 && evidence.two >= twice;
        let (information, needed) = if asks { (evidence.any, need) } else { (evidence.two, twice) };
        Decision { open: asked || stated, information, needed }
    }
}

impl Evidence {
    /// Adds a passage: the information of its words of evidence, and their number.
    pub(crate) fn add(&mut self, information: f64, words: usize) {
        self.any = self.any.max(information);
        if words >= 2 {
            self.two = self.two.max(information);
        }
    }
}

/// Words that say little about a subject, in lower case: an input of only these recalls nothing.
const SMALL_TALK: &str = "
    absolutely actually again agree agreed ah already alright always amazing anything anyway apologies
    appreciate ask awesome back believe bet better bit bored boring brilliant bye care chance chat cheers clear
    come continue cool correct course day definitely done easy else enjoy enough evening ever everything exactly
    excellent exciting explain fair fantastic finally fine first forget forward funny get glad go gonna good
    goodbye got gotcha gotta great guess guys haha happy hello help helpful hey hi hmm hold honest honestly hope
    hurry idea impressive interesting joke joking keep kidding kind know later laugh least let let's like little
    lol look lot love lovely luck make makes matter maybe mention minute mistake moment morning much need never
    new next nice night nothing now obviously often ok okay one oops perfect perhaps please pleasure point
    pretty probably question quick quite rather ready really right same say see seem sense seriously set silly
    sleep somehow something sometimes soon sorry sounds start still stuff stupid suppose sure surprise take talk
    tell terrible thank thanks thing think time tired today tomorrow tonight totally true trust try understand
    understood usually wait wanna want way weekend welcome well whatever wonder wonderful worry worth wow wrong
    yeah yep yes yesterday";

/// Words that questions begin with, in several languages, as a list in JSON.
const QUESTION_WORDS: &str = include_str!("question_words.json");

/// Returns `true` if a text asks something: it has a question mark of any script, or begins with a question word.
pub(crate) fn asks(text: &str) -> bool {
    text.contains(is_question_mark) || begins_with_question_word(text)
}

const fn is_question_mark(c: char) -> bool {
    matches!(c, '?' | '؟' | '？' | '՞' | ';' | '⁇' | '⁈' | '⁉' | '፧' | '꘏' | '︖' | '﹖')
}

fn begins_with_question_word(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '-')));
    let first = words.next().unwrap_or_default();

    // No question word is longer.
    if first.is_empty() || first.len() > 32 {
        return false;
    }

    let first = first.to_lowercase().replace('’', "'");
    // In the list, each word is between quotation marks.
    !first.contains('"') && QUESTION_WORDS.contains(&format!("\"{first}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_a_mark_or_begin_with_a_question_word() {
        for text in ["My dog?", "what is my name", " \"Who’s that", "Wo wohne ich", "我叫什么？", "ما اسمي؟", "Τι;"]
        {
            assert!(asks(text), "{text}");
        }
        for text in ["", "Thanks a lot!", "Whatever you say", "My name is Nemo."] {
            assert!(!asks(text), "{text}");
        }
    }
}
