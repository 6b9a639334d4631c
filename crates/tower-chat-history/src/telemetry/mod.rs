#![doc = include_str!("../../docs/telemetry.md")]

mod call;
mod content;
pub mod names;
mod options;
#[cfg(feature = "otel")]
mod otel;
mod prefix_cache;
mod recorder;
mod steps;
mod summarize;
mod turn;

pub use self::options::{CaptureContent, Telemetry};
#[cfg(feature = "otel")]
pub use self::otel::inject_context;
#[cfg(all(feature = "otel", feature = "http"))]
pub use self::otel::inject_headers;
pub(crate) use self::{
    call::{CallProperties, ModelCall},
    recorder::{Recorder, fail},
    steps::{PromptSizes, RecallStep, SaveStep, TrimStep, counted, prepare},
    summarize::summarize,
    turn::{WaitFor, wait},
};

/// The metrics of a build without OpenTelemetry, which do nothing.
#[cfg(not(feature = "otel"))]
#[allow(clippy::unused_self)] // The methods have the same signatures as with the feature.
mod otel {
    use std::time::Duration;

    use super::Telemetry;
    use crate::{
        report::{RecallReport, TurnReport},
        summary::SummaryReport,
    };

    #[derive(Clone)]
    pub(crate) struct Metrics;

    impl Metrics {
        pub(super) const fn new(_: &Telemetry) -> Self {
            Self
        }

        pub(super) const fn turn(&self, _: &str, _: Option<&str>, _: Option<&str>) {}

        pub(super) const fn ended(&self, _: &TurnReport) {}

        pub(super) const fn loaded(&self, _: &str, _: Option<&str>, _: Duration) {}

        pub(super) const fn saved(&self, _: &str, _: Option<&str>, _: Option<&str>, _: Duration) {}

        pub(super) const fn recalled(&self, _: &RecallReport) {}

        pub(super) const fn summarized(&self, _: &SummaryReport) {}

        pub(super) const fn pending(&self, _: i64) {}
    }
}
