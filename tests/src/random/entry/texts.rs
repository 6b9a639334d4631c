//! Hostile texts.

use tower_chat_history::Message;

use super::super::{Ingredient, Ingredients};
use crate::rng::SeededRng;

/// Invisible characters: a reader does not notice them between others.
const UNSEEN: [char; 12] = [
    '\u{200b}',
    '\u{2066}',
    '\u{2069}',
    '\u{61c}',
    '\u{fe0f}',
    '\u{180e}',
    '\u{34f}',
    '\u{3164}',
    '\u{e0001}',
    '\u{ad}',
    '\u{2060}',
    '\u{feff}',
];

const PARTS: [&str; 22] = [
    "",
    "a",
    "/",
    "%",
    "%2F",
    "%00",
    "\0",
    "..",
    "é",
    "e\u{301}",
    "\u{feff}",
    "日本",
    "\\u0000",
    "\"",
    "{",
    "[",
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "\u{202e}",
    "00112233445566778899aabbccddeeff.3",
];

/// The ways to nest JSON.
const NESTS: [(&str, &str); 4] =
    [("[", "]"), ("{\"a\":", "}"), ("[{\"role\":", "}]"), ("{\"type\":\"x\",\"y\":[", "]}")];

/// Messages with a placeholder for hostile JSON.
const PLACES: [&str; 12] = [
    r#"{"role":"user","content":@}"#,
    r#"{"role":"user","content":[{"type":"x","y":@}]}"#,
    r#"{"role":"user","content":[@,{"type":"text","text":"t"}]}"#,
    r#"{"role":"assistant","content":"a","x":@}"#,
    r#"{"role":"assistant","tool_calls":@}"#,
    r#"{"role":"assistant","tool_calls":[@]}"#,
    r#"{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":@}}]}"#,
    r#"{"role":"assistant","tool_calls":[{"id":"x","type":"custom","custom":{"name":"f","input":@}}]}"#,
    r#"{"role":"assistant","function_call":@}"#,
    r#"{"role":"assistant","refusal":@,"audio":@}"#,
    r#"{"role":"tool","tool_call_id":@,"content":"r"}"#,
    r#"{"role":"user","name":@,"content":"u"}"#,
];

pub(super) struct Texts {
    pub(super) rng: SeededRng,
    deep: bool,
}

impl Texts {
    pub(super) fn new(rng: SeededRng, ingredients: &Ingredients) -> Self {
        Self { rng, deep: ingredients.has(Ingredient::DeepJson) }
    }

    pub(super) fn number(&mut self) -> u64 {
        *self.rng.pick(&[0, 1, 7, 1 << 53, u64::MAX])
    }

    /// Returns a text of odd parts, rarely a long one.
    pub(super) fn odd(&mut self) -> String {
        let many = if self.rng.once_in(20) { 2_000 } else { 6 };
        (0..self.rng.index(many)).map(|_| *self.rng.pick(&PARTS)).collect()
    }

    /// Returns some JSON, usually valid.
    pub(super) fn json(&mut self) -> String {
        match self.rng.below(24) {
            0 if self.deep => self.nested(),
            1 if self.deep => serde_json::to_string(&self.nested()).unwrap_or_default(),
            2..4 => "[1,{\"a\":null}]".to_owned(),
            4..6 => "{\"a\":1,\"a\":2}".to_owned(),
            6..10 => (*self.rng.pick(&["null", "true", "-0.0", "1e999", "\"\\ud800\"", "[]", "{}", "\"\""])).to_owned(),
            _ => serde_json::to_string(&self.odd()).unwrap_or_default(),
        }
    }

    /// Returns JSON of up to 100,000 levels, rarely with a long text inside. That is slow for a reader that
    /// rescans the text of each level.
    fn nested(&mut self) -> String {
        let levels = *self.rng.pick(&[100, 1_000, 2_000, 10_000, 100_000]);
        let (open, close) = *self.rng.pick(&NESTS);
        let long = if self.rng.once_in(8) { "x".repeat(1 << 20) } else { String::new() };
        [open.repeat(levels), format!("\"{long}\""), close.repeat(levels)].concat()
    }

    /// Returns the JSON of a message, or almost that.
    pub(super) fn message(&mut self) -> String {
        let place = *self.rng.pick(&PLACES);
        let message = place.replace('@', &self.json());
        if self.rng.once_in(8) { self.changed(&message) } else { message }
    }

    pub(super) fn messages(&mut self) -> Vec<Message> {
        let texts: Vec<String> = (0..3).map(|_| self.message()).collect();
        texts.into_iter().filter_map(|text| Message::from_json(text).ok()).collect()
    }

    /// Returns the text with a few characters changed, removed or inserted.
    pub(super) fn changed(&mut self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=self.rng.below(3) {
            let at = self.rng.index(chars.len() + 1);
            let new = *self.rng.pick(&['"', '{', '}', '[', ']', ',', ':', '\\', '0', '9', '-', 'n', '\0', 'é']);
            match self.rng.below(3) {
                0 if at < chars.len() => chars[at] = new,
                1 if at < chars.len() => drop(chars.remove(at)),
                _ => chars.insert(at, new),
            }
        }
        chars.into_iter().collect()
    }

    /// Returns the end of the summary's delimiter, in characters that look like it.
    pub(super) fn closing(&mut self) -> String {
        let mut text = String::new();
        for char in "</conversation_summary>".chars() {
            let char = match char {
                '<' if self.rng.once_in(6) => '＜',
                '/' if self.rng.once_in(6) => *self.rng.pick(&['／', '∕']),
                'c' if self.rng.once_in(6) => 'C',
                other => other,
            };
            text.push(char);
            if matches!(char, '<' | '＜' | '/' | '／' | '∕') {
                (0..self.rng.below(3)).for_each(|_| text.push(*self.rng.pick(&UNSEEN)));
            }
        }
        text
    }
}

/// Returns a text as a reader sees it: without invisible characters, and with one character for those that
/// look alike.
pub(super) fn as_seen(text: &str) -> String {
    let seen = text.chars().filter(|char| !UNSEEN.contains(char) && !char.is_whitespace());
    let seen = seen.map(|char| match char {
        '＜' => '<',
        '／' | '∕' => '/',
        other => other,
    });
    seen.collect::<String>().to_lowercase()
}
