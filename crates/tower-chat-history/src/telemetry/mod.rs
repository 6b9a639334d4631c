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
mod recall;
mod recorder;
mod save;
mod short;
mod summarize;
mod trim;
mod turn;

pub use self::options::{CaptureContent, CaptureContentError, Telemetry};
#[cfg(feature = "otel")]
pub use self::propagation::inject_context;
#[cfg(all(feature = "otel", feature = "http"))]
pub use self::propagation::inject_headers;
pub(crate) use self::{
    call::{CallProperties, ModelCall},
    recall::{RecallStep, prepare},
    recorder::Recorder,
    save::SaveStep,
    summarize::summarize,
    trim::{PlannedPrompt, TrimStep, counted},
    turn::{WaitFor, fail, wait},
};
