//! The names of errors in spans and metrics.

use std::{borrow::Cow, error::Error};

use super::{HistoryError, SaveError};

/// Returns the name of an error in spans and metrics.
///
/// If the error or one of its sources is a [`HistoryError`] or a [`SaveError`], the name is that error's `kind`.
/// Otherwise, it is `_OTHER`, the value that OpenTelemetry's conventions define for this case.
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
