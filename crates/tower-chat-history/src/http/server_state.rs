//! Requests whose conversation the provider keeps.

/// The policy for a request whose conversation the provider keeps, such as one with `previous_response_id` or
/// `conversation` in the Responses API. The history cannot be added to it, because the model would get it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnServerState {
    /// The call fails with [`CallError::ServerState`](crate::http::CallError::ServerState).
    #[default]
    Fail,
    /// The request and its response pass through. Nothing is loaded or stored.
    PassThrough,
}
