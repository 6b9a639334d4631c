//! Summaries of messages that leave the window, through the engine and through the layer.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

#[path = "summaries/facts.rs"]
mod facts;
#[path = "summaries/failures.rs"]
mod failures;
#[path = "summaries/modes.rs"]
mod modes;
#[path = "summaries/processes.rs"]
mod processes;
#[path = "summaries/properties.rs"]
mod properties;
#[path = "summaries/support.rs"]
mod support;
#[path = "summaries/trouble.rs"]
mod trouble;
#[path = "summaries/waiting.rs"]
mod waiting;
