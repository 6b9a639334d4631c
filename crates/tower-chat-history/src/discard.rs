//! Dropping values of callers and models without recursion. Such a value may be a [`Value`] with any number of
//! levels, whose own drop recurses.
//!
//! A value that is passed on is dropped by its new owner. This module is for values that are dropped in this crate:
//! items of a stream without a reader, a response whose caller has left, a request without a conversation.

use std::{any::Any, mem};

use serde_json::Value;
use tower_chat_history_core::nested;

use crate::call::InConversation;

/// Drops a value. A [`Value`], or a call with one, is taken apart without recursion.
pub(crate) fn discard<T: 'static>(mut dropped: T) {
    let any: &mut dyn Any = &mut dropped;
    if let Some(value) = any.downcast_mut::<Value>() {
        nested::dismantle(mem::take(value));
    } else if let Some(call) = any.downcast_mut::<InConversation<Value>>() {
        nested::dismantle(mem::take(&mut call.request));
    }
}

/// Drops a stream's item without recursion.
pub(crate) fn discard_item<T: 'static, E>(item: Result<T, E>) {
    if let Ok(item) = item {
        discard(item);
    }
}

/// Returns `None` for a [`Value`] with [too many levels](nested::MAX_LEVELS), so that no drop of the returned value
/// recurses too deep.
pub(crate) fn refuse_deep<T: 'static>(checked: T) -> Option<T> {
    let any: &dyn Any = &checked;
    if any.downcast_ref::<Value>().is_some_and(nested::is_too_deep) {
        discard(checked);
        return None;
    }
    Some(checked)
}

/// Holds a value until it is taken. If it is not taken, it is [discarded](discard).
pub(crate) struct Kept<T: 'static>(Option<T>);

impl<T: 'static> Kept<T> {
    pub(crate) const fn new(kept: T) -> Self {
        Self(Some(kept))
    }

    /// Returns the value at the first call, and `None` after that.
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
