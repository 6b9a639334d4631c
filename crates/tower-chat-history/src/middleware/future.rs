use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use crate::error::BoxError;

/// The response future of [`ChatHistory`](crate::ChatHistory).
pub struct ResponseFuture<R>(BoxFuture<'static, Result<R, BoxError>>);

impl<R> ResponseFuture<R> {
    pub(super) fn new(future: impl Future<Output = Result<R, BoxError>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl<R> Future for ResponseFuture<R> {
    type Output = Result<R, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<R> fmt::Debug for ResponseFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
