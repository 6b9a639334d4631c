//! A provider of the Responses API as an HTTP service, whose key can be replaced.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_chat_history::{BoxError, http::HistoryBody};
use tower_chat_history_test::responses::{MadeResponse, ResponsesProvider, Say};

/// The provider, with the output of its next response.
#[derive(Clone)]
pub(super) struct Provider(Arc<Mutex<State>>);

struct State {
    provider: ResponsesProvider,
    script: Vec<Say>,
    requests: Vec<String>,
    refused: usize,
    made: Option<MadeResponse>,
}

impl Provider {
    pub(super) fn new() -> Self {
        let (provider, script, requests) = (ResponsesProvider::new("acme"), Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(State { provider, script, requests, refused: 0, made: None })))
    }

    pub(super) fn prepare(&self, script: &[Say]) {
        self.0.lock().unwrap().script = script.to_vec();
    }

    pub(super) fn rotate_key(&self) {
        self.0.lock().unwrap().provider.rotate_key();
    }

    /// Returns the bodies of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// Returns the number of refused requests.
    pub(super) fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }

    /// Returns the newest response.
    pub(super) fn made(&self) -> Option<MadeResponse> {
        self.0.lock().unwrap().made.clone()
    }

    pub(super) async fn respond(self, request: Request<HistoryBody>) -> Result<Response<Full<Bytes>>, BoxError> {
        let body = String::from_utf8(request.into_body().collect().await?.to_bytes().to_vec())?;
        // Calls at the same time are all sent before the first one is answered.
        tokio::task::yield_now().await;
        let streams = serde_json::from_str::<Value>(&body)?["stream"] == true;
        let mut state = self.0.lock().unwrap();
        let State { provider, script, requests, refused, made } = &mut *state;
        let outcome = provider.reply(&body, script);
        requests.push(body);
        let (status, kind, body) = match outcome {
            Ok(response) => {
                let whole = response.body();
                *made = Some(response);
                let event = format!("data: {{\"type\":\"response.completed\",\"response\":{whole}}}\n\n");
                if streams { (200, "text/event-stream", event) } else { (200, "application/json", whole) }
            }
            Err(refusal) => {
                *refused += 1;
                (refusal.status(), "application/json", refusal.to_json().to_string())
            }
        };
        Ok(Response::builder().status(status).header("content-type", kind).body(Full::from(body))?)
    }
}
