//! The warning about responses that are not stored because the adapter cannot read them.

use std::sync::{Mutex, PoisonError};

use crate::report::ResponseShape;

/// The shapes for which an engine has logged a warning.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Mutex<Vec<ResponseShape>>);

impl Unreadable {
    /// Logs a warning for the first response of each shape. A service that returns one such response usually returns
    /// many.
    pub(super) fn warn(&self, shape: ResponseShape) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !warned.contains(&shape) {
            warned.push(shape);
            drop(warned);
            tracing::warn!(
                %shape,
                "an exchange was not stored because the adapter cannot read the response; each shape is logged once"
            );
        }
    }
}
