//! The names of errors in spans and metrics.

use std::{borrow::Cow, error::Error};

use super::{HistoryError, SaveError};

/// What an error is called in spans and metrics: a constant name for this crate's own, wherever in the chain of sources it
/// stands, and `_OTHER` for any other, as the conventions have it.
#[must_use]
pub fn error_type(error: &(dyn Error + 'static)) -> Cow<'static, str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<HistoryError>() {
            return error.kind().into();
        }
        if let Some(error) = error.downcast_ref::<SaveError>() {
            return error.kind().into();
        }
        next = error.source();
    }
    "_OTHER".into()
}
