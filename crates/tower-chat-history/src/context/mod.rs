//! Fits lists of chat messages into a model's context window, and keeps the lists valid for the provider: token
//! counts, budgets, the view of a log, the plan of a call, and trimming by hand.
//!
//! It is without I/O: it imports no runtime, no threads, files or sockets, and nothing of the rest of this crate.
//! `.ci/structure` checks this. Its public modules are modules of the crate's root.

pub mod budget;
mod opening;
pub(crate) mod plan;
mod request;
mod server_tools;
pub mod tokens;
pub mod trim;
pub mod view;

pub use self::{
    budget::ContextBudget,
    plan::{FitError, InputError, OnOpenTurn, TranscriptError},
    request::{InputMode, RequestInfo, RequestMessages},
    view::{OpenCalls, View},
};
