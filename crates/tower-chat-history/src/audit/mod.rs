//! Records of who read, changed and erased which conversations.
//!
//! An [`AuditedStore`] wraps a store. It tells an [`Audit`] about each call, after the call: who made it, what it did, to
//! which conversations, and with which outcome. An event never contains messages, summaries or labels.
//!
//! A program that acts for several people creates a handle for each of them:
//!
//! ```
//! use std::sync::Arc;
//! use tower_chat_history::{ConversationId, HistoryStoreExt, MemoryStore, audit::{AuditEvent, AuditedStore}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let write = |event: &AuditEvent| println!("{}", serde_json::to_string(event).unwrap_or_default());
//! let store = AuditedStore::new(MemoryStore::new(), Arc::new(write), "service");
//! let anna = store.acting_as("anna@support").purpose("ticket 4711");
//! let id = ConversationId::new(["acme", "user-42"])?;
//! anna.conversation(&id).messages().await?;
//! # Ok(())
//! # }
//! ```

mod attach;
mod erase;
mod event;
mod store;

use std::{fmt, sync::Arc};

use tower_chat_history_core::{StoreError, Timestamp};

use self::event::Counted;
pub use self::event::{Action, AuditEvent, Subject};

/// A receiver of audit events.
///
/// It is called within the store call, so it must not block: hand the event to a queue or a log.
pub trait Audit: Send + Sync + 'static {
    /// Receives an event about a call that has ended.
    fn record(&self, event: &AuditEvent);
}

impl<F: Fn(&AuditEvent) + Send + Sync + 'static> Audit for F {
    fn record(&self, event: &AuditEvent) {
        self(event);
    }
}

/// A store that tells an [`Audit`] about each call. See the [module](self).
///
/// It has the abilities of the inner store. A clone is another handle on the same store, for the same actor.
#[derive(Clone)]
pub struct AuditedStore<S> {
    inner: S,
    audit: Arc<dyn Audit>,
    actor: Arc<str>,
    purpose: Option<Arc<str>>,
}

impl<S> AuditedStore<S> {
    /// Wraps a store. `actor` names who makes the calls of this handle.
    pub fn new(inner: S, audit: Arc<dyn Audit>, actor: impl Into<Arc<str>>) -> Self {
        Self { inner, audit, actor: actor.into(), purpose: None }
    }

    /// Sets the purpose of the calls of this handle, such as `export`, or the number of a ticket. The default is none.
    #[must_use]
    pub fn purpose(mut self, purpose: impl Into<Arc<str>>) -> Self {
        self.purpose = Some(purpose.into());
        self
    }

    /// Returns the inner store, whose calls are not recorded.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Runs a call, and records it. If the caller drops the future, the outcome is `cancelled`.
    async fn recorded<T: Counted + Send>(
        &self,
        action: Action,
        subject: Subject,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let (actor, purpose) = (Arc::clone(&self.actor), self.purpose.clone());
        let event = AuditEvent { at: Timestamp::now(), actor, purpose, action, subject, exchanges: 0, error: None };
        let mut pending = Pending { audit: &*self.audit, event, error: Some("cancelled") };
        let answer = call.await;
        match &answer {
            Ok(found) => (pending.event.exchanges, pending.error) = (found.exchanges(), None),
            Err(error) => pending.error = Some(error.kind()),
        }
        answer
    }
}

impl<S: Clone> AuditedStore<S> {
    /// Returns a handle on the same store for another actor, without a purpose.
    #[must_use]
    pub fn acting_as(&self, actor: impl Into<Arc<str>>) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.audit), actor)
    }
}

impl<S: fmt::Debug> fmt::Debug for AuditedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditedStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// An event that is recorded when this value is dropped.
struct Pending<'a> {
    audit: &'a dyn Audit,
    event: AuditEvent,
    error: Option<&'static str>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.event.error = self.error;
        self.audit.record(&self.event);
    }
}
