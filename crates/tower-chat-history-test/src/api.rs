//! The providers of single APIs, as tower services with a script.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use crate::lock::lock;

/// A provider of one API: [`MessagesProvider`](crate::messages::MessagesProvider) or
/// [`ResponsesProvider`](crate::responses::ResponsesProvider). Clones are the same provider.
pub trait ApiProvider: Clone {
    /// A part of a scripted reply. A reply is a list of them.
    type Say;
    /// A reply that the provider made.
    type Made;
    /// The reason why the provider refuses a request, with its status and its wording.
    type Refusal;

    /// Checks the body of a request.
    ///
    /// # Errors
    ///
    /// Returns the first reason why the API refuses it.
    fn check(&self, body: &str) -> Result<(), Self::Refusal>;

    /// Checks the body of a request, and returns the scripted reply.
    ///
    /// # Errors
    ///
    /// Returns the error of [`check`](Self::check).
    fn reply(&self, body: &str, script: &[Self::Say]) -> Result<Self::Made, Self::Refusal>;

    /// Returns the refusal of a request for which a script has no reply left.
    fn used_up() -> Self::Refusal;
}

/// A provider of one API with a script, as a tower service: from the body of a request to the reply, or to the
/// provider's refusal. Clones share the script and the recorded requests.
///
/// A request that is refused uses no reply of the script. When the script is used up, requests are refused with status
/// 400, which clients do not retry.
///
/// ```
/// use tower::ServiceExt as _;
/// use tower_chat_history_test::messages::{MessagesProvider, MockMessages, Say};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mock = MockMessages::script(MessagesProvider::new("acme"), [vec![Say::text("Hello!")]]);
/// let body = r#"{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"Hi!"}]}"#;
/// let made = mock.clone().oneshot(body.to_owned()).await?;
/// assert!(made.body().contains("Hello!"));
///
/// let refusal = mock.clone().oneshot("{}".to_owned()).await.unwrap_err();
/// assert_eq!((refusal.status(), refusal.to_string().as_str()), (400, "model: Field required"));
/// assert_eq!((mock.requests(), mock.left()), (vec![body.to_owned(), "{}".to_owned()], 0));
/// # Ok(())
/// # }
/// ```
pub struct MockApi<P: ApiProvider> {
    provider: P,
    state: Arc<Mutex<State<P::Say>>>,
}

struct State<S> {
    script: VecDeque<Vec<S>>,
    requests: Vec<String>,
}

impl<P: ApiProvider> MockApi<P> {
    /// Creates the service of this provider with these replies, in order.
    #[must_use]
    pub fn script(provider: P, replies: impl IntoIterator<Item = Vec<P::Say>>) -> Self {
        let state = State { script: replies.into_iter().collect(), requests: Vec::new() };
        Self { provider, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the provider.
    #[must_use]
    pub const fn provider(&self) -> &P {
        &self.provider
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: impl IntoIterator<Item = P::Say>) {
        lock(&self.state).script.push_back(reply.into_iter().collect());
    }

    /// Returns the number of replies that are left in the script.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.state).script.len()
    }

    /// Returns the bodies of all requests so far, in order, also of those that were refused.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }

    #[cfg(any(feature = "openai", feature = "server"))]
    fn receive(&self, body: String) -> Result<P::Made, P::Refusal> {
        let mut state = lock(&self.state);
        let made = self.provider.check(&body).and_then(|()| {
            let reply = state.script.pop_front().ok_or_else(P::used_up)?;
            self.provider.reply(&body, &reply)
        });
        state.requests.push(body);
        made
    }
}

impl<P: ApiProvider> Clone for MockApi<P> {
    fn clone(&self) -> Self {
        Self { provider: self.provider.clone(), state: Arc::clone(&self.state) }
    }
}

impl<P: ApiProvider> fmt::Debug for MockApi<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("MockApi")
            .field("left", &state.script.len())
            .field("requests", &state.requests.len())
            .finish_non_exhaustive()
    }
}

#[cfg(any(feature = "openai", feature = "server"))]
impl<P: ApiProvider> tower_service::Service<String> for MockApi<P> {
    type Response = P::Made;
    type Error = P::Refusal;
    type Future = std::future::Ready<Result<P::Made, P::Refusal>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), P::Refusal>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, body: String) -> Self::Future {
        std::future::ready(self.receive(body))
    }
}
