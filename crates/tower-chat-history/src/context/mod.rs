//! Fits lists of chat messages into a model's context window, and keeps the lists valid for the provider: token counts,
//! budgets, the view of a log, the plan of a call, and trimming by hand.
//!
//! Begin with [`plan::plan_prompt`]. Before each call, the engine gives it the loaded history, the input and the
//! budget, and it returns the messages to send and the cut to store with the exchange.
//!
//! All of this is without I/O: no runtime, no threads, no files or sockets, and nothing of the rest of this crate.
//! `.ci/structure` checks this. The public modules are modules of the crate's root.

pub(crate) mod bridge;
pub mod budget;
pub(crate) mod compat;
pub(crate) mod plan;
mod request;
mod server_tools;
pub mod tokens;
pub mod trim;
pub mod view;

pub use self::{
    budget::ContextBudget,
    plan::OnOpenTurn,
    request::{InputMode, RequestInfo, RequestMessages},
};
