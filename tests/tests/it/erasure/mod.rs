//! Lists, erasures and expiries over every store.

mod expiry;
mod in_flight;
mod killed;
mod late_duplicate;
mod neighbors;
pub(crate) mod secrets;
mod world;
