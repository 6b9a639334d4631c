//! The provider of an API: a real one if there is a key, otherwise a mock model in this process.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, Message,
    http::HistoryBody,
    summary::{ServiceSummarizer, Summarizer},
    tokens::{ByteEstimate, Estimate, TokenCounter},
};
use tower_chat_history_test::{MockServer, Replies};

use super::{HttpApi, HttpClient, client};
use crate::{Extract, provider::var};

/// A provider of one API.
pub struct HttpProvider {
    /// The API.
    pub api: HttpApi,
    /// The name of the model.
    pub model: String,
    /// One line for the user about the provider.
    pub about: String,
    url: String,
    headers: HeaderMap,
    /// The mock server. It answers until it is dropped.
    mock: Option<MockServer>,
}

impl HttpProvider {
    /// Creates a provider from environment variables:
    ///
    /// | API | key | base URL | model |
    /// |---|---|---|---|
    /// | Messages | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL`, without `/v1` | `ANTHROPIC_MODEL` |
    /// | Responses | `OPENAI_API_KEY` | `OPENAI_BASE_URL`, with `/v1` | `OPENAI_MODEL` |
    ///
    /// Without the key, it is a mock model in this process. `mock` has its replies. `model` replaces the variable.
    ///
    /// # Errors
    ///
    /// Fails if the mock server cannot listen on this machine, or if the key cannot be sent in a header.
    pub async fn from_env(api: HttpApi, model: Option<String>, mock: Replies) -> Result<Self, BoxError> {
        let names = api.names();
        let model = model.or_else(|| var(names.model)).unwrap_or_else(|| names.default_model.into());
        let Some(key) = var(names.key) else {
            let server = MockServer::start(mock).await?;
            let url = format!("{}/{}", server.base_url(), names.path.trim_start_matches("/v1").trim_start_matches('/'));
            let about = format!("{} is not set: using a mock model that answers by simple rules.", names.key);
            return Ok(Self { api, model, about, url, headers: api.headers("mock")?, mock: Some(server) });
        };
        let base = var(names.base_url).unwrap_or_else(|| names.default_url.into());
        let base = base.trim_end_matches('/');
        let about = format!("Using {model} at {base}.");
        Ok(Self { api, model, about, url: format!("{base}{}", names.path), headers: api.headers(&key)?, mock: None })
    }

    /// Returns a client without history, for the inside of a layer.
    ///
    /// # Errors
    ///
    /// Fails if the system's certificates cannot be read.
    pub fn client(&self) -> Result<HttpClient, BoxError> {
        client(self.mock.is_some())
    }

    /// Returns a request with this body.
    ///
    /// # Errors
    ///
    /// Fails if the base URL is not a URL.
    pub fn request(&self, body: &Value) -> Result<Request<Full<Bytes>>, BoxError> {
        request(&self.url, &self.headers, body)
    }

    /// Returns a summarizer. It calls the provider's model. For the mock model, it is [`Extract`].
    ///
    /// # Errors
    ///
    /// Returns the error of [`client`](Self::client).
    pub fn summarizer(&self) -> Result<Arc<dyn Summarizer>, BoxError> {
        if self.mock.is_some() {
            // The layer counts in the same way, if it has no other counter.
            let counter: Arc<dyn TokenCounter> = match Estimate::for_model(&self.model) {
                Some(estimate) => Arc::new(estimate),
                None => Arc::new(ByteEstimate::new()),
            };
            return Ok(Arc::new(Extract::new(counter)));
        }
        let (api, model, url, headers) = (self.api, self.model.clone(), self.url.clone(), self.headers.clone());
        let client = self.client()?;
        let service = service_fn(move |body: Value| {
            let (client, request) = (client.clone(), request(&url, &headers, &body));
            async move { whole(client.oneshot(request?.map(HistoryBody::new)).await?).await }
        });
        let name = model.clone();
        let body = move |prompt: Vec<Message>, max_tokens: u32| {
            let text = |message: &Message| message.text().into_owned();
            let (instructions, input): (Vec<_>, Vec<_>) = prompt.iter().partition(|message| message.is_instruction());
            let instructions: String = instructions.into_iter().map(text).collect();
            let input: Vec<Value> =
                input.into_iter().map(|message| json!({ "role": "user", "content": text(message) })).collect();
            api.body(&model, &instructions, &input, max_tokens)
        };
        let reply = move |body: &Bytes| api.wire().reply(body);
        Ok(Arc::new(ServiceSummarizer::new(service, body, reply).model(name)))
    }

    /// Stops the mock server, if there is one.
    pub async fn shutdown(self) {
        if let Some(mock) = self.mock {
            mock.shutdown().await;
        }
    }
}

fn request(url: &str, headers: &HeaderMap, body: &Value) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = Request::post(url).body(Full::from(body.to_string()))?;
    request.headers_mut().extend(headers.clone());
    Ok(request)
}

/// Returns the body of a successful response.
async fn whole(response: Response<reqwest::Body>) -> Result<Bytes, BoxError> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if status.is_success() { Ok(body) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()) }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("about", &self.about).finish_non_exhaustive()
    }
}
