//! The metrics of a build without the feature `otel`, which do nothing.
#![allow(clippy::unused_self)] // The methods have the same signatures as with the feature.

use std::time::Duration;

use super::{Telemetry, save::Saved};
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

    pub(super) const fn saved(&self, _: &str, saved: &Saved<'_>) {
        let _ = saved.took;
    }

    pub(super) const fn recalled(&self, _: &RecallReport) {}

    pub(super) const fn summarized(&self, _: &SummaryReport) {}

    pub(super) const fn pending(&self, _: i64) {}
}
