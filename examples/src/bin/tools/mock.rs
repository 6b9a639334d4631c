//! The mock model: requests the weather of every city in the question, and then reports the results.

use serde_json::json;
use tower_chat_history::Message;
use tower_chat_history_test::{Replies, Reply};

use crate::toolbox::WEATHER;

const CITIES: [&str; 4] = ["Oslo", "Lima", "Atlantis", "Quito"];

pub(crate) fn replies() -> Replies {
    Replies::rules(|messages| {
        let results: Vec<_> = messages.iter().rev().take_while(|message| message.is_tool_result()).collect();
        if !results.is_empty() {
            let texts: Vec<_> = results.into_iter().rev().flat_map(Message::texts).collect();
            return Reply::text(format!("Here is what I found: {}.", texts.join("; ")));
        }
        let question = messages.last().map(Message::text).unwrap_or_default();
        let cities: Vec<_> = CITIES.into_iter().filter(|city| question.contains(city)).collect();
        if cities.is_empty() {
            return Reply::text("I know the weather of Oslo, Lima and Quito.");
        }
        let calls = cities.iter().map(|city| {
            let arguments = json!({ "city": city }).to_string();
            (format!("call-{city}"), WEATHER.to_owned(), arguments)
        });
        Reply::calls(calls).thinking(format!("I look up the weather of {}.", cities.join(", ")))
    })
}
