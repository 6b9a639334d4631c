//! The replies that a mock made with reasoning.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tower_chat_history_core::Digest;

use crate::{lock::lock, normal};

/// The replies that a mock made with reasoning. Clones share them.
///
/// A reply is known by its text and its calls, because these are what a client sends back at least.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded(Arc<Mutex<HashMap<Digest, usize>>>);

impl Recorded {
    /// Records a reply and the number of its signatures.
    #[cfg(any(feature = "openai", feature = "server"))]
    pub(super) fn add(&self, message: &Value, signatures: usize) {
        lock(&self.0).insert(normal::digest(message), signatures);
    }

    /// Returns the number of a reply's signatures, or `None` if the reply was not made with reasoning.
    pub(super) fn signatures(&self, message: &Value) -> Option<usize> {
        lock(&self.0).get(&normal::digest(message)).copied()
    }
}
