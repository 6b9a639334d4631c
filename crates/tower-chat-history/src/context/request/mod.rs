//! The parts of a request: its messages, which of them are new, and the other parts that count for a budget.

mod info;
mod input_mode;
mod messages;

pub use self::{info::RequestInfo, input_mode::InputMode, messages::RequestMessages};
