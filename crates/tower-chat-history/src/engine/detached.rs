//! The number of detached streams of an engine, and its limit.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tower_chat_history_core::ConversationId;

use crate::policy::DetachLimits;

/// The streams that are read to their end after their callers dropped them.
#[derive(Default)]
pub(super) struct DetachedStreams(Mutex<Streams>);

/// The numbers of detached streams: in total, and per conversation.
#[derive(Default)]
struct Streams {
    all: usize,
    by_conversation: HashMap<ConversationId, usize>,
}

impl DetachedStreams {
    /// Returns the number of detached streams.
    pub(super) fn len(&self) -> usize {
        self.lock().all
    }

    /// Counts a detached stream until the returned guard is dropped. Returns `None` if a limit is already reached.
    pub(super) fn try_detach(
        self: &Arc<Self>,
        conversation: &ConversationId,
        limits: DetachLimits,
    ) -> Option<DetachGuard> {
        let mut streams = self.lock();
        let of_conversation = streams.by_conversation.get(conversation).copied().unwrap_or_default();
        if streams.all >= limits.max_streams || of_conversation >= limits.max_per_conversation {
            return None;
        }

        streams.all += 1;
        streams.by_conversation.insert(conversation.clone(), of_conversation + 1);
        Some(DetachGuard { detached: Arc::clone(self), conversation: conversation.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one detached stream while it lives.
pub(super) struct DetachGuard {
    detached: Arc<DetachedStreams>,
    conversation: ConversationId,
}

impl Drop for DetachGuard {
    fn drop(&mut self) {
        let mut streams = self.detached.lock();
        streams.all = streams.all.saturating_sub(1);
        if let Some(of_conversation) = streams.by_conversation.get_mut(&self.conversation) {
            *of_conversation = of_conversation.saturating_sub(1);
            if *of_conversation == 0 {
                streams.by_conversation.remove(&self.conversation);
            }
        }
    }
}
