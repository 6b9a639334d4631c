use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use tower_service::Service;
use tracing::Instrument as _;

use super::ResponseFuture;
use crate::{
    adapt::{AdaptRequest, CallFacts, Draft, OpenRequest, Prompt, ReadResponse},
    engine::{Engine, Step},
    error::BoxError,
};

/// A service that adds the history of conversations to another service. See the [module docs](crate::middleware).
#[derive(Clone, Debug)]
pub struct ChatHistory<S, A> {
    inner: S,
    engine: Engine,
    adapter: A,
}

impl<S, A> ChatHistory<S, A> {
    /// Wraps the inner service.
    pub const fn new(inner: S, engine: Engine, adapter: A) -> Self {
        Self { inner, engine, adapter }
    }

    /// Returns the engine. [Drain](Engine::drain) it before the runtime shuts down.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service as a mutable reference.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Removes the layer and returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, A, R> Service<R> for ChatHistory<S, A>
where
    A: AdaptRequest<R> + ReadResponse<S::Response> + Clone + Send + Sync + 'static,
    A::Draft: Send,
    S: Service<<A as AdaptRequest<R>>::Request> + Clone + Send + 'static,
    S::Response: Send,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: Send + 'static,
    <A as AdaptRequest<R>>::Request: Send,
    <A as ReadResponse<S::Response>>::Response: Send + 'static,
{
    type Response = <A as ReadResponse<S::Response>>::Response;
    type Error = BoxError;
    type Future = ResponseFuture<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The instance that is ready may hold a permit that its clones do not have, so the future takes this instance.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let engine = self.engine.clone();
        let adapter = self.adapter.clone();
        ResponseFuture::new(async move {
            let mut must_be_ready = false;
            let opened = {
                let mut opening = pin!(adapter.open(request));
                match at_once(opening.as_mut()).await {
                    Some(opened) => opened?,
                    None => {
                        // Release the permit of this instance: a slow body of this request must not block other calls.
                        let unready = inner.clone();
                        (inner, must_be_ready) = (unready, true);
                        opening.await?
                    }
                }
            };
            let (input, mut draft) = match opened {
                OpenRequest::Turn(input, draft) => (input, draft),
                OpenRequest::PassThrough(request) => {
                    if must_be_ready {
                        poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
                    }
                    return inner.call(request).await.map(|response| adapter.pass(response)).map_err(Into::into);
                }
            };
            let mut beginning = engine.start(input);
            let mut turn = loop {
                match beginning.step().await? {
                    Step::Begun(turn) => break turn,
                    Step::MustWait(rest) => {
                        // Release the permit of this instance before the wait, because the other call may need it: if
                        // both calls share a concurrency limit, each would wait for the other.
                        let unready = inner.clone();
                        inner = unready;
                        (beginning, must_be_ready) = (rest, true);
                    }
                }
            };
            let mut again = if turn.is_repairable() { draft.again() } else { None };
            loop {
                let sent = match draft.complete(Prompt::of(&turn)) {
                    Ok(sent) => sent,
                    Err(error) => {
                        turn.fail(&adapter.error_type(&*error));
                        return Err(error);
                    }
                };
                turn.note_downgraded(sent.downgraded);
                let span = turn.call_span();
                let called = async {
                    if must_be_ready {
                        poll_fn(|context| inner.poll_ready(context)).await?;
                    }
                    inner.call(sent.request).await
                };
                let read = match called.instrument(span).await.map_err(Into::into) {
                    Ok(response) => adapter.read(response, CallFacts::of(&turn).repairable(again.is_some())).await,
                    Err(error) => Err(error),
                };
                let read = match read {
                    Ok(read) => read,
                    Err(error) => {
                        turn.fail(&adapter.error_type(&*error));
                        return Err(error);
                    }
                };
                let (Some(repeated), Some(error_type)) = (again.take(), read.repairable_error()) else {
                    return read.finish(turn).await;
                };
                if !turn.repair(&error_type).await {
                    return read.finish(turn).await;
                }
                // The service may have to be free of the refused response before it is ready again.
                drop(read);
                (draft, must_be_ready) = (repeated, true);
            }
        })
    }
}

/// Returns the result of a future that is ready at once, and `None` if it has to wait.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}
