//! The mock provider as an HTTP service, whole and streamed, whose key can be replaced.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_chat_history::{BoxError, http::HistoryBody};
use tower_chat_history_test::responses::{ResponsesProvider, Say};

use super::super::support::{EVENTS, JSON};

type Work = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The provider, with the response to make next.
#[derive(Clone)]
pub(super) struct Provider(Arc<Mutex<State>>);

struct State {
    provider: ResponsesProvider,
    script: Vec<Say>,
    /// Another process's work, which is done before the next request is answered.
    before_next: Option<Work>,
    requests: Vec<String>,
    refused: usize,
}

impl Provider {
    pub(super) fn new() -> Self {
        let (provider, script) = (ResponsesProvider::new("acme"), Vec::new());
        let (before_next, requests, refused) = (None, Vec::new(), 0);
        Self(Arc::new(Mutex::new(State { provider, script, before_next, requests, refused })))
    }

    pub(super) fn prepare(&self, script: Vec<Say>) {
        self.0.lock().unwrap().script = script;
    }

    pub(super) fn rotate_key(&self) {
        self.0.lock().unwrap().provider.rotate_key();
    }

    /// Does this work before the next request is answered.
    pub(super) fn before_next(&self, work: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        self.0.lock().unwrap().before_next = Some(Box::new(work));
    }

    /// Returns the bodies of all requests.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// Returns the number of refused requests.
    pub(super) fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }

    pub(super) async fn respond(self, request: Request<HistoryBody>) -> Result<Response<Full<Bytes>>, BoxError> {
        let body = String::from_utf8(request.into_body().collect().await?.to_bytes().to_vec())?;
        let streams = serde_json::from_str::<Value>(&body)?["stream"] == true;
        let work = self.0.lock().unwrap().before_next.take();
        if let Some(work) = work {
            work().await;
        }
        let mut state = self.0.lock().unwrap();
        let State { provider, script, requests, refused, .. } = &mut *state;
        let made = provider.reply(&body, script);
        requests.push(body);
        let (status, kind, body) = match made {
            Ok(made) if streams => {
                (200, EVENTS, format!("data: {{\"type\":\"response.completed\",\"response\":{}}}\n\n", made.body()))
            }
            Ok(made) => (200, JSON, made.body()),
            Err(refusal) => {
                *refused += 1;
                (refusal.status(), JSON, refusal.to_json().to_string())
            }
        };
        Ok(Response::builder().status(status).header("content-type", kind).body(Full::from(body))?)
    }
}
