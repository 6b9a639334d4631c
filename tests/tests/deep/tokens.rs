//! Token counters, and functions on lists of messages.

use tower_chat_history::{
    Message,
    tokens::{
        ByteEstimate, CachedCounter, LangChainEstimate, MessageCount, RequestTokens, TokenCounter, per_message,
        tokens_of,
    },
    trim::{Trim, fit_messages, trim_messages},
    view::View,
};
use tower_chat_history_openai::{from_request_messages, to_request_messages, tokens::Tiktoken};
use tower_chat_history_test::check_chat_rules;

use super::{
    Case,
    texts::{log, messages, texts, tool_round},
};

pub(crate) const CASES: &[Case] = cases![
    langchain_s_estimate_counts,
    the_estimate_by_bytes_counts,
    messages_and_closures_count,
    tiktoken_counts,
    lists_are_trimmed,
    a_view_accepts_deep_messages,
    async_openai_types_are_converted,
];

fn langchain_s_estimate_counts() {
    count(&LangChainEstimate::new());
}

fn the_estimate_by_bytes_counts() {
    count(&CachedCounter::new(ByteEstimate::new()));
}

fn tiktoken_counts() {
    count(&Tiktoken::o200k());
}

fn count(counter: &impl TokenCounter) {
    for message in messages().into_iter().chain(tool_round()) {
        let _ = tokens_of(counter, &message);
    }
    for text in texts() {
        assert!(counter.count_text(&text) > 0);
        let _ = RequestTokens::new().tools(&text).response_format(&text).count(counter);
        let _ = LangChainEstimate::new().count_tools(&[text]);
    }
}

fn messages_and_closures_count() {
    count_messages(&MessageCount::new());
    count_messages(&per_message(|message: &Message| message.text().len() as u32));
}

fn count_messages(counter: &impl TokenCounter) {
    for message in messages().into_iter().chain(tool_round()) {
        let _ = counter.count_message(&message);
    }
}

fn all() -> Vec<Message> {
    log().into_iter().flat_map(|exchange| exchange.messages).collect()
}

fn lists_are_trimmed() {
    let (all, counter) = (all(), LangChainEstimate::new());
    for tokens in [0, 1_000, 100_000, u64::MAX] {
        let _ = trim_messages(&all, &Trim::last(tokens), &counter);
        let _ = trim_messages(&all, &Trim::first(tokens).allow_partial(), &counter);
        let _ = fit_messages(&all, tokens, &counter);
    }
}

fn a_view_accepts_deep_messages() {
    let mut view = View::default();
    view.extend(&all());
    view.close();
    assert_eq!(check_chat_rules(view.messages()), Ok(()));
}

fn async_openai_types_are_converted() {
    let converted = to_request_messages(&all());
    assert!(converted.downgraded > 0);
    let _ = from_request_messages(&converted.messages);
}
