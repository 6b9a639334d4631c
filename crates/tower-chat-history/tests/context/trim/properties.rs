//! Properties of every list, all options and every counter.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tower_chat_history::{Message, store::Content, tokens::count_messages, trim::Speaker, view::OpenCalls};
use tower_chat_history_conformance::shorthand::cases;

use super::{
    json_of,
    lists::{Options, any_list, any_options, counters, pieces},
};

/// Returns the position of a message in the original list.
fn position(message: &Message) -> usize {
    message.fields().unwrap()["n"].get().parse().unwrap()
}

fn is_system(message: &Message) -> bool {
    Speaker::of(message.role()) == Some(Speaker::System)
}

fn allows(speakers: &[Speaker], message: &Message) -> bool {
    speakers.is_empty() || Speaker::of(message.role()).is_some_and(|speaker| speakers.contains(&speaker))
}

/// Returns the system message that is kept at any cost. If results without a call are left out, they do not
/// count as the first message.
fn kept_system_message<'a>(options: &Options, messages: &'a [Message]) -> Option<&'a Message> {
    let first = messages.iter().find(|message| !options.pairs || !message.is_tool_result());
    first.filter(|first| options.include_system && is_system(first))
}

/// Returns the texts to which a text may be cut.
fn cut(text: &str, by_words: bool, first: bool) -> Vec<String> {
    let mut pieces = pieces(text, by_words);
    if !by_words && text.ends_with('\n') {
        pieces.push(String::new());
    }
    let cuts = 1..=pieces.len();
    cuts.map(|count| if first { pieces[..count].concat() } else { pieces[pieces.len() - count..].concat() }).collect()
}

fn is_part(part: &Message, whole: &Message, by_words: bool, first: bool) -> bool {
    let (mut fields, mut all) = (part.fields().unwrap(), whole.fields().unwrap());
    fields.remove("content");
    all.remove("content");
    let json = |fields: std::collections::BTreeMap<String, &serde_json::value::RawValue>| {
        serde_json::to_string(&fields).unwrap()
    };
    if json(fields) != json(all) {
        return false;
    }
    match (part.content(), whole.content()) {
        (Content::Text(part), Content::Text(whole)) => cut(&whole, by_words, first).contains(&part.into_owned()),
        (Content::Parts(some), Content::Parts(all)) => {
            !some.is_empty()
                && some.len() < all.len()
                && if first { all.starts_with(&some) } else { all.ends_with(&some) }
        }
        (Content::Text(part), Content::Parts(all)) => {
            let remaining = if first { all.first() } else { all.last() };
            let remaining = whole.with_parts(remaining.as_slice()).unwrap();
            let text = match remaining.content() {
                Content::Parts(parts) => {
                    serde_json::from_str(parts[0]).unwrap_or_else(|_| remaining.text().into_owned())
                }
                _ => String::new(),
            };
            cut(&text, by_words, first).contains(&part.into_owned())
        }
        _ => false,
    }
}

/// Returns the positions of results that do not follow their call, and of calls that lack results.
fn unpaired(messages: &[Message]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut orphans, mut unanswered) = (BTreeSet::new(), BTreeSet::new());
    let (mut open, mut caller) = (OpenCalls::default(), 0);
    for message in messages {
        if message.is_tool_result() {
            if message.answers().is_empty() || open.answer_all(message).is_err() {
                orphans.insert(position(message));
            }
            continue;
        }
        if !open.is_empty() {
            unanswered.insert(caller);
        }
        (open, caller) = (OpenCalls::of(message), position(message));
    }
    if !open.is_empty() {
        unanswered.insert(caller);
    }
    (orphans, unanswered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(512)))]

    #[test]
    fn kept_messages_are_a_part_of_the_list_in_order_with_at_most_one_partial_message(messages in any_list(), options in any_options()) {
        let before = json_of(&messages);
        for counter in counters() {
            let kept = options.of(&messages, &*counter);
            prop_assert_eq!(&json_of(&messages), &before, "the list is not changed");
            let positions: Vec<usize> = kept.iter().map(position).collect();
            prop_assert!(positions.is_sorted_by(|one, other| one < other), "{:?}", positions);
            let rest = if options.first { &kept[..] } else { &kept[usize::from(kept_system_message(&options, &messages).is_some() && !kept.is_empty())..] };
            for message in &kept {
                let whole = &messages[position(message)];
                if message != whole {
                    let edge = if options.first { kept.last() } else { rest.first() };
                    prop_assert_eq!(Some(message), edge, "only the first message that does not fit is cut");
                    let by_words = options.partial;
                    prop_assert!(by_words.is_some_and(|by_words| is_part(message, whole, by_words, options.first)), "{}", message.json());
                }
            }
        }
    }

    #[test]
    fn kept_messages_fit_the_budget_except_for_the_system_message(messages in any_list(), options in any_options()) {
        for counter in counters() {
            let kept = options.of(&messages, &*counter);
            let system = kept_system_message(&options, &kept).filter(|system| count_messages(&*counter, std::slice::from_ref(*system)) > options.max_tokens);
            let (budget, counted) = if system.is_some() { (0, &kept[1..]) } else { (options.max_tokens, &kept[..]) };
            prop_assert!(count_messages(&*counter, counted) <= budget);
        }
    }

    #[test]
    fn without_conditions_the_next_message_would_not_fit(messages in any_list(), mut options in any_options()) {
        (options.start_on, options.end_on, options.partial) = (vec![], vec![], None);
        (options.pairs, options.include_system) = (false, false);
        for counter in counters() {
            let kept = options.of(&messages, &*counter);
            let longer = match messages.len() - kept.len() {
                0 => continue,
                _ if options.first => &messages[..=kept.len()],
                left_out => &messages[left_out - 1..],
            };
            prop_assert!(count_messages(&*counter, longer) > options.max_tokens);
        }
    }

    #[test]
    fn kept_messages_start_and_end_with_the_allowed_speakers(messages in any_list(), options in any_options()) {
        for counter in counters() {
            let kept = options.of(&messages, &*counter);
            let rest = &kept[kept_system_message(&options, &messages).filter(|_| !kept.is_empty()).map_or(0, |_| 1)..];
            prop_assert!(options.first || rest.first().is_none_or(|first| allows(&options.start_on, first)));
            prop_assert!(rest.last().is_none_or(|last| allows(&options.end_on, last)));
        }
    }

    #[test]
    fn calls_and_results_stay_together(messages in any_list(), mut options in any_options()) {
        options.pairs = true;
        let (_, unanswered) = unpaired(&messages);
        for counter in counters() {
            let (orphans, torn) = unpaired(&options.of(&messages, &*counter));
            prop_assert!(orphans.is_empty(), "{:?}", orphans);
            prop_assert!(torn.is_subset(&unanswered), "{:?}", torn);
        }
    }

    #[test]
    fn a_list_without_tools_is_trimmed_as_by_langchain(messages in any_list(), options in any_options()) {
        let spoken: Vec<Message> =
            messages.into_iter().filter(|message| !message.is_tool_result() && message.tool_calls().is_empty()).collect();
        for counter in counters() {
            let [langchain, default] = [false, true].map(|pairs| Options { pairs, ..options.clone() }.of(&spoken, &*counter));
            // Except for a part without text.
            let blank = langchain.iter().find(|part| !spoken.contains(part) && part.text().is_empty());
            prop_assert!(langchain == default || blank.is_some());
        }
    }

    /// There are two exceptions, as in LangChain: a system message that was kept alone although the list may
    /// not end with it, and a system message that became the first message, so that the list must start after
    /// it.
    #[test]
    fn trimming_a_trimmed_list_changes_nothing(messages in any_list(), options in any_options()) {
        for counter in counters() {
            let kept = options.of(&messages, &*counter);
            let alone = matches!(&kept[..], [only] if kept_system_message(&options, &messages).is_some() && !allows(&options.end_on, only));
            let is_first_now = kept_system_message(&options, &messages).is_none() && kept_system_message(&options, &kept).is_some() && !options.start_on.is_empty();
            if !alone && !is_first_now {
                prop_assert_eq!(options.of(&kept, &*counter), kept);
            }
        }
    }
}
