//! From text to terms.

mod language;
mod words;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    ops::ControlFlow,
    sync::Arc,
};

use frostem::Stemmer;
use unicode_normalization::UnicodeNormalization;

pub use self::language::Language;
pub(crate) use self::words::is_unspaced;
use self::words::{Word, each_word};

/// The ends of words that are contracted with the one before them.
const CONTRACTIONS: [&str; 6] = ["'d", "'ll", "'m", "'re", "'s", "'ve"];

/// Turns text into terms, which stand for words. The same analyzer must read the messages and the queries.
///
/// The steps are: NFKC, lower case, words by UAX 29 of at most 64 characters, stop words, stems (Snowball), and
/// folded diacritics. Text without spaces (Han, Hiragana, Thai) and Hangul words become pairs of neighbors.
///
/// With several languages, a word has the form of each language's stemmer, mostly one or two different ones. So no
/// language has to be guessed from a short text. A stop word of one of the languages is left out in all of them.
///
/// Cloning only increments a reference count.
///
/// ```
/// use tower_chat_history::recall::{Analyzer, Language};
///
/// // "The dogs were running" and "a dog runs" have the same terms.
/// let analyzer = Analyzer::new([Language::English]);
/// # let _ = analyzer;
/// ```
#[derive(Clone)]
pub struct Analyzer(Arc<Rules>);

struct Rules {
    languages: Vec<Language>,
    stemmers: Vec<Stemmer>,
    stop_words: HashSet<&'static str>,
}

impl Analyzer {
    /// The most terms of a text: its first ones.
    pub const MAX_TERMS: usize = 4096;

    /// Creates the analyzer for these languages. Their order does not matter. Without any, words are not stemmed.
    #[must_use]
    pub fn new(languages: impl IntoIterator<Item = Language>) -> Self {
        let mut languages: Vec<Language> = languages.into_iter().collect();
        languages.sort_unstable();
        languages.dedup();
        let stemmers = languages.iter().map(|language| language.stemmer()).collect();
        let stop_words = stop_words(&languages).collect();
        Self(Arc::new(Rules { languages, stemmers, stop_words }))
    }

    /// Returns the terms of a text, in order and with repetitions, at most [`MAX_TERMS`](Self::MAX_TERMS).
    ///
    /// It normalizes the whole text first, so pass texts of bounded length.
    pub(crate) fn terms(&self, text: &str) -> Vec<Term> {
        self.0.terms(text, Self::MAX_TERMS)
    }

    /// Returns the forms of each word of a text, in order and with repetitions, with at most
    /// [`MAX_TERMS`](Self::MAX_TERMS) words.
    pub(crate) fn words(&self, text: &str) -> Vec<Vec<Term>> {
        let mut words = Vec::new();
        self.0.each_word(text, |forms| {
            words.push(forms.to_vec());
            if words.len() < Self::MAX_TERMS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        words
    }

    /// Returns the terms of a text, in order and with repetitions, at most `limit`.
    pub(crate) fn terms_within(&self, text: &str, limit: usize) -> Vec<Term> {
        self.0.terms(text, limit)
    }

    /// Returns an estimate of the work to turn a text into this many terms. A unit is about 30 nanoseconds: the work
    /// for a byte of English.
    pub(crate) fn work(&self, text: &str, terms: usize) -> usize {
        // Other characters than ASCII are normalized and folded.
        let bytes = if text.is_ascii() { text.len() } else { text.len().saturating_mul(2) };
        let stemmed = bytes.saturating_mul(self.0.stemmers.len()) / 4;
        bytes.saturating_add(stemmed).saturating_add(terms.saturating_mul(8))
    }
}

impl Default for Analyzer {
    /// Creates the analyzer for English.
    fn default() -> Self {
        Self::new([Language::English])
    }
}

impl fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Analyzer").field(&self.0.languages).finish()
    }
}

impl Rules {
    fn terms(&self, text: &str, limit: usize) -> Vec<Term> {
        let mut terms = Vec::new();
        self.each_word(text, |forms| {
            terms.extend_from_slice(forms);
            if terms.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        terms.truncate(limit);
        terms
    }

    /// Calls `each` with the different forms of every word that is no stop word, until it breaks.
    fn each_word(&self, text: &str, mut each: impl FnMut(&[Term]) -> ControlFlow<()>) {
        let text = normalized(text);
        let mut forms = Vec::with_capacity(self.stemmers.len());
        let _ = each_word(&text, |word| match word {
            Word::Gram(gram) => each(&[Term::of_chars(folded(gram))]),
            Word::Plain(word) if self.is_stop_word(word) => ControlFlow::Continue(()),
            Word::Plain(word) => {
                forms.clear();
                self.forms_of(word, &mut forms);
                each(&forms)
            }
        });
    }

    /// Returns `true` for stop words, also before an English contraction: `how's` is `how`.
    fn is_stop_word(&self, word: &str) -> bool {
        if self.stop_words.contains(word) {
            return true;
        }
        let contracted = CONTRACTIONS.iter().find_map(|end| word.strip_suffix(end));
        contracted.is_some_and(|word| self.stop_words.contains(word))
    }

    /// Adds the different forms of a word.
    fn forms_of(&self, word: &str, forms: &mut Vec<Term>) {
        if self.stemmers.is_empty() {
            forms.push(Term::of_chars(folded(word)));
        }
        for stemmer in &self.stemmers {
            let stem = stemmer.stem(word);
            // A stemmer may take all of a short word.
            let stem = if stem.is_empty() { Cow::Borrowed(word) } else { stem };
            let term = if stem.is_ascii() { Term::of(&stem) } else { Term::of_chars(folded(&stem)) };
            if !forms.contains(&term) {
                forms.push(term);
            }
        }
    }
}

/// Returns a text in NFKC and lower case, with plain apostrophes.
///
/// NFKC makes up to 18 characters of one. Only hostile text has more than two for each byte, and is cut there.
fn normalized(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = text.nfkc().take(text.len().saturating_mul(2)).flat_map(char::to_lowercase);
    lower.map(|c| if matches!(c, '\u{2018}' | '\u{2019}') { '\'' } else { c }).collect()
}

/// For each language that has a list, its stop words in lower case, separated by spaces.
const LISTS: &str = include_str!("stop_words.json");

/// Returns the stop words of these languages. A language may have none.
fn stop_words(languages: &[Language]) -> impl Iterator<Item = &'static str> {
    // A test reads the lists.
    let lists: HashMap<&str, &str> = serde_json::from_str(LISTS).unwrap_or_default();
    let lists: Vec<&str> = languages.iter().filter_map(|language| lists.get(language.name()).copied()).collect();
    lists.into_iter().flat_map(str::split_whitespace)
}

/// Returns the characters of a word in lower case, without diacritics.
///
/// Accents of Latin, Greek and Cyrillic letters are dropped. Vowel signs of other scripts stay, because they are
/// letters of the word.
fn folded(word: &str) -> impl Iterator<Item = char> {
    word.nfd().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).flat_map(|c| letters(c).into_iter().flatten())
}

/// Returns the plain letters of a letter whose diacritic is part of its shape.
const fn letters(c: char) -> [Option<char>; 2] {
    match c {
        'ß' => [Some('s'), Some('s')],
        'æ' => [Some('a'), Some('e')],
        'œ' => [Some('o'), Some('e')],
        'ø' => [Some('o'), None],
        'đ' | 'ð' => [Some('d'), None],
        'ł' => [Some('l'), None],
        'ı' => [Some('i'), None],
        'þ' => [Some('t'), Some('h')],
        'ς' => [Some('σ'), None],
        _ => [Some(c), None],
    }
}

/// A word, as a hash of 64 bits.
///
/// Two different words have the same term with a probability of about 1 in 18,000,000,000,000,000,000. Then a search
/// finds the passages of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term(u64);

impl Term {
    /// Returns the term of a word in its final form: stemmed and folded.
    ///
    /// The hash is FNV-1a of 64 bits, then the finalizer of MurmurHash3. It does not resist attacks: whoever writes a
    /// conversation can make words of this conversation collide, and no others.
    fn of(word: &str) -> Self {
        Self::of_chars(word.chars())
    }

    /// Returns the term of the word that consists of these characters.
    fn of_chars(word: impl Iterator<Item = char>) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut utf8 = [0; 4];
        for c in word {
            for byte in c.encode_utf8(&mut utf8).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        Self(hash ^ (hash >> 33))
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({:016x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(analyzer: &Analyzer, a: &str, b: &str) -> bool {
        analyzer.terms(a) == analyzer.terms(b)
    }

    #[test]
    fn forms_of_a_word_have_one_term() {
        let english = Analyzer::default();
        for (a, b) in [
            ("Running the dogs", "run dog"),
            ("The dogs were running", "a dog runs"),
            ("ZOË", "zoe"),
            ("zoe\u{308}", "Zoë"),
            ("Caroline’s", "caroline"),
            ("ﬁles", "file"),
            ("Ｔｏｋｙｏ", "tokyo"),
            ("what's that?", ""),
            ("How’s he? They'd be", ""),
        ] {
            assert!(same(&english, a, b), "{a} {b}");
        }
    }

    #[test]
    fn several_languages_find_forms_of_each() {
        let both = Analyzer::new([Language::German, Language::English]);
        let shares = |a: &str, b: &str| both.terms(a).iter().any(|term| both.terms(b).contains(term));
        assert!(shares("Häuser", "Haus") && shares("running", "runs") && !shares("Haus", "Hund"));
        assert!(both.terms("the und").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_in_any_language_has_terms_within_the_limit(text in "\\PC{0,200}", limit in 0_usize..50) {
            let all = Analyzer::new(Language::ALL);
            let terms = all.terms(&text);
            let some = all.terms_within(&text, limit);
            prop_assert!(some.len() <= limit && terms.starts_with(&some));
            prop_assert_eq!(&terms, &all.terms(&text));
        }

        #[test]
        fn words_of_scripts_with_spaces_do_not_depend_on_their_neighbors(words in prop::collection::vec("[a-z]{1,9}", 0..20)) {
            let english = Analyzer::default();
            let alone: Vec<Term> = words.iter().flat_map(|word| english.terms(word)).collect();
            prop_assert_eq!(english.terms(&words.join(" ")), alone);
        }
    }

    #[test]
    fn accents_are_dropped_and_vowel_signs_stay() {
        for (word, plain) in [
            ("zoë", "zoe"),
            ("straße", "strasse"),
            ("ñandú", "nandu"),
            ("łódź", "lodz"),
            ("жёлтый", "желтыи"),
            ("हिन्दी", "हिन्दी"),
            ("กิน", "กิน"),
        ] {
            assert_eq!(folded(word).collect::<String>(), plain);
        }
    }

    #[test]
    fn the_lists_can_be_read_and_are_of_known_languages() {
        let lists: HashMap<&str, &str> = serde_json::from_str(LISTS).unwrap();
        assert!(lists.keys().all(|name| Language::ALL.iter().any(|language| language.name() == *name)));
        assert_eq!(lists.len(), 7);
        assert!(stop_words(&[Language::English, Language::German]).count() > 200);
        assert_eq!(stop_words(&[Language::Danish]).count(), 0);
    }
}
