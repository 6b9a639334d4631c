//! What holds for every list, every option and every counter whose counts add up.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tower_chat_history::{Message, store::Content, trim::Speaker, view::OpenCalls};

use super::{
    json_of,
    lists::{Asked, any_asked, any_list, counters, pieces},
};

/// The position that a message has in the list that was given.
fn position(message: &Message) -> usize {
    message.fields().unwrap()["n"].get().parse().unwrap()
}

fn is_system(message: &Message) -> bool {
    Speaker::of(message.role()) == Some(Speaker::System)
}

fn admit(speakers: &[Speaker], message: &Message) -> bool {
    speakers.is_empty() || Speaker::of(message.role()).is_some_and(|speaker| speakers.contains(&speaker))
}

/// The system message that is kept whatever it costs. Where results without a call are left out, they are not the first.
fn held<'a>(asked: &Asked, messages: &'a [Message]) -> Option<&'a Message> {
    let first = messages.iter().find(|message| !asked.pairs || !message.is_tool_result());
    first.filter(|first| asked.include_system && is_system(first))
}

/// Texts that a text may be cut to.
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

/// The positions of results that do not follow their call, and of calls that lack results.
fn broken(messages: &[Message]) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut orphans, mut unanswered) = (BTreeSet::new(), BTreeSet::new());
    let (mut open, mut caller) = (OpenCalls::default(), 0);
    for message in messages {
        if message.is_tool_result() {
            if !open.answer(message) {
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
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_kept_is_some_of_the_list_in_its_order_and_at_most_one_part(messages in any_list(), asked in any_asked()) {
        let before = json_of(&messages);
        for (counter, _) in counters() {
            let kept = asked.of(&messages, &*counter);
            prop_assert_eq!(&json_of(&messages), &before, "the list is as it was");
            let positions: Vec<usize> = kept.iter().map(position).collect();
            prop_assert!(positions.is_sorted_by(|one, other| one < other), "{:?}", positions);
            let rest = if asked.first { &kept[..] } else { &kept[usize::from(held(&asked, &messages).is_some() && !kept.is_empty())..] };
            for message in &kept {
                let whole = &messages[position(message)];
                if message != whole {
                    let edge = if asked.first { kept.last() } else { rest.first() };
                    prop_assert_eq!(Some(message), edge, "only what comes next is cut");
                    let by_words = asked.partial;
                    prop_assert!(by_words.is_some_and(|by_words| is_part(message, whole, by_words, asked.first)), "{}", message.json());
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_within_the_budget_but_for_the_system_message(messages in any_list(), asked in any_asked()) {
        for (counter, _) in counters() {
            let kept = asked.of(&messages, &*counter);
            let system = held(&asked, &kept).filter(|system| counter.count(std::slice::from_ref(*system)) > asked.max_tokens);
            let (budget, counted) = if system.is_some() { (0, &kept[1..]) } else { (asked.max_tokens, &kept[..]) };
            prop_assert!(counter.count(counted) <= budget);
        }
    }

    #[test]
    fn without_conditions_the_next_message_would_not_fit(messages in any_list(), mut asked in any_asked()) {
        (asked.start_on, asked.end_on, asked.partial) = (vec![], vec![], None);
        (asked.pairs, asked.include_system) = (false, false);
        for (counter, _) in counters() {
            let kept = asked.of(&messages, &*counter);
            let longer = match messages.len() - kept.len() {
                0 => continue,
                _ if asked.first => &messages[..=kept.len()],
                left_out => &messages[left_out - 1..],
            };
            prop_assert!(counter.count(longer) > asked.max_tokens);
        }
    }

    #[test]
    fn what_is_kept_starts_and_ends_on_who_it_may(messages in any_list(), asked in any_asked()) {
        for (counter, _) in counters() {
            let kept = asked.of(&messages, &*counter);
            let rest = &kept[held(&asked, &messages).filter(|_| !kept.is_empty()).map_or(0, |_| 1)..];
            prop_assert!(asked.first || rest.first().is_none_or(|first| admit(&asked.start_on, first)));
            prop_assert!(rest.last().is_none_or(|last| admit(&asked.end_on, last)));
        }
    }

    #[test]
    fn no_result_loses_its_call_and_no_call_its_results(messages in any_list(), mut asked in any_asked()) {
        asked.pairs = true;
        let (_, unanswered) = broken(&messages);
        for (counter, _) in counters() {
            let (orphans, torn) = broken(&asked.of(&messages, &*counter));
            prop_assert!(orphans.is_empty(), "{:?}", orphans);
            prop_assert!(torn.is_subset(&unanswered), "{:?}", torn);
        }
    }

    #[test]
    fn a_list_without_tools_is_trimmed_as_langchain_does_it(messages in any_list(), asked in any_asked()) {
        let spoken: Vec<Message> =
            messages.into_iter().filter(|message| !message.is_tool_result() && message.tool_calls().is_empty()).collect();
        for (counter, _) in counters() {
            let [langchain, default] = [false, true].map(|pairs| Asked { pairs, ..asked.clone() }.of(&spoken, &*counter));
            // But for a part that says nothing.
            let blank = langchain.iter().find(|part| !spoken.contains(part) && part.text().is_empty());
            prop_assert!(langchain == default || blank.is_some());
        }
    }

    /// But for two cases, in which LangChain's are not either: a system message that was kept alone where the list may not end
    /// on it, and one that was not the first message and is it now, so that the list has to start behind it.
    #[test]
    fn a_list_that_was_trimmed_stays_as_it_is(messages in any_list(), asked in any_asked()) {
        for (counter, _) in counters() {
            let kept = asked.of(&messages, &*counter);
            let alone = matches!(&kept[..], [only] if held(&asked, &messages).is_some() && !admit(&asked.end_on, only));
            let is_first_now = held(&asked, &messages).is_none() && held(&asked, &kept).is_some() && !asked.start_on.is_empty();
            if !alone && !is_first_now {
                prop_assert_eq!(asked.of(&kept, &*counter), kept);
            }
        }
    }

    #[test]
    fn a_counter_of_whole_lists_that_counts_the_sum_gives_the_same(messages in any_list(), asked in any_asked()) {
        for (one_by_one, whole) in counters() {
            prop_assert_eq!(asked.of(&messages, &*one_by_one), asked.of(&messages, &*whole));
        }
    }
}
