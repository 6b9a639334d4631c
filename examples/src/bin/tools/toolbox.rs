//! The only tool: the weather in a city. It fails for Atlantis. The mock model calls it too.

use futures_util::future;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_chat_history::Message;
use tower_chat_history_test::{Replies, Reply};

pub(crate) const WEATHER: &str = "weather";
pub(crate) const DESCRIPTION: &str = "Returns the weather in a city.";

/// A call of a tool, in any API.
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments, as JSON.
    pub(crate) arguments: String,
}

/// The result of a call.
pub(crate) struct CallResult {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// Returns the JSON schema of the arguments.
pub(crate) fn schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] })
}

/// Runs all calls concurrently. A failed call has a result too, because providers require a result for every call.
pub(crate) async fn run_all(calls: &[Call]) -> Vec<CallResult> {
    future::join_all(calls.iter().map(run)).await
}

async fn run(call: &Call) -> CallResult {
    let id = call.id.clone();
    match weather(&call.name, &call.arguments).await {
        Ok(text) => CallResult { id, text, is_error: false },
        Err(error) => CallResult { id, text: format!("error: {error}"), is_error: true },
    }
}

async fn weather(name: &str, arguments: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Arguments {
        city: String,
    }

    if name != WEATHER {
        return Err(format!("unknown tool {name}"));
    }
    // Models sometimes write invalid JSON.
    let Arguments { city } = serde_json::from_str(arguments).map_err(|error| error.to_string())?;

    tokio::task::yield_now().await;
    match city.as_str() {
        "Atlantis" => Err("there is no such city".into()),
        city => Ok(format!("{city}: {} degrees", city.len() * 3)),
    }
}

/// The cities that the mock model finds in a question.
const CITIES: [&str; 4] = ["Oslo", "Lima", "Atlantis", "Quito"];

/// Returns the replies of a mock model, which requests the weather of every city in the question, and then reports the
/// results.
pub(crate) fn mock_replies() -> Replies {
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
