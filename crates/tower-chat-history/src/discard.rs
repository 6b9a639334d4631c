//! Dropping values of callers and of models. Such a value may be a [`Value`] of any number of levels, whose own drop
//! recurses.
//!
//! A value that is handed on is dropped by its new owner. This module is for values that end here: items of a stream that
//! nobody reads, a response whose caller has left, a request without a conversation.

use std::{any::Any, mem};

use serde_json::Value;
use tower_chat_history_core::nested;

use crate::call::InConversation;

/// Drops something. A [`Value`], or a call around one, is taken apart without recursion.
pub(crate) fn discard<T: 'static>(mut dropped: T) {
    let any: &mut dyn Any = &mut dropped;
    if let Some(value) = any.downcast_mut::<Value>() {
        nested::dismantle(mem::take(value));
    } else if let Some(call) = any.downcast_mut::<InConversation<Value>>() {
        nested::dismantle(mem::take(&mut call.request));
    }
}

/// Drops an item of a stream.
pub(crate) fn discard_item<T: 'static, E>(item: Result<T, E>) {
    if let Ok(item) = item {
        discard(item);
    }
}

/// Refuses a [`Value`] that has [too many levels](nested::MAX_LEVELS): whatever becomes of what is returned, dropping
/// it does not recurse too deep.
pub(crate) fn refuse_deep<T: 'static>(checked: T) -> Option<T> {
    let any: &dyn Any = &checked;
    if any.downcast_ref::<Value>().is_some_and(nested::is_too_deep) {
        discard(checked);
        return None;
    }
    Some(checked)
}

/// Keeps something until it is taken. What is not taken is [discarded](discard).
pub(crate) struct Kept<T: 'static>(Option<T>);

impl<T: 'static> Kept<T> {
    pub(crate) const fn new(kept: T) -> Self {
        Self(Some(kept))
    }

    /// Returns it, the first time.
    pub(crate) const fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some(kept) = self.0.take() {
            discard(kept);
        }
    }
}
