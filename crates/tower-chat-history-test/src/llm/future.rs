//! The future of both services.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use async_openai::error::OpenAIError;
use futures_util::future::BoxFuture;

/// The future of a response of a [`MockChat`](super::MockChat) or a [`MockChatStream`](super::MockChatStream).
#[must_use = "futures do nothing unless polled"]
pub struct ReplyFuture<T>(BoxFuture<'static, Result<T, OpenAIError>>);

impl<T> ReplyFuture<T> {
    pub(super) fn new(answer: impl Future<Output = Result<T, OpenAIError>> + Send + 'static) -> Self {
        Self(Box::pin(answer))
    }
}

impl<T> Future for ReplyFuture<T> {
    type Output = Result<T, OpenAIError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<T> fmt::Debug for ReplyFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyFuture").finish_non_exhaustive()
    }
}
