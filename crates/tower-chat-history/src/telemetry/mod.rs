#![doc = include_str!("../../docs/telemetry.md")]

mod call;
mod content;
mod load;
#[cfg_attr(not(feature = "otel"), path = "unmetered.rs")]
mod metrics;
pub mod names;
mod options;
mod prefix_cache;
#[cfg(feature = "otel")]
mod propagation;
mod recorder;
mod save;
mod summarize;
mod trim;
mod turn;

use std::{borrow::Cow, error::Error};

pub use self::options::{CaptureContent, CaptureContentError, Telemetry};
#[cfg(feature = "otel")]
pub use self::propagation::inject_context;
pub(crate) use self::{
    call::{CallOf, ModelCall},
    recorder::Recorder,
    save::Saved,
    summarize::summarize,
    trim::{Decided, trim, trimmed},
    turn::{WaitFor, fail, wait},
};
use crate::{HistoryError, SaveError};

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
