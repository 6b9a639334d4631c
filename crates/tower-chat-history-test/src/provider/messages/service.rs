//! The provider as a tower service.

use std::{
    collections::VecDeque,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use tower_service::Service;

use super::{MessagesProvider, Reason, Refusal, Say};
use crate::lock::lock;

/// A [`MessagesProvider`] as a tower service: it takes the bodies of requests, and returns those of responses, with the
/// replies of a script. Clones share the script and the recorded requests.
///
/// ```
/// use tower::ServiceExt;
/// use tower_chat_history_test::messages::{MessagesProvider, MockMessages, Say};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mock = MockMessages::script(MessagesProvider::new("acme"), [vec![Say::Text("Hello!".into())]]);
/// let body = r#"{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"Hi!"}]}"#;
/// let response = mock.clone().oneshot(body.to_owned()).await?;
/// assert!(response.contains("Hello!"));
///
/// let refusal = mock.clone().oneshot("{}".to_owned()).await.unwrap_err();
/// assert_eq!((refusal.status(), refusal.to_string().as_str()), (400, "model: Field required"));
/// assert_eq!(mock.requests(), [body, "{}"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MockMessages {
    provider: MessagesProvider,
    script: Arc<Mutex<VecDeque<Vec<Say>>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl MockMessages {
    /// Creates the service of this provider with these replies, in order. If there is none left, a request fails with
    /// status 500. A request that is refused uses no reply.
    #[must_use]
    pub fn script(provider: MessagesProvider, replies: impl IntoIterator<Item = Vec<Say>>) -> Self {
        Self { provider, script: Arc::new(Mutex::new(replies.into_iter().collect())), requests: Arc::default() }
    }

    /// Returns the provider.
    #[must_use]
    pub const fn provider(&self) -> &MessagesProvider {
        &self.provider
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: Vec<Say>) {
        lock(&self.script).push_back(reply);
    }

    /// Returns the bodies of all requests so far, in order, also of those that were refused.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.requests).clone()
    }

    fn receive(&self, body: String) -> Result<String, Refusal> {
        let mut script = lock(&self.script);
        let reply = self.provider.check(&body).and_then(|()| {
            let reply = script.pop_front().ok_or(Reason::NoReply)?;
            self.provider.reply(&body, &reply)
        });
        lock(&self.requests).push(body);
        reply
    }
}

impl Service<String> for MockMessages {
    type Response = String;
    type Error = Refusal;
    type Future = Ready<Result<String, Refusal>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, body: String) -> Self::Future {
        ready(self.receive(body))
    }
}
