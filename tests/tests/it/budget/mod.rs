//! Prompts fit the budget in every integration: the budget, what it leaves out, and what is stored of that.

mod calibration;
mod call_spec;
mod checks;
mod errors;
mod eviction;
mod model;
mod policies;
mod reply_limit;
mod stack;
mod steps;
mod talk;
mod usage;
mod window;
