//! The parts of [`HttpHistory`](crate::http::HttpHistory), for adapters of HTTP clients with request types of their own.
//!
//! The async-openai integration is such an adapter: async-openai's requests are factories, which make a new request for
//! each attempt.

pub use super::{
    headers::{is_stateless, strip as strip_headers},
    request::{fit_headers, open_body},
    response::read_response,
    routes::{Route, warn_without_memory},
};
