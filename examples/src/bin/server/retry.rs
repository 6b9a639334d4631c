//! The retry policy for model calls.

use std::time::Duration;

use tower::{BoxError, retry::Policy, timeout::error::Elapsed};

/// Retries attempts that timed out or lost their connection. Rate limits and server errors are retried by the client
/// itself, which reads from the response how long to wait.
#[derive(Clone, Debug)]
pub(crate) struct Transient {
    left: u32,
}

impl Transient {
    pub(crate) const fn attempts(attempts: u32) -> Self {
        Self { left: attempts.saturating_sub(1) }
    }
}

impl<Request: Clone, Response> Policy<Request, Response, BoxError> for Transient {
    type Future = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

    fn retry(&mut self, _: &mut Request, result: &mut Result<Response, BoxError>) -> Option<Self::Future> {
        let transient = result.as_ref().is_err_and(|error| error.is::<Elapsed>() || lost_connection(error));
        if !transient || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(Box::pin(tokio::time::sleep(Duration::from_millis(200))))
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}

fn lost_connection(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(async_openai::error::OpenAIError::Reqwest(_)))
}
