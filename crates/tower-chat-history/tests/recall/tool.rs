//! The tool pages through all results, within its size, and answers mistakes.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history::recall::{ArgumentsError, LogSearch, SearchTool, ToolError, render_frame};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{Append, Exchange, ExchangeId, Expect, HistoryStore, Message, Timestamp};

use crate::store::Chat;

/// Returns the positions on a page, and the lines after it.
fn read(answer: &str) -> (Vec<u64>, String) {
    let frame = render_frame();
    let (opening, closing) = frame.split_once('\n').unwrap();
    let Some(rest) = answer.strip_prefix(opening) else { return (Vec::new(), answer.to_owned()) };
    let (lines, after) = rest.split_once(&format!("\n{closing}\n")).unwrap();
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap();
    (lines.trim_start().lines().map(line).collect(), after.to_owned())
}

/// Creates a tool whose searches take as long as they need.
fn tool(log: LogSearch) -> SearchTool {
    SearchTool::new(log).time_limit(Duration::from_secs(120))
}

async fn call(tool: &SearchTool, chat: &Chat, arguments: &Value) -> (Vec<u64>, String) {
    read(&tool.call(&chat.id, &arguments.to_string()).await.unwrap())
}

#[test]
fn the_definition_is_that_of_a_function() {
    let definition = SearchTool::definition();
    assert_eq!((&definition["type"], &definition["function"]["name"]), (&json!("function"), &json!(SearchTool::NAME)));
    let parameters = &definition["function"]["parameters"];
    let properties: Vec<&String> = parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["from", "page", "query", "to"]);
    assert_eq!(parameters["required"], json!(["query"]));
}

#[tokio::test]
async fn pages_have_all_results_once_also_those_of_the_window() {
    let chat = Chat::new();
    chat.say((0..150).map(|number| if number % 3 == 0 { format!("dog {number}") } else { format!("page {number}") }))
        .await;
    // The second time, all terms are in memory.
    let log = chat.log();
    for _ in 0..2 {
        let tool = tool(log.clone());
        let mut all = Vec::new();
        for page in 1.. {
            let (positions, after) = call(&tool, &chat, &json!({"query": "dogs", "page": page})).await;
            assert!(positions.len() <= 30 && positions.is_sorted());
            all.extend(positions);
            let next =
                format!("This is page {page}. For more results, use the same arguments with \"page\": {}.", page + 1);
            if after != next {
                assert_eq!(after, "There are no more results.");
                let (positions, after) = call(&tool, &chat, &json!({"query": "dogs", "page": page + 1})).await;
                let expected = format!("There is no page {}. The last page is {page}.", page + 1);
                assert_eq!((positions.len(), after), (0, expected));
                break;
            }
        }
        let distinct: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct, (0..149).collect(), "each hit has both of its neighbors");
        assert_eq!(all.len(), 149);
    }
}

#[tokio::test]
async fn times_are_those_of_the_exchange() {
    let chat = Chat::new();
    let day = 86_400_000;
    for number in 0..20_u64 {
        let mut exchange = Exchange::new(ExchangeId::generate(), [Message::user(format!("dog {number}"))]);
        exchange.at = Timestamp::from_unix_millis(number * day + 1000);
        chat.store.store.append(&chat.id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    let tool = tool(chat.log());
    for (from, to, expected) in [
        (Some("1970-01-03"), Some("1970-01-05"), 2..5),
        (Some("1970-01-03T00:00:01Z"), Some("1970-01-05T00:00Z"), 2..5),
        (Some("1970-01-03T00:00:02Z"), Some("1970-01-05T00:00:00Z"), 3..4),
        (Some("1970-01-17"), None, 16..20),
        (None, Some("1970-01-02"), 0..2),
        (Some("1980-01-01"), None, 0..0),
    ] {
        let (positions, after) = call(&tool, &chat, &json!({"query": "dog", "from": from, "to": to})).await;
        assert_eq!(positions, expected.clone().collect::<Vec<_>>(), "{from:?} {to:?}");
        let end = if expected.is_empty() { "Nothing was found." } else { "There are no more results." };
        assert_eq!(after, end);
    }
}

#[tokio::test]
async fn a_message_that_is_longer_than_a_page_is_named() {
    let chat = Chat::new();
    chat.say(["before", &"dog ".repeat(2000), "after"]).await;
    let tool = tool(chat.log()).page_bytes(2000);
    let (positions, after) = call(&tool, &chat, &json!({"query": "dog"})).await;
    assert_eq!(positions, [0, 2], "its neighbors");
    assert_eq!(after, "A message at position 1 is too long to be shown.\nThere are no more results.");
}

#[tokio::test]
async fn mistakes_and_absent_conversations_have_answers() {
    let chat = Chat::new();
    let tool = tool(chat.log());
    for (arguments, error) in [
        ("", ArgumentsError::NotAnObject),
        ("{}", ArgumentsError::NoQuery),
        (r#"{"query":"the of"}"#, ArgumentsError::NoWords),
        (r#"{"query":"dog","page":-1}"#, ArgumentsError::Page),
    ] {
        let found = tool.call(&chat.id, arguments).await.unwrap_err();
        assert_eq!(found.answer(), Some(error.to_string()));
        assert!(matches!(found, ToolError::Arguments(found) if found == error));
    }
    assert_eq!(tool.call(&chat.id, r#"{"query":"dog"}"#).await.unwrap(), "There are no earlier messages.");
    chat.say(["a cat"]).await;
    assert_eq!(tool.call(&chat.id, r#"{"query":"dog"}"#).await.unwrap(), "Nothing was found.");
    chat.store.halt_after(0);
    let error = tool.call(&chat.id, r#"{"query":"cat"}"#).await.unwrap_err();
    assert!(matches!(&error, ToolError::Search(error) if error.kind() == "unavailable") && error.answer().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(32)))]

    #[test]
    fn pages_are_within_their_size(
        messages in prop::collection::vec(crate::logs::message(), 1..80),
        query in crate::logs::words(1..4),
        page_bytes in 300..3000_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let chat = Chat::new();
            for message in messages {
                chat.append(vec![message]).await;
            }
            let tool = tool(chat.log()).page_bytes(page_bytes);
            for page in 1..200 {
                let answer = match tool.call(&chat.id, &json!({"query": query, "page": page}).to_string()).await {
                    Ok(answer) => answer,
                    Err(ToolError::Arguments(ArgumentsError::NoWords)) => break,
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                };
                let (_, after) = read(&answer);
                prop_assert!(answer.len() - after.len() <= page_bytes + 1, "{} {page_bytes}", answer.len());
                if !after.contains("For more results") {
                    break;
                }
                prop_assert!(page < 199);
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn the_last_page_says_if_a_limit_ended_the_results() {
    let last = async |chat: &Chat| {
        let tool = tool(chat.log());
        for page in 1.. {
            let (positions, after) = call(&tool, chat, &json!({"query": "dogs", "page": page})).await;
            if !after.contains("\"page\"") {
                assert!(!positions.is_empty());
                return after;
            }
        }
        panic!("there is a last page");
    };
    let chat = Chat::new();
    chat.append((0..128).map(|number| Message::user(format!("dog {number}"))).collect()).await;
    chat.append((0..127).map(|number| Message::user(format!("dog {number}"))).collect()).await;
    let expected = "There are no more results in what was searched. Only the first 128 passages of a long exchange are, \
        such as the one at position 0.";
    assert_eq!(last(&chat).await, expected);
    let chat = Chat::new();
    chat.append((0..127).map(|number| Message::user(format!("dog {number}"))).collect()).await;
    assert_eq!(last(&chat).await, "There are no more results.");
    let chat = Chat::new();
    chat.say((0..300).map(|number| format!("dog {number}"))).await;
    let expected = "There are no more results among the best 256 messages. Other words may find others.";
    assert_eq!(last(&chat).await, expected);
}
