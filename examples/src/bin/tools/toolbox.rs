//! The only tool: the weather in a city. It fails for Atlantis.

use futures_util::future;
use serde::Deserialize;
use serde_json::{Value, json};

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
    future::join_all(calls.iter().map(|call| async {
        let result = run(&call.name, &call.arguments).await;
        let is_error = result.is_err();
        CallResult { id: call.id.clone(), text: result.unwrap_or_else(|error| format!("error: {error}")), is_error }
    }))
    .await
}

async fn run(name: &str, arguments: &str) -> Result<String, String> {
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
