//! Lists, erasures and expiries over every store.

mod expiry;
mod in_flight;
mod killed;
mod neighbors;
mod secrets;
pub(crate) mod world;
