//! What is sent fits, through every door: the budget, what is left out for it, and what is stored of that.

mod asked;
mod calibration;
mod checks;
mod errors;
mod kept;
mod model;
mod policies;
mod reply_limit;
mod stack;
mod steps;
mod talk;
mod usage;
mod window;
