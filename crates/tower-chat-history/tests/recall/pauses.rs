//! Searches pause after little work, whatever the messages say, and end at their time limit.

use std::{future::poll_fn, time::Duration};

use tower_chat_history::recall::{Ask, SearchAnswer, SearchError, SearchTool, ToolError};
use tower_chat_history_core::{Message, Seq};

use crate::store::{Chat, bytes};

/// Returns the output of a future, and the number of its polls.
async fn polls<F: Future>(future: F) -> (F::Output, usize) {
    let (mut future, mut polls) = (Box::pin(future), 0);
    let output = poll_fn(|context| {
        polls += 1;
        future.as_mut().poll(context)
    });
    let output = output.await;
    (output, polls)
}

/// A text of a megabyte that repeats 1,000 words, so that all of its passages are analyzed.
fn megabyte(number: usize) -> String {
    let words: Vec<String> = (0..1000).map(|word| format!("word{word}")).collect();
    format!("HOSTILE{number} {}", words.join(" ").repeat(130))
}

#[tokio::test]
async fn a_search_pauses_within_a_long_message() {
    let chat = Chat::new();
    chat.say((0..3).map(megabyte)).await;
    let (found, polls) = polls(chat.found(&chat.log(), "Which HOSTILE1?", Seq::new(3))).await;
    assert_eq!((found.documents, found.unsearched), (3 * 128, 0));
    // The 128 passages of a message have about 512 KiB.
    assert!(polls > 3 * 16, "{polls}");
}

#[tokio::test]
async fn a_search_reads_and_analyzes_a_bounded_part_of_long_messages() {
    let chat = Chat::new();
    chat.say((0..70).map(megabyte)).await;
    let log = chat.log();
    let found = chat.found(&log, "Which HOSTILE69?", Seq::new(70)).await;
    // 4 MiB are analyzed, and each exchange counts 256 KiB.
    assert_eq!((found.documents, found.unsearched), (16 * 128, 54));
    assert!(found.best > 0.0, "the newest ones are searched");
    let found = chat.found(&log, "Which HOSTILE53?", Seq::new(70)).await;
    assert_eq!((found.best, found.unsearched), (0.0, 54));
}

#[tokio::test]
async fn a_page_of_the_log_is_short_if_its_exchanges_are_long() {
    let chat = Chat::new();
    chat.say((0..200).map(megabyte)).await;
    chat.found(&chat.log(), "Which dog?", Seq::new(200)).await;
    assert_eq!(chat.store.read(), 16, "exchanges of 1 MiB, which are analyzed");
}

#[tokio::test]
async fn long_exchanges_after_short_ones_cost_a_part_of_a_page_too_much() {
    // After 85 exchanges, the walk turns a page. After 86, a page has one short exchange, and after 200 many.
    for short in [85, 86, 100, 200] {
        let chat = Chat::new();
        chat.say((0..128).map(megabyte)).await;
        chat.say((0..short).map(|number| format!("page {number}"))).await;
        let before = chat.revision().await.unwrap().next();
        let found = chat.found(&chat.log(), "Which dog?", before).await;
        assert_eq!(found.documents as usize, short + 16 * 128);
        let in_vain = chat.store.read() - (short + 16);
        assert!(in_vain <= 16, "{in_vain} exchanges after {short}");
    }
}

#[tokio::test]
async fn a_second_question_reads_only_what_the_first_one_left() {
    let chat = Chat::new();
    chat.say((0..30).map(megabyte)).await;
    chat.say((0..100).map(|number| format!("page {number}"))).await;
    let log = chat.log();
    let first = chat.found(&log, "Which dog?", Seq::new(130)).await;
    let read = chat.store.read();
    assert_eq!(chat.found(&log, "Which dog?", Seq::new(130)).await, first);
    assert_eq!(chat.store.read(), read, "the exchange that exceeds the extent is in memory, too");

    chat.say(["page 100"]).await;
    chat.found(&log, "Which dog?", Seq::new(131)).await;
    assert_eq!(chat.store.read(), read + 1);
}

#[tokio::test]
async fn exchanges_without_messages_count_as_one_message() {
    let chat = Chat::new();
    for _ in 0..300 {
        chat.append(Vec::new()).await;
    }
    let log = chat.log().messages(100);
    let found = chat.found(&log, "Which dog?", Seq::new(300)).await;
    assert_eq!((found.documents, found.unsearched, chat.store.read()), (0, 200, 100));
}

#[tokio::test]
async fn the_last_exchange_may_exceed_the_number_of_messages() {
    let chat = Chat::new();
    for number in 0..20 {
        let texts = ["one", "two", "three"].map(|text| Message::user(format!("{text} of {number}")));
        chat.append(texts.into()).await;
    }
    let found = chat.found(&chat.log().messages(10), "Which dog?", Seq::new(20)).await;
    assert_eq!((found.documents, found.unsearched, chat.store.read()), (12, 16, 4));
}

#[tokio::test]
async fn a_search_ends_at_its_time_limit() {
    let chat = Chat::new();
    chat.say((0..3).map(megabyte)).await;
    let input = [Message::user("Which HOSTILE1?")];
    let ask = Ask {
        conversation: &chat.id,
        revision: chat.revision().await,
        before: Seq::new(3),
        input: &input,
        already: &[],
        allowance: 900,
        cost: &bytes,
    };
    // The time is over at the first pause.
    let (failed, polls) = polls(chat.log().time_limit(Duration::ZERO).search(ask)).await;
    assert!(matches!(failed, Err(SearchError::TimedOut(Duration::ZERO))), "{failed:?}");
    assert_eq!((failed.unwrap_err().kind(), polls), ("timeout", 2));
    let found = chat.log().time_limit(Duration::MAX).search(ask).await.unwrap();
    assert!(matches!(found, SearchAnswer::Found(found) if found.best > 0.0));
}

#[tokio::test]
async fn a_call_of_the_tool_ends_at_its_time_limit() {
    let chat = Chat::new();
    chat.say((0..3).map(megabyte)).await;
    let tool = SearchTool::new(chat.log()).time_limit(Duration::ZERO);
    let (failed, polls) = polls(tool.call(&chat.id, r#"{"query":"HOSTILE1"}"#)).await;
    assert!(matches!(failed, Err(ToolError::Search(SearchError::TimedOut(Duration::ZERO)))), "{failed:?}");
    assert_eq!(polls, 2);
    assert_eq!(
        failed.unwrap_err().answer().as_deref(),
        Some("The search took too long. Try again later, or use fewer words.")
    );
}
