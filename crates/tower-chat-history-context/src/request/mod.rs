//! What a request brings: its messages, which of them are new, and what else counts for a budget.

mod info;
mod input_mode;
mod messages;

pub use self::{info::RequestInfo, input_mode::InputMode, messages::RequestMessages};
