//! The tower layer.
//!
//! # Order in the stack
//!
//! Put the history layer outside of the layers for retries, timeouts and concurrency limits. If it were inside a
//! retry layer, each attempt would be a separate turn. If it were inside a timeout layer, the timeout would also
//! limit the save, and could drop a call whose reply is already paid for.
//!
//! ```text
//!   caller
//!     │  InConversation { id, request }
//!   ChatHistory        one turn: loads, calls, saves
//!     │  request with its history
//!   retry              repeats the same request
//!   timeout            limits one attempt
//!   concurrency limit  see below
//!     │
//!   LLM client
//! ```
//!
//! # Steps of a call
//!
//! - `poll_ready` only polls the inner service.
//! - `call` splits the request into its parts, finishes the engine's pending saves of the conversation, loads the
//!   window, calls the inner service, and saves the exchange when the reply is complete.
//! - The instance of the inner service that was polled ready is the one that is called. A permit that its
//!   `poll_ready` reserved (for example of a concurrency limit) is held during the load. If the call must wait for a
//!   save, a summary or another call of its conversation ([`Serialize`](crate::policy::OnConflict::Serialize)), it
//!   releases the permit first, and polls for readiness again after the wait. So does a call whose request is not
//!   complete yet, such as one with a slow body. Calls that wait therefore never block other conversations.
//! - If the provider refuses the prompt, and the adapter knows a [`Remedy`](crate::refusal::Remedy), the layer plans the
//!   prompt again, polls for readiness and calls the inner service once more, at most twice. It returns the response of
//!   the last call, whatever it is.
//! - If the inner service fails or panics, or its future is dropped, nothing is stored.
//! - Errors of the inner service are returned unchanged. The layer's own errors are listed in [error](crate::error).
//!   All are in a [`BoxError`], so that the error type does not depend on the order of layers. To handle them, downcast
//!   it.
//! - The layer changes only the messages of a request, and its reply limit if the
//!   [budget](crate::ContextBudget::shrink_reply_to) lowers it.
//!
//! # In a spawned task
//!
//! If the inner service is a closure whose error is [`BoxError`],
//! `tokio::spawn(async { chat.oneshot(call).await })` does not compile ("implementation of `From` is not general
//! enough"). The same happens with tower's own `Timeout`. Give the closure a concrete error
//! (`Ok::<_, std::io::Error>(..)`), or write `chat.oneshot(call).boxed().await` with `futures_util::FutureExt`.

use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tower_chat_history_core::HistoryStore;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

use crate::{
    adapt::{AdaptRequest, CallFacts, Draft, OpenedRequest, Prompt, ReadResponse},
    engine::Engine,
    error::BoxError,
    options::HistoryOptions,
};

/// A layer that adds the conversation's history to every call, and saves the exchange. See the [module
/// docs](crate::middleware).
///
/// All services of one layer and of its clones share the store, the options and the pending saves.
#[derive(Clone, Debug)]
pub struct ChatHistoryLayer<A> {
    engine: Engine,
    adapter: A,
}

impl<A> ChatHistoryLayer<A> {
    /// Creates a layer that stores conversations in `store`, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore, adapter: A) -> Self {
        Self::with_options(store, adapter, HistoryOptions::new())
    }

    /// Creates a layer that stores conversations in `store`, with these options.
    pub fn with_options(store: impl HistoryStore, adapter: A, options: HistoryOptions) -> Self {
        Self::from_engine(Engine::with_options(store, options), adapter)
    }

    /// Creates a layer that uses this engine. Use it to share an engine with other layers or with code that calls it
    /// directly, or for an engine that limits how much of each conversation stays stored
    /// ([`Engine::with_retention`]).
    pub const fn from_engine(engine: Engine, adapter: A) -> Self {
        Self { engine, adapter }
    }

    /// Returns the engine. [Drain](Engine::drain) it before the runtime shuts down.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl<S, A: Clone> Layer<S> for ChatHistoryLayer<A> {
    type Service = ChatHistory<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        ChatHistory::new(inner, self.engine.clone(), self.adapter.clone())
    }
}

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
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The instance that is ready may hold a permit that its clones do not have, so the future takes this instance.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let engine = self.engine.clone();
        let adapter = self.adapter.clone();
        Box::pin(async move {
            let mut must_be_ready = false;
            let opened = {
                let mut opening = pin!(adapter.open(request));
                match at_once(opening.as_mut()).await {
                    Some(opened) => opened?,
                    None => {
                        // Release the permit of this instance: a slow body of this request must not block other calls.
                        let unready = inner.clone();
                        inner = unready;
                        must_be_ready = true;
                        opening.await?
                    }
                }
            };

            let (input, mut draft) = match opened {
                OpenedRequest::Turn(input, draft) => (input, draft),
                OpenedRequest::PassThrough(request) => {
                    if must_be_ready {
                        poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
                    }
                    return inner.call(request).await.map(|response| adapter.pass(response)).map_err(Into::into);
                }
            };

            let mut turn = engine
                .begin_with(input, &mut || {
                    // Release the permit of this instance before the wait, because the other call may need it: if both
                    // calls share a concurrency limit, each would wait for the other.
                    let unready = inner.clone();
                    inner = unready;
                    must_be_ready = true;
                })
                .await?;

            loop {
                let again = if turn.can_be_remedied() { draft.again() } else { None };
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
                    Ok(response) => adapter.read(response, CallFacts::of(&turn).repeatable(again.is_some())).await,
                    Err(error) => Err(error),
                };
                let remedy = match &read {
                    Ok(read) => read.remedy(),
                    Err(error) => adapter.remedy(&**error).map(|remedy| (remedy, adapter.error_type(&**error))),
                };
                if let (Some(repeated), Some((remedy, error_type))) = (again, remedy)
                    && turn.remedy(&remedy, &error_type).await
                {
                    // The service may have to be free of the refused response before it is ready again.
                    drop(read);
                    draft = repeated;
                    must_be_ready = true;
                    continue;
                }
                return match read {
                    Ok(read) => read.finish(turn).await,
                    Err(error) => {
                        turn.fail(&adapter.error_type(&*error));
                        Err(error)
                    }
                };
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
