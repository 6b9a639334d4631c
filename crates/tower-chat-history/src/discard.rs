//! Dropping requests, responses and stream items without recursion. They may be a [`Value`] with any number of
//! levels, whose own drop is recursive and would overflow the stack.
//!
//! This module is for values that this crate drops: items of a stream that is not read, a response whose caller has
//! left, a request without a conversation. Values that are passed on are dropped by their new owner.

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

/// Returns the value, or `None` for a [`Value`] with [too many levels](nested::MAX_LEVELS), which it drops. A
/// returned value can be dropped in the usual way.
pub(crate) fn refuse_deep<T: 'static>(checked: T) -> Option<T> {
    let any: &dyn Any = &checked;
    if any.downcast_ref::<Value>().is_some_and(nested::is_too_deep) {
        discard(checked);
        return None;
    }
    Some(checked)
}

/// Owns a value until it is taken. If it is never taken, it is dropped without recursion.
pub(crate) struct DiscardOnDrop<T: 'static>(Option<T>);

impl<T: 'static> DiscardOnDrop<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }

    /// Returns the value at the first call, and `None` after that.
    pub(crate) const fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: 'static> Drop for DiscardOnDrop<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            discard(value);
        }
    }
}
