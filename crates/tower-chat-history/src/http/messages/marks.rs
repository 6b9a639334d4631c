//! Marks for the cache (`cache_control`) in the messages of the window.
//!
//! # Decisions
//!
//! - **The newest cache marks that fit are sent.** A window has the marks of many requests, and Anthropic takes four in
//!   a request, with the caller's.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tower_chat_history_core::{
    Message,
    json::{self, Object, range},
};

use crate::dialect::AnthropicMessages;

/// The kinds of blocks that can have a mark, as of November 2026. Thinking cannot.
const MARKABLE: [&str; 6] = ["text", "image", "document", "search_result", "tool_use", "tool_result"];

const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;

const NAME: &str = "cache_control";

/// The time that an entry of the cache lives, in minutes.
type Minutes = u64;

/// The time of a mark that the wire places: the default of the API.
const PLACED: Minutes = 5;

/// The room for marks that the caller's parts of a request leave to its window.
///
/// The API takes four marks in a request, and a mark that lives longer only before those that live shorter. Stored
/// messages have the marks of many requests. The newest ones that fit are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The number of marks that the window may have.
    room: usize,
    /// The shortest time of the marks before the window.
    shortest_before: Minutes,
    /// The longest time of the marks after the window.
    longest_after: Minutes,
    /// True if a mark is to be placed at the end of the window.
    places: bool,
}

impl Marks {
    /// Returns the room that is left by the tools, the instructions, the messages around the window, and the automatic
    /// mark.
    pub(super) fn around(body: &Object<'_>, head: &[&RawValue], input: &[&RawValue]) -> Self {
        let mut before: Vec<Minutes> = Vec::new();
        for list in [body.get("tools"), body.get("system")].into_iter().flatten() {
            before.extend(of_list(list));
        }
        for message in head {
            before.extend(of_message(message.get()));
        }

        let mut after: Vec<Minutes> = Vec::new();
        for message in input {
            after.extend(of_message(message.get()));
        }
        after.extend(body.get(NAME).map(minutes));

        Self {
            room: AnthropicMessages::MAX_CACHE_MARKS.saturating_sub(before.len() + after.len()),
            shortest_before: before.into_iter().min().unwrap_or(Minutes::MAX),
            longest_after: after.into_iter().max().unwrap_or(0),
            places: false,
        }
    }

    /// Sets if a mark is placed at the end of the window.
    pub(super) const fn placing(mut self, places: bool) -> Self {
        self.places = places;
        self
    }

    /// Returns the JSON of each message of the window, with the marks that may be sent.
    pub(super) fn fit(mut self, window: &[Message]) -> Vec<Cow<'_, str>> {
        let mut fitted: Vec<Cow<'_, str>> = window.iter().rev().map(|message| self.last_or_next(message)).collect();
        fitted.reverse();
        fitted
    }

    /// Returns the JSON of the next message, from the end. The first one that can have a mark gets one, if it has none
    /// of its own, and the API takes it.
    fn last_or_next<'m>(&mut self, message: &'m Message) -> Cow<'m, str> {
        let json = self.next(message);
        let is_possible =
            self.places && self.room > 0 && self.shortest_before >= PLACED && self.longest_after <= PLACED;
        if !is_possible {
            return json;
        }
        if !of_message(&json).is_empty() {
            self.places = false;
            return json;
        }

        let Some(marked) = mark(&json) else { return json };
        self.places = false;
        self.room -= 1;
        self.longest_after = PLACED;
        Cow::Owned(marked)
    }

    /// Returns the JSON of the next message, from the end.
    fn next<'m>(&mut self, message: &'m Message) -> Cow<'m, str> {
        if !AnthropicMessages::may_have_cache_marks(message) {
            return Cow::Borrowed(message.json());
        }
        let marks = of_message(message.json());
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else { return Cow::Borrowed(message.json()) };
        let fits = marks.len() <= self.room
            && *first <= self.shortest_before
            && *last >= self.longest_after
            && marks.windows(2).all(|pair| pair[0] >= pair[1]);
        if fits {
            self.room -= marks.len();
            self.longest_after = *first;
            return Cow::Borrowed(message.json());
        }
        AnthropicMessages::without_cache_marks(message).map_or(Cow::Borrowed(message.json()), Cow::Owned)
    }
}

/// Returns the times of the marks in a message, in order.
fn of_message(json: &str) -> Vec<Minutes> {
    if !AnthropicMessages::json_may_have_cache_marks(json) {
        return Vec::new();
    }
    Object::read(json).and_then(|message| Some(of_list(message.get("content")?))).unwrap_or_default()
}

/// Returns the times of the marks in a list of blocks or tools, and in the contents of its results.
fn of_list(json: &str) -> Vec<Minutes> {
    if !AnthropicMessages::json_may_have_cache_marks(json) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for entry in json::entries(json).unwrap_or_default() {
        let Some(entry) = Object::read(entry) else { continue };
        let inner = entry.entries("content").unwrap_or_default();
        let inner = inner.into_iter().filter_map(|json| Object::read(json)?.get(NAME).map(minutes));
        found.extend(inner);
        found.extend(entry.get(NAME).map(minutes));
    }
    found
}

/// Returns the time of a mark. The default is 5 minutes.
fn minutes(mark: &str) -> Minutes {
    let time = Object::read(mark).and_then(|mark| mark.text("ttl")).unwrap_or_default();
    let hours = time.strip_suffix('h').and_then(|hours| hours.parse::<Minutes>().ok());
    if let Some(hours) = hours {
        return hours.saturating_mul(60);
    }
    time.strip_suffix('m').and_then(|minutes| minutes.parse().ok()).unwrap_or(5)
}

/// Returns the JSON of a message with a mark in its last block that can have one. A content that is a text becomes a
/// list of one block, which is the same to the API. Returns `None` if no block can have a mark.
fn mark(json: &str) -> Option<String> {
    let message = Object::read(json)?;
    let content = message.get("content")?;
    if content.starts_with('"') {
        let place = range(json, content);
        let is_blank = message.text("content").is_none_or(|text| text.trim().is_empty());
        let block = format!(r#"[{{"type":"text","text":{content},{MARK}}}]"#);
        return (!is_blank).then(|| [&json[..place.start], &block, &json[place.end..]].concat());
    }
    let block = message.entries("content")?.into_iter().rfind(|block| can_have_mark(block))?;
    let end = range(json, block).end - 1;
    Some([&json[..end], ",", MARK, &json[end..]].concat())
}

/// Returns `true` for a block of a known kind that is not empty.
fn can_have_mark(block: &str) -> bool {
    let Some(block) = Object::read(block) else { return false };
    let kind = block.text("type").unwrap_or_default();
    let is_empty = kind == "text" && block.text("text").is_none_or(|text| text.trim().is_empty());
    let is_marked = block.written("cache_control").is_some();
    MARKABLE.contains(&&*kind) && !is_empty && !is_marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(ttl: &str) -> String {
        let ttl = if ttl.is_empty() { String::new() } else { format!(r#","ttl":"{ttl}""#) };
        let mark = format!(r#"{{"type":"ephemeral"{ttl}}}"#);
        format!(r#"{{"role":"user","content":[{{"type":"text","text":"u","cache_control":{mark}}}]}}"#)
    }

    /// Returns which of the window's messages keep their marks.
    fn kept(body: &str, input: &[&str], window: &[&str]) -> Vec<bool> {
        let body = Object::read(body).unwrap();
        let window: Vec<Message> =
            window.iter().map(|ttl| Message::in_dialect(&AnthropicMessages, marked(ttl)).unwrap()).collect();
        let input: Vec<String> = input.iter().map(|ttl| marked(ttl)).collect();
        let input: Vec<&RawValue> = input.iter().map(|json| serde_json::from_str(json).unwrap()).collect();
        let fitted = Marks::around(&body, &[], &input).fit(&window);
        for json in fitted.iter().filter(|json| matches!(json, Cow::Owned(_))) {
            assert_eq!(json, r#"{"role":"user","content":[{"type":"text","text":"u"}]}"#);
        }
        fitted.iter().map(|json| matches!(json, Cow::Borrowed(_))).collect()
    }

    #[test]
    fn the_newest_marks_are_sent_up_to_four() {
        assert_eq!(kept("{}", &[], &[""; 5]), [false, true, true, true, true]);
        assert_eq!(kept("{}", &[""], &[""; 5]), [false, false, true, true, true]);
        let system = r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]}"#;
        let tools = r#"{"tools":[{"name":"t","cache_control":{"type":"ephemeral"}},{"name":"u"}]}"#;
        for body in [system, tools, r#"{"cache_control":{"type":"ephemeral"}}"#] {
            assert_eq!(kept(body, &[""], &[""; 4]), [false, false, true, true], "{body}");
        }
        assert_eq!(kept("{}", &["", "", "", "", ""], &["", ""]), [false, false]);
    }

    #[test]
    fn a_mark_that_lives_longer_stands_only_before_those_that_live_shorter() {
        assert_eq!(kept("{}", &["1h"], &["1h", "", "1h"]), [true, false, true]);
        assert_eq!(kept("{}", &["5m"], &["1h", "5m", "1h"]), [true, false, true]);
        let system = r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]}"#;
        assert_eq!(kept(system, &[""], &["1h", ""]), [false, true]);
        let long = system.replace(r#""ephemeral""#, r#""ephemeral","ttl":"1h""#);
        assert_eq!(kept(&long, &[""], &["1h", ""]), [true, true]);
    }

    /// Returns the marks of each message of a window at whose end a mark is placed.
    fn placed(body: &str, input: &[&str], window: &[&str]) -> String {
        let input: Vec<String> = input.iter().map(|ttl| marked(ttl)).collect();
        let input: Vec<&RawValue> = input.iter().map(|json| serde_json::from_str(json).unwrap()).collect();
        let window: Vec<Message> = window
            .iter()
            .map(|ttl| match *ttl {
                "none" => r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#.to_owned(),
                "blank" => r#"{"role":"assistant","content":[]}"#.to_owned(),
                ttl => marked(ttl),
            })
            .map(|json| Message::in_dialect(&AnthropicMessages, json).unwrap())
            .collect();
        let marks = Marks::around(&Object::read(body).unwrap(), &[], &input).placing(true);
        let placed: Vec<Vec<Minutes>> = marks.fit(&window).iter().map(|json| of_message(json)).collect();
        format!("{placed:?}")
    }

    #[test]
    fn a_mark_is_placed_at_the_end_of_the_window_if_the_api_takes_it() {
        assert_eq!(placed("{}", &[], &["none", "none"]), "[[], [5]]");
        assert_eq!(placed("{}", &[], &["none", "blank"]), "[[5], []]", "the last one that can have a mark");
        assert_eq!(placed("{}", &[], &["none", "1h"]), "[[], [60]]", "it has its own");
        assert_eq!(placed("{}", &[], &["1h", "none"]), "[[60], [5]]");
        assert_eq!(placed("{}", &[""; 3], &["", "none"]), "[[], [5]]", "four in all");
        assert_eq!(placed("{}", &[""; 4], &["", "none"]), "[[], []]");
        assert_eq!(placed("{}", &["1h"], &["none"]), "[[]]", "a longer one follows");
        let automatic = r#"{"cache_control":{"type":"ephemeral"}}"#;
        assert_eq!(placed(automatic, &[""; 2], &["", "none"]), "[[], [5]]");
        assert_eq!(placed("{}", &[], &[]), "[]");
        assert_eq!(kept("{}", &[], &["", ""]), [true, true], "none is placed by default");
    }

    #[test]
    fn marks_in_the_contents_of_results_count() {
        let json = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#;
        assert_eq!(of_message(json), [5, 60]);
        assert_eq!(of_message(r#"{"role":"user","content":"cache_control"}"#), [0; 0]);
    }

    #[test]
    fn a_mark_under_an_escaped_name_counts() {
        for json in [marked("1h").replace("cache_", r"cache\u005F"), marked("1h").replace("cache", r"\u0063ache")] {
            assert_eq!(of_message(&json), [60], "{json}");
        }
    }

    #[test]
    fn a_mark_without_a_readable_time_lives_five_minutes() {
        for (ttl, expected) in
            [("", 5), ("x", 5), ("h", 5), ("-1h", 5), ("2h", 120), ("18446744073709551615h", u64::MAX)]
        {
            assert_eq!(of_message(&marked(ttl)), [expected], "{ttl}");
        }
        assert_eq!(minutes("7"), 5);
    }

    #[test]
    fn the_last_block_that_can_have_a_mark_gets_it() {
        let text = r#"{"type":"text","text":"a"}"#;
        let marked = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        for after in [
            "",
            r#",{"type":"thinking","thinking":"","signature":"s"}"#,
            r#", {"type":"text","text":" \n"}"#,
            r#",{"type":"later"}"#,
            r#",{"type":"text","text":"b","cache_control":null}"#,
            ",7",
        ] {
            let json = format!(r#"{{"role":"assistant","content":[ {text} {after}],"x":1}}"#);
            assert_eq!(mark(&json), Some(json.replace(text, marked)), "{after}");
        }
        let call = r#"{"content":[{"type":"text","text":"a"},{ "type":"tool_use","id":"x","name":"f","input":{} }]}"#;
        let expected = call.replace("{} }", r#"{} ,"cache_control":{"type":"ephemeral"}}"#);
        assert_eq!(mark(call), Some(expected));
    }

    #[test]
    fn a_text_becomes_a_block() {
        let json = r#"{ "content" : "a\u0041" ,"role":"assistant"}"#;
        let block = r#"[{"type":"text","text":"a\u0041","cache_control":{"type":"ephemeral"}}]"#;
        assert_eq!(mark(json), Some(format!(r#"{{ "content" : {block} ,"role":"assistant"}}"#)));
    }

    #[test]
    fn a_message_without_a_block_that_can_have_one_has_no_mark() {
        for content in [
            r#""""#,
            r#"" ""#,
            "[]",
            "null",
            "7",
            r#"[{"type":"redacted_thinking","data":"d"}]"#,
            r#"[{"type":"text"}]"#,
        ] {
            assert_eq!(mark(&format!(r#"{{"role":"assistant","content":{content}}}"#)), None, "{content}");
        }
        assert_eq!(mark("7"), None);
    }
}
