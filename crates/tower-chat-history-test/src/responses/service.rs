//! The provider as a tower service.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use tower_service::Service;

use super::{output::Output, provider::ResponsesProvider};
use crate::{lock::lock, reply::ApiFailure};

/// A [`ResponsesProvider`] with a script, as a tower service: from the body of a request to the body of a response, or
/// to the provider's error. Clones share the script.
///
/// A refused request uses no response of the script. When the script is used up, requests are answered with an error
/// that clients do not retry: status 400 with code `script_used_up`.
///
/// ```
/// use tower::ServiceExt as _;
/// use tower_chat_history_test::responses::{MadeResponse, MockResponses, Output, ResponsesProvider};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mock = MockResponses::new(ResponsesProvider::new("acme"), [vec![Output::text("Hello!")]]);
/// let body = mock.clone().oneshot(r#"{"model":"gpt-5.5","input":"Hi!"}"#.to_owned()).await?;
/// let items = body.ok().and_then(|body| MadeResponse::items(&body));
/// assert_eq!(items.map(|items| items.len()), Some(1));
///
/// let orphan = r#"{"input":[{"type":"function_call_output","call_id":"call_1","output":"12 degrees"}]}"#;
/// let failure = mock.clone().oneshot(orphan.to_owned()).await?.unwrap_err();
/// assert_eq!(failure.message(), "No tool call found for function call output with call_id call_1.");
/// assert_eq!((mock.requests().len(), mock.left()), (2, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MockResponses(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    provider: ResponsesProvider,
    script: VecDeque<Vec<Output>>,
    requests: Vec<String>,
}

impl MockResponses {
    /// Creates the service. Each entry of the script is the output of one response.
    #[must_use]
    pub fn new(provider: ResponsesProvider, script: impl IntoIterator<Item = Vec<Output>>) -> Self {
        let script = script.into_iter().collect();
        Self(Arc::new(Mutex::new(State { provider, script, requests: Vec::new() })))
    }

    /// Adds a response to the end of the script.
    pub fn push(&self, response: impl IntoIterator<Item = Output>) {
        lock(&self.0).script.push_back(response.into_iter().collect());
    }

    /// Replaces the [key](ResponsesProvider::rotate_key) of the provider's encrypted contents.
    pub fn rotate_key(&self) {
        lock(&self.0).provider.rotate_key();
    }

    /// Returns the number of responses that are left in the script.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.0).script.len()
    }

    /// Returns the bodies of all requests, also of the refused ones.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.0).requests.clone()
    }

    fn respond(&self, body: String) -> Result<String, ApiFailure> {
        let mut state = lock(&self.0);
        let State { provider, script, requests } = &mut *state;
        let checked = provider.check(&body);
        requests.push(body);
        checked?;
        let used_up = || ApiFailure::new(400, "the mock's script is used up").code("script_used_up");
        let output = script.pop_front().ok_or_else(used_up)?;
        let body = requests.last().map_or("", String::as_str);
        Ok(provider.respond(body, &output)?.body())
    }
}

impl Service<String> for MockResponses {
    type Response = Result<String, ApiFailure>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, body: String) -> Self::Future {
        ready(Ok(self.respond(body)))
    }
}
