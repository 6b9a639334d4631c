//! What a turn exports, as a collector receives it: spans over OTLP, metrics, and the trace in the model's call. And that
//! nothing of what is said is in it.
//!
//! `tracing` remembers for the whole process which spans somebody wants to see, so the subscriber is one for all tests. Each
//! test looks at its own trace.

#![allow(clippy::unwrap_used)] // A test may.

mod begins;
mod capture;
mod chats;
mod content;
mod context;
mod http;
mod ids;
mod interruptions;
mod metrics;
mod names;
mod otlp;
mod paths;
mod quiet;
mod results;
mod saves;
mod seen;
mod shown;
mod summaries;
mod trace;
mod trims;
mod turns;
