//! The messages that are counted, and the number of times.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use proptest::prelude::*;
use tower_chat_history::{
    Message,
    tokens::{TokenCounter, tokens_of},
    trim::{Speaker, Trim},
};

use super::{assert_unchanged, lists::any_list};

/// Counts one token for each message, and records the number of its calls for each text.
#[derive(Debug, Default)]
struct Counting {
    name: Option<Arc<str>>,
    count_calls: Mutex<HashMap<String, u32>>,
}

impl Counting {
    fn named() -> Self {
        Self { name: Some("counting".into()), ..Self::default() }
    }

    fn count_calls(&self) -> HashMap<String, u32> {
        self.count_calls.lock().unwrap().clone()
    }
}

impl TokenCounter for Counting {
    fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    fn count_text(&self, _: &str) -> u32 {
        1
    }

    fn count_message(&self, message: &Message) -> u32 {
        *self.count_calls.lock().unwrap().entry(message.json().to_owned()).or_default() += 1;
        1
    }
}

#[test]
fn only_kept_messages_and_the_next_one_are_counted() {
    let messages: Vec<Message> = (0..1_000).map(|number| Message::user(number.to_string())).collect();
    for counter in [Counting::named(), Counting::default()] {
        let kept = assert_unchanged(&messages, |messages| Trim::last(10).apply(messages, &counter));
        assert_eq!(kept, messages[990..]);
        assert_eq!(counter.count_calls().len(), 11);
        assert!(counter.count_calls().values().all(|times| *times == 1));
    }
}

#[test]
fn stored_counts_of_messages_are_used() {
    let messages: Vec<Message> = (0..20).map(|number| Message::user(number.to_string())).collect();
    let counter = Counting::named();
    for message in &messages {
        tokens_of(&counter, message);
    }
    let trim = Trim::last(9).include_system().allow_partial().start_on([Speaker::User]);
    assert_eq!(trim.apply(&messages, &counter), messages[11..]);
    assert!(messages.iter().all(|message| counter.count_calls()[message.json()] == 1));
}

proptest! {
    #[test]
    fn at_most_the_kept_messages_the_next_one_and_the_system_message_are_counted(
        messages in any_list(),
        max_tokens in 0_u64..20,
        system: bool,
        named: bool,
    ) {
        let counter = if named { Counting::named() } else { Counting::default() };
        let trim = Trim::last(max_tokens).keep_tool_pairs(false);
        let trim = if system { trim.include_system() } else { trim };
        let kept = trim.apply(&messages, &counter);
        let count_calls = counter.count_calls();
        prop_assert!(count_calls.len() <= kept.len() + 1, "{} of {}", count_calls.len(), kept.len());
        prop_assert!(count_calls.values().all(|times| *times == 1));
    }

    #[test]
    fn no_message_is_counted_twice(messages in any_list(), max_tokens in 0_u64..20, first: bool, partial: bool, pairs: bool) {
        let counter = Counting::named();
        if first {
            let trim = Trim::first(max_tokens).keep_tool_pairs(pairs).end_on([Speaker::User, Speaker::Assistant]);
            let _ = if partial { trim.allow_partial() } else { trim }.apply(&messages, &counter);
        } else {
            let trim = Trim::last(max_tokens).keep_tool_pairs(pairs).start_on([Speaker::User]).include_system();
            let _ = if partial { trim.allow_partial() } else { trim }.apply(&messages, &counter);
        }
        let count_calls = counter.count_calls();
        prop_assert!(messages.iter().all(|message| count_calls.get(message.json()).is_none_or(|times| *times == 1)));
    }
}
