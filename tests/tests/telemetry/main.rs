//! The exports of a turn as a collector receives them: spans over OTLP, metrics, and the trace context in the
//! model's call. Other tests check that no content is exported.
//!
//! `tracing` caches for the whole process which spans a subscriber wants, so all tests share one subscriber.
//! Each test reads only its own trace.

#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod begins;
mod capture;
mod chats;
mod content;
mod context;
mod dialects;
mod http;
mod ids;
mod interruptions;
mod metrics;
mod names;
mod otlp;
mod paths;
mod quiet;
mod recalls;
mod results;
mod saves;
mod seen;
mod shown;
mod summaries;
mod trace;
mod trims;
mod turns;
