//! The mock provider as an HTTP service, whole and streamed.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower_chat_history::{BoxError, http::HistoryBody};
use tower_chat_history_test::responses::{MadeResponse, ResponsesProvider, Say};

use super::super::support::{EVENTS, JSON};

/// The provider, with the response to make next.
#[derive(Clone)]
pub(super) struct Provider(Arc<Mutex<State>>);

struct State {
    provider: ResponsesProvider,
    script: Vec<Say>,
    /// The number of items after which a stream breaks off.
    breaks_after: Option<usize>,
    made: Option<MadeResponse>,
    requests: Vec<String>,
}

impl Provider {
    pub(super) fn new() -> Self {
        let provider = ResponsesProvider::new("one");
        let (script, requests) = (Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(State { provider, script, breaks_after: None, made: None, requests })))
    }

    /// Sets the next response.
    pub(super) fn prepare(&self, script: &[Say], breaks_after: Option<usize>) {
        let mut state = self.0.lock().unwrap();
        (state.script, state.breaks_after) = (script.to_vec(), breaks_after);
    }

    /// Returns the last response, if the last request was accepted.
    pub(super) fn take_made(&self) -> Option<MadeResponse> {
        self.0.lock().unwrap().made.take()
    }

    /// Returns the bodies of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(super) async fn respond(self, request: Request<HistoryBody>) -> Result<Response<Full<Bytes>>, BoxError> {
        let body = request.into_body().collect().await?.to_bytes();
        let body = std::str::from_utf8(&body)?;
        let mut state = self.0.lock().unwrap();
        let State { provider, script, breaks_after, made, requests } = &mut *state;
        requests.push(body.to_owned());
        let response = match provider.reply(body, script) {
            Ok(response) => response,
            Err(refusal) => {
                let refused = Response::builder().status(refusal.status()).header("content-type", JSON);
                return Ok(refused.body(refusal.to_json().to_string().into())?);
            }
        };
        let request: Value = serde_json::from_str(body)?;
        let (kind, text) = if request["stream"] == true {
            (EVENTS, events(&response, *breaks_after))
        } else {
            (JSON, response.body())
        };
        *made = Some(response);
        Ok(Response::builder().header("content-type", kind).body(text.into())?)
    }
}

/// Returns the events of a response. The stream breaks off after this number of items.
fn events(response: &MadeResponse, breaks_after: Option<usize>) -> String {
    let mut events =
        vec![json!({"type": "response.created", "response": {"id": response.id, "output": []}}).to_string()];
    for (at, item) in response.output.iter().enumerate().take(breaks_after.unwrap_or(usize::MAX)) {
        events.push(format!(r#"{{"type":"response.output_item.added","output_index":{at},"item":{item}}}"#));
        events.push(format!(r#"{{"type":"response.output_text.delta","output_index":{at},"delta":"a"}}"#));
        events.push(format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{item}}}"#));
    }
    if breaks_after.is_none() {
        events.push(format!(r#"{{"type":"response.completed","response":{}}}"#, response.body()));
    }
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
