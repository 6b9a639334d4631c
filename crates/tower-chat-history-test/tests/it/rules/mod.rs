//! The rules of the fields of requests, in the order of the tables of the documentation: each refusal with its wording,
//! and the requests next to it that are accepted.

mod messages;
mod responses;
