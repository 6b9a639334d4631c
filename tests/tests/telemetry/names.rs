//! Names are a promise: they change on purpose, with the snapshot beside this file.

use std::collections::BTreeSet;

use serde_json::Value;
use tower_chat_history::telemetry::names::{SEMANTIC_CONVENTIONS, attributes, events, metrics, spans};

use crate::seen::{Attributes, Seen};

const SHARES: &[&str] = &[
    attributes::CALIBRATION,
    attributes::ESTIMATE_ERROR,
    attributes::REQUEST_TEMPERATURE,
    attributes::REQUEST_TOP_P,
    attributes::RESPONSE_TIME_TO_FIRST_CHUNK,
    attributes::CACHED_PREFIX_RATIO,
];

const TRUTHS: &[&str] = &[
    attributes::CONVERSATION_COMPACTED,
    attributes::LOAD_TRUNCATED,
    attributes::REQUEST_STREAM,
    attributes::STREAMED,
    attributes::SUMMARY_WAITED_FOR,
    attributes::TRIM_COMPACTED,
    attributes::TRIM_FOR_THIS_CALL,
    attributes::TRIM_NEEDED,
];

const LISTS: &[&str] = &[attributes::RESPONSE_FINISH_REASONS];

const TEXTS: &[&str] = &[
    attributes::CALL_OUTCOME,
    attributes::CONVERSATION_ID,
    attributes::DB_SYSTEM_NAME,
    attributes::ERROR_TYPE,
    attributes::FALLBACK,
    attributes::HISTORY,
    attributes::INPUT_MESSAGES,
    attributes::OPERATION_NAME,
    attributes::OUTCOME,
    attributes::OUTPUT_MESSAGES,
    attributes::PROFILE,
    attributes::PROVIDER_NAME,
    attributes::REQUEST_MODEL,
    attributes::RESPONSE_MODEL,
    attributes::SAVE_COMPACTION,
    attributes::SAVE_CONFLICT,
    attributes::STORE,
    attributes::SUMMARY_OUTCOME,
    attributes::TOKENIZER,
    attributes::TOOL_DEFINITIONS,
    attributes::TRIM_REASON,
    attributes::TRIM_STRATEGY,
    attributes::WAIT_FOR,
    attributes::WINDOW,
];

/// What a subscriber says of an event by itself, and the error that some events tell.
const OF_EVENTS: &[&str] = &["level", "target", "error"];

/// Asserts that everything in a span is declared, and has its type.
pub(crate) fn check_names(span: &Seen) {
    let of_models = span.name.strip_prefix("chat ").map_or(&*span.name, |_| spans::CHAT);
    assert!(spans::ALL.contains(&of_models), "{span:#?}");
    check_attributes(&span.attributes, &[]);
    for event in &span.events {
        check_attributes(&event.attributes, OF_EVENTS);
        // What the library logs has a sentence for a name.
        assert!(event.name.contains(' ') || events::ALL.contains(&&*event.name), "{event:#?}");
    }
}

fn check_attributes(all: &Attributes, also: &[&str]) {
    for (name, value) in all {
        if also.contains(&&**name) {
            continue;
        }
        assert!(attributes::ALL.contains(&&**name), "{name} is not declared");
        let of = |list: &[&str]| list.contains(&&**name);
        let is = if of(SHARES) {
            value.is_f64()
        } else if of(TRUTHS) {
            value.is_boolean()
        } else if of(LISTS) {
            value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
        } else if of(TEXTS) {
            value.is_string()
        } else {
            // Everything else is a number of something.
            value.is_i64()
        };
        assert!(is, "{name} is {value:?}");
    }
}

#[test]
fn names_are_those_of_the_snapshot() {
    let mut names = vec![SEMANTIC_CONVENTIONS.to_owned()];
    let kinds =
        [("span", spans::ALL), ("event", events::ALL), ("attribute", attributes::ALL), ("metric", metrics::ALL)];
    for (kind, all) in kinds {
        names.extend(all.iter().map(|name| format!("{kind} {name}")));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "no {kind} is declared twice");
    }
    let snapshot: Vec<&str> = include_str!("names.txt").lines().collect();
    assert_eq!(names, snapshot, "a changed name is a breaking change: say so in the changelog, and change names.txt");
}

#[test]
fn every_name_is_of_the_conventions_or_of_this_library() {
    let conventions = ["gen_ai.", "error.", "db."];
    for name in attributes::ALL.iter().chain(metrics::ALL).chain(events::ALL) {
        let of = |prefix: &&str| name.starts_with(prefix);
        assert!(of(&"chat_history.") || conventions.iter().any(of), "{name}");
    }
    for list in [SHARES, TRUTHS, LISTS, TEXTS] {
        assert!(list.iter().all(|name| attributes::ALL.contains(name)));
    }
}
