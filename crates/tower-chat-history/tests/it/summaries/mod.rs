//! Summaries of messages that leave the window, through the engine and through the layer.

mod facts;
mod failures;
mod modes;
mod processes;
mod properties;
pub mod support;
mod trouble;
mod waiting;
