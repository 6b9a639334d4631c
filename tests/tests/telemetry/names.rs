//! Names are a public interface. To change one, change the snapshot next to this file as well.

use std::collections::BTreeSet;

use serde_json::Value;
use tower_chat_history::telemetry::names::{SEMANTIC_CONVENTIONS, attributes, events, metrics, spans};

use crate::seen::{Attributes, ReceivedSpan};

const FLOATS: &[&str] = &[
    attributes::CALIBRATION,
    attributes::COUNT_DURATION_MS,
    attributes::ESTIMATE_ERROR,
    attributes::REQUEST_TEMPERATURE,
    attributes::REQUEST_TOP_P,
    attributes::RESPONSE_TIME_TO_FIRST_CHUNK,
    attributes::CACHED_PREFIX_RATIO,
    attributes::RECALL_SCORE,
];

const BOOLEANS: &[&str] = &[
    attributes::CONVERSATION_COMPACTED,
    attributes::HEAD_CHANGED,
    attributes::BEGINS_WITH_COMPACTION,
    attributes::LOAD_TRUNCATED,
    attributes::RECALL_INCOMPLETE,
    attributes::REQUEST_STREAM,
    attributes::STREAMED,
    attributes::SUMMARY_WAITED_FOR,
    attributes::TRIM_COMPACTED,
    attributes::TRIM_FOR_THIS_CALL,
    attributes::TRIM_NEEDED,
];

const LISTS: &[&str] = &[attributes::RESPONSE_FINISH_REASONS];

const STRINGS: &[&str] = &[
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
    attributes::RECALL_OUTCOME,
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

/// The attributes of an event that come from the subscriber, and the error of some events.
const EVENT_ATTRIBUTES: &[&str] = &["level", "target", "error"];

/// Asserts that all names in a span are declared, and that its attributes have the right types.
pub(crate) fn check_names(span: &ReceivedSpan) {
    let of_models = span.name.strip_prefix("chat ").map_or(&*span.name, |_| spans::CHAT);
    assert!(spans::ALL.contains(&of_models), "{span:#?}");
    check_attributes(&span.attributes, &[]);
    for event in &span.events {
        check_attributes(&event.attributes, EVENT_ATTRIBUTES);
        // The name of a log event of the library is a sentence.
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
        let is = if of(FLOATS) {
            value.is_f64()
        } else if of(BOOLEANS) {
            value.is_boolean()
        } else if of(LISTS) {
            value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
        } else if of(STRINGS) {
            value.is_string()
        } else {
            // All other attributes are integers.
            value.is_i64()
        };
        assert!(is, "{name} is {value:?}");
    }
}

#[test]
fn names_equal_the_snapshot() {
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
fn every_name_has_a_prefix_of_the_conventions_or_this_library() {
    let conventions = ["gen_ai.", "error.", "db."];
    for name in attributes::ALL.iter().chain(metrics::ALL).chain(events::ALL) {
        let of = |prefix: &&str| name.starts_with(prefix);
        assert!(of(&"chat_history.") || conventions.iter().any(of), "{name}");
    }
    for list in [FLOATS, BOOLEANS, LISTS, STRINGS] {
        assert!(list.iter().all(|name| attributes::ALL.contains(name)));
    }
}
