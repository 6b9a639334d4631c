//! The warning that responses are not stored because they cannot be read.

use std::sync::{Mutex, PoisonError};

use crate::report::ResponseShape;

/// The shapes that an engine has warned of. There are few.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Mutex<Vec<ResponseShape>>);

impl Unreadable {
    /// Warns of the first response of each shape: a service that meets one mostly meets no other.
    pub(super) fn warn(&self, shape: ResponseShape) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !warned.contains(&shape) {
            warned.push(shape);
            drop(warned);
            tracing::warn!(
                %shape,
                "a response was not stored: the adapter cannot read it; later ones of this shape are in the turn reports only"
            );
        }
    }
}
