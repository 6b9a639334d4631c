//! Tests of the wire.

mod bodies;
mod replies;
mod streams;
